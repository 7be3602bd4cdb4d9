net q(batch = 4) {
    input x : f32[batch, 4, 6, 6];
    wide = upsample(x, scale_factor = 2) shard ((1, 1, 3, 1));
    edge = pad(x, before = [0, 0, 0, 0], after = [0, 0, 1, 0]) shard ((2, 1, 1, 1), (1));
    loss mean(wide) + mean(edge);
}
train {
    data = numpy_rand(seed = 1);
    optimizer = sgd(lr = 0.1);
}
