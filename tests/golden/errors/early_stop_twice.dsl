net q(batch = 16) {
    input x : f32[batch, 4];
    param w : f32[4, 2] = normal(0.1);
    loss mean(matmul(x, w));
}
train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); steps = 2; early_stop loss patience 3 patience 4; }
eval { data = normal(seed = 2); steps = 2; }
