net q(batch = 16) {
    input x : f32[batch, 4];
    input label : f32[batch, 2];
    param w : f32[4, 2] = normal(0.1);
    y = matmul(x, w);
    s = sum(w);
    loss mse(y, label);
}
train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); steps = 2; }
eval { data = normal(seed = 2); steps = 2; epochs = 2; }
