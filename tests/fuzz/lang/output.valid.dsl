# Output strategies: -> (8, 1) turns the AllReduce of a matmul with a split contraction into a ReduceScatter. Strategies on a parameter and
# on an input say how they lie on the ranks between steps.
net output(batch = 16, dim = 32) {
    input x     : f32[batch, dim] shard (2, 4);
    input label : f32[batch, dim];
    param w     : f32[dim, dim] = uniform(-0.1, 0.1) shard (8, 1);
    param w2    : f32[dim, dim] = uniform(-0.1, 0.1);

    h = matmul(x, w) shard ((2, 4), (4, 1)) -> (8, 1);
    y = matmul(tanh(h), w2, transpose_b = true);

    loss mse(y, label);
}

train {
    data      = numpy_rand(seed = 3);
    optimizer = momentum(lr = 0.2, momentum = 0.9);
    steps     = 10;
}
