net n(b = 8) {
    input x : f32[b, 4];
    param w : f32[4, 4] = normal(0.1);
    h = matmul(x, w);
    loss mean(h);
}

train {
    data      = numpy_rand(seed = 1);
    optimizer = sgd(lr = 0.1);
}

parallel {
    assert comm < 2 MiB;
    assert memory <= 1.5 GiB;
    assert time < 30 ms;
    forbid all_gather at **.w;
    forbid exchange;
}
