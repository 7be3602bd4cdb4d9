net q(batch = 16, parts = 4) {
    input x : f32[batch, 32];
    input label : f32[batch, 8];
    param w : f32[32, 8] = normal(0.1);
    loss mse(matmul(x, w), label);
}
train {
    data          = normal(seed = 1);
    optimizer     = sgd(lr = 0.1);
    steps         = 2;
    micro_batches = parts;
}
