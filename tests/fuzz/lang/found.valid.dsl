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

hints found {
    mesh (a = 2);
    mesh (b = 2);

    h    = ((a, -), (-, -));
    loss = ((b, -));
}
