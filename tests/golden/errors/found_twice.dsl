net n(batch = 4) {
    input x : f32[batch, 8];
    param w : f32[8, 8] = normal(0.1);
    loss mean(matmul(x, w));
}

train {
    data      = normal(seed = 1);
    optimizer = sgd(lr = 0.1);
    steps     = 1;
}

hints found {
    micro_batches = 2;
    shard_states = parameters;
    micro_batches = 4;
    shard_states = none;
}
