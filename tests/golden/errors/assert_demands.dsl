net n(batch = 16) {
    input x : f32[batch, 8];
    param w : f32[8, 4] = normal(0.1);

    for i in 0..2 {
        param v : f32[8, 8] = normal(0.1);
        h = relu(matmul(x, v));
    }
    loss mean(matmul(x, w));
}

train {
    data      = numpy_rand(seed = 1);
    optimizer = sgd(lr = 0.1);
}

parallel {
    assert comm < 2 MB;
    assert memory <= 14 ms;
    assert time < 30;
    assert time < 30 minutes;
    assert traffic < 1 KiB;
    assert comm > 1 KiB;
    assert comm >= 1;
    assert comm 5;
    assert comm;
    assert (2);
    assert memory < 0 - 1;
    assert = 3;
}
