net q(batch = 16) {
    input x : f32[batch, 4];
    param w : f32[4, 2] = normal(0.1);
    loss mean(matmul(x, w));
}
train { data = npy(x = npy("x.npy", scal = 3)); optimizer = sgd(lr = 0.1); }
