# flags: --ranks 6
net q(batch = 8) {
    input x : f32[batch, 32];
    param w : f32[32, 8] = normal(0.01);
    h = tanh(matmul(x, w));
    y = tanh(h * h);
    loss mean(y);
}
train {
    data = normal(seed = 1);
    optimizer = sgd(lr = 0.1);
    micro_batches = 4;
}
parallel {
    stages = 3;
    chunks = 2;
}
