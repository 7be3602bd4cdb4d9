# flags: --ranks 2
net q {
    param w : f32[3] = ones;
    loss mean(all_reduce(w));
}

train {
    data = normal(seed = 1);
    optimizer = sgd(lr = 0.1);
}

parallel {
    mode = manual;
    gradients = mean;
    shard_states = parameters;
}
