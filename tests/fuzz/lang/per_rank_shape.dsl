net q {
    input x : f32[2];
    param w : f32[2] = zeros;
    loss mean(x * w);
}
parallel { mode = data_parallel; }
train {
    data = per_rank(x = [[1, 2], [1, 2], [1, 2], [1, 2], [1, 2], [1, 2], [1, 2], [1]]);
    optimizer = sgd(lr = 0.1);
}
