# A small perceptron with no hint: every operator splits its batch over the ranks, and the gradients' AllReduce follows.
net mlp_small(batch = 128, in_dim = 784, hidden1 = 256, hidden2 = 128, classes = 10) {
    input x     : f32[batch, in_dim];
    input label : f32[batch, classes];
    param w1    : f32[in_dim, hidden1]  = normal(0.05);
    param w2    : f32[hidden1, hidden2] = normal(0.05);
    param w3    : f32[hidden2, classes] = normal(0.05);

    h1 = relu(matmul(x, w1));
    h2 = relu(matmul(h1, w2));
    y  = matmul(h2, w3);

    loss mse(y, label);
}

train {
    data      = numpy_rand(seed = 1);
    optimizer = sgd(lr = 0.05);
    steps     = 20;
}
