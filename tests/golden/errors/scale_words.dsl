net n(batch = 4) {
    input x : f32[batch, 8];
    param w : f32[8, 4] = normal(0.1);
    param b : f32[4] = zeros;
    loss mean(square(x @ w + b));
}

train {
    data      = normal(seed = 1);
    optimizer = adamw(lr = 0.1);
    steps     = 3;
    decay -1 for w;
    lr for b;
}
