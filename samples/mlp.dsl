# A wide perceptron with no hint: 20 million parameters, so that products dominate a step on one rank, and the gradients' AllReduce counts on
# many.
net mlp(batch = 512, in_dim = 784, hidden = 4096, classes = 10) {
    input x     : f32[batch, in_dim];
    input label : f32[batch, classes];
    param w1    : f32[in_dim, hidden]  = normal(0.01);
    param w2    : f32[hidden, hidden]  = normal(0.01);
    param w3    : f32[hidden, classes] = normal(0.01);

    h1 = relu(matmul(x, w1));
    h2 = relu(matmul(h1, w2));
    y  = matmul(h2, w3);

    loss mse(y, label);
}

train {
    data      = numpy_rand(seed = 1);
    optimizer = momentum(lr = 0.01, momentum = 0.9);
    steps     = 10;
}
