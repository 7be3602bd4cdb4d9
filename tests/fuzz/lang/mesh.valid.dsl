# Named axes: two layers as Megatron shards them. The first weight is split by columns, the second by rows, so that between them nothing is
# sent; the partial sums of the second are added up and left split over both axes.
net mesh(batch = 16, dim = 32, hidden = 64) {
    input x     : f32[batch, dim];
    input label : f32[batch, dim];
    param up    : f32[dim, hidden] = normal(0.05) shard (-, tp);
    param down  : f32[hidden, dim] = normal(0.05) shard (tp, -);

    h = matmul(x, up) shard ((dp, -), (-, tp));
    y = matmul(relu(h), down) shard ((dp, tp), (tp, -)) -> (dp.tp, -);

    loss mse(y, label);
}

train {
    data      = numpy_rand(seed = 1);
    optimizer = sgd(lr = 0.5);
    epochs    = 2;
    steps     = 5;
}

parallel {
    mode    = auto;
    mesh (dp = 2, tp = 4);
    dataset = ((dp, -), (dp, -));
}
