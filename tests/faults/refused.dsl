# What the samples lack, for refused.sh: a bias behind a partial sum, quotients, a product of two sums, batches that broadcast, uneven shares everywhere, a value that is
# needed in two layouts.
net refused(batch = 14, dim = 10, width = 9) {
    input x  : f64[batch, dim];
    input t  : f64[batch];
    param w  : f64[dim, width] = normal(0.3);
    param w2 : f64[dim, width] = normal(0.3);
    param b  : f64[width]      = normal(0.3);
    param c  : f64[3, width, 5] = normal(0.3);
    param unit : f64[width]    = ones;
    param k  : f64[4, 4, 4]    = normal(0.3);
    param kk : f64[4, 4, 4]    = normal(0.3);
    input z1 : f64[dim, width];
    input z2 : f64[dim, width];
    input z3 : f64[4, 4, 4];
    param w3 : f64[dim, width] = normal(0.3);
    param w4 : f64[dim, width] = normal(0.3);

    h = matmul(x, w) shard ((-, q), (q, -));
    g = matmul(x, w2) shard ((-, q), (q, -));
    m = matmul(x, w3) shard ((-, q), (q, -));
    u = matmul(x, z1) shard ((-, q), (q, -));
    v = matmul(x, z2) shard ((-, q), (q, -));
    n = matmul(x, z1 - z2) shard ((-, q), (q, -));
    biased  = m + b shard ((p, -), (-));
    uv      = u * v shard ((p, -), (p, -));
    vv      = square(n) shard ((p, -));
    line    = sum(biased, axes = 1) shard ((p, -));
    data    = sum(uv, axes = 1) shard ((p, -));
    squares = sum(vv, axes = 1) shard ((p, -));
    r       = matmul(x, w4) shard ((p, q), (q, -));
    whole   = tanh(r) shard ((-, -));
    product = sum(h * g, axes = 1);
    ratio   = sum((h - 2 * b) / (unit * unit + 1), axes = 1);
    cube    = matmul(tanh(h * 1), c) shard ((p, -), (-, -, q));
    turned  = transpose(cube, perm = [2, 1, 0]);
    once    = transpose(k, perm = [1, 2, 0]) shard ((p, q, -));
    cycle   = transpose(transpose(kk, perm = [1, 2, 0]), perm = [1, 2, 0]);
    kept    = tanh(k * 2) shard ((p, -, -));
    one     = square(kept) shard ((-, p, -));
    other   = exp(kept) shard ((-, -, p));
    flat    = mean(reshape(turned, shape = [5, -1]), axes = 0);

    loss mean(square(-(-line) + product - ratio - t)) + mean(exp(tanh(flat)) / 2) + mean(sqrt(flat * flat + 1)) + mean(log(unit * unit + 3))
        + sum(once * z3) + sum(cycle * k) + mean(data) + mean(squares) + mean(whole) + mean(one) + mean(other);
}

train {
    data      = numpy_rand(seed = 5);
    optimizer = momentum(lr = 0.1, momentum = 0.9);
    steps     = 2;
}

parallel {
    mesh (p = 2, q = 3);
}
