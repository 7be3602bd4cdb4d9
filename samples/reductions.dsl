# Reductions over axes, transpose and reshape: the rows are normalized to mean 0 and variance 1, then viewed as blocks.
net reductions(batch = 12, dim = 16, blocks = 4, eps = 1e-5) {
    width = dim / blocks;
    input x     : f32[batch, dim];
    input label : f32[batch, blocks];
    param gain  : f32[dim]              = ones;
    param mix   : f32[blocks, width, 1] = normal(0.1);

    center  = x - mean(x, axes = 1, keep_dims = true);
    norm    = center / sqrt(mean(center * center, axes = 1, keep_dims = true) + eps);
    split   = reshape(norm * gain, shape = [batch, blocks, width]);
    columns = transpose(split, perm = [1, 0, 2]);
    y       = reshape(matmul(columns, mix), shape = [blocks, -1]);

    loss mse(transpose(y), label, reduction = mean);
}

train {
    data      = numpy_rand(seed = 7);
    optimizer = momentum(lr = 0.1, momentum = 0.9);
    seed      = 11;
    epochs    = 2;
    steps     = 5;
}
