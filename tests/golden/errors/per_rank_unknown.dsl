net q {
    input x : f32[2];
    param w : f32[2] = zeros;
    loss mean(x * w);
}
parallel { mode = data_parallel; }
train {
    data = per_rank(xx = [1]);
    optimizer = sgd(lr = 0.1);
}
