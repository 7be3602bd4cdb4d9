net q(batch = 16) {
    input x : f32[batch, 32];
    param w : f32[32, 8] = normal(0.01);
    param v : f32[8, 8] = normal(0.01);
    h = relu(matmul(x, w)) stage 0;
    y = matmul(h, v) stage 1;
    loss mean(y);
}
train {
    data = numpy_rand(seed = 1);
    optimizer = sgd(lr = 0.1);
}
