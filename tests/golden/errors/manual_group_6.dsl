# flags: --ranks 4
net q {
    input x : f32[4, 8];
    param w : f32[8, 6] = ones;
    loss mean(x @ w);
}

train {
    data = normal(seed = 1);
    optimizer = sgd(lr = 0.1);
}

parallel {
    mode = manual; group evens;
}
