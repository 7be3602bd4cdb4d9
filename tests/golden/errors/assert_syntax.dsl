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
    bucket comm < 3;
    assert comm <;
    assert comm < 2 MiB at layer.*;
    forbid all_gather at;
    forbid all_gather at 3 4;
    forbid all_gather in w;
    memory = 3 GB;
    assert;
    forbid;
    forbid all_reduce, all_gather;
}
