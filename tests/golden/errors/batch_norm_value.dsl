net q(batch = 16) {
    input x : f32[batch, 32];
    input y : f32[batch, 8];
    param w : f32[32, 8] = normal(0.01);
    h = matmul(x, w);
    loss mse(h, y);
}
train {
    data = numpy_rand(seed = 1);
    optimizer = sgd(lr = 0.1);
}
parallel {
    batch_norm = average;
}
