net n(batch = 4) {
    require batch % 8 == 0 "batch is a multiple of 8";
    input x : f32[batch, 8, 10];
    y = relu(x);
    loss mean(square(y));
}

train {
    data      = normal(seed = 1);
    optimizer = sgd(lr = 0.1);
}
