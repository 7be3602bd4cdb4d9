net n(batch = 4) {
    input x : f32[batch, 8];
    param w : f32[8, 4] = normal(0.1);
    param b : f32[4] = zeros;
    loss mean(square(x @ w + b));
}

train {
    data      = normal(seed = 1);
    optimizer = sgd(lr = 0.1, momentum = 0.9, nesterov = 2);
    steps     = 3;
}
