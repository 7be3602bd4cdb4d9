net q {
    input x : f32[4, 2];
    param w : f32[2, 1] = normal(0.1);
    loss mean(matmul(x, w));
}
train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); steps = 2; early_stop loss; }
