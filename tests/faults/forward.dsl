# For refused.sh: operators without gradients, whose factors must be those of the forward operators, so that wrong letters get as far as the proof.
net forward(batch = 14, dim = 10) {
    input x : f64[batch, dim];
    input y : f64[6, 6, 6];
    input z : f64[6, 6, 6];
    param k : f64[6] = normal(0.3);

    given = transpose(z, perm = [1, 2, 0]) shard ((2, 3, 1));
    both  = matmul(y, z) shard ((1, 2, 1), (1, 1, 3));
    row   = reshape(x, shape = [-1]);

    loss mean(given * both) + mean(row * tanh(row)) + sum(k * k);
}

train {
    data      = numpy_rand(seed = 5);
    optimizer = sgd(lr = 0.1);
    steps     = 2;
}
