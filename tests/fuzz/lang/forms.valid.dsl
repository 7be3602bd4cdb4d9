net forms(batch = 16, n = 2 ** 3) {
    input x     : float32[batch, 4 * n];
    input label : f32[batch, n];
    param w     : f32[4 * n, n] = normal(0.1);
    param v     : f32[n, n]     = normal(0.1);

    a    = relu((x @ w).shard((2, 4), (4, 1)));
    b    = relu(matmul(a.T.T, v) shard ((8, 1), (1, 1)) -> (8, 1));
    c    = b[0:8, ...][:, None, -1] ** 2 + b[-8:, 1:2] ** -0.5;
    p, q = split(b.reshape(b.shape[0], -1), chunks = 2, dim = 1);
    d    = concat([p, q], 1).softmax(-1).mean(1, keepdim = True);
    e    = where(d > 0, d, -d ** 3) + sum(b, dim = 1, keepdims = true);

    loss mean(square(e) shard ((8, 1))) + c.mean();
}

train {
    data      = numpy_rand(seed = 1);
    optimizer = SGD(learning_rate = 0.1, momentum = 0.9);
}

parallel {
    mode        = auto_parallel;
    search_mode = sharding_propagation;
}
