cell f(x, n, scale = 1.5) {
    require n % 2 == 0 and scale > n;
    y = x * undefined;
    return y;
}

net n(batch = 4) {
    input x : f32[batch, 8, 10];
    y = f(x, 4);
    loss mean(square(y));
}

train {
    data      = normal(seed = 1);
    optimizer = sgd(lr = 0.1);
}
