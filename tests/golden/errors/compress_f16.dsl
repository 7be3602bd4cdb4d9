net n(batch = 4) {
    input x : f32[batch, 8];
    param w : f32[8, 4] = normal(0.1);
    loss mean(square(x @ w));
}

train {
    data       = normal(seed = 1);
    optimizer  = sgd(lr = 0.1);
    compress   = f16;
}
