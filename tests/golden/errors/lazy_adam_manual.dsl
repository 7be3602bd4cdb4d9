net q(batch = 16) {
    input x     : i32[batch];
    param table : f32[32, 8] = normal(0.01);
    loss mean(embedding(table, x));
}
train {
    data = normal(seed = 1);
    optimizer = lazy_adam(lr = 0.1);
}
parallel { mode = manual; }
