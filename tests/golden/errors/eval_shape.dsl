net q(batch = 16) {
    input x : f32[batch, 4];
    input label : f32[batch, 2];
    param w : f32[4, 2] = normal(0.1);
    y = reshape(matmul(x, w), shape = [8, 4]);
    loss mse(y, reshape(label, shape = [8, 4]));
}
train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); steps = 2; }
eval { batch = 3; data = normal(seed = 2); steps = 2; }
