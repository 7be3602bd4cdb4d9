net n(batch = 8) {
    input x : f32[batch, 16];
    param w : f32[16, 16] = normal(0.1);
    y = matmul(x, w);
    loss mean(y * y);
}

train {
    data      = normal(seed = 1);
    optimizer = sgd(lr = 0.1);
    steps     = 2;
}

hints found {
    shard_states = parameters;
    memory       = 4 MiB;
}
