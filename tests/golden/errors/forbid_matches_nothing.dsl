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
    forbid all_gather at layer.*.fc1;
    forbid all_gather at ww;
}
