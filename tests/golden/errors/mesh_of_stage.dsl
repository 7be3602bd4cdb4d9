# flags: --ranks 4
net q(batch = 16) {
    input x : f32[batch, 32];
    param w : f32[32, 8] = normal(0.01);
    h = tanh(matmul(x, w));
    loss mean(h * h);
}
train {
    data = normal(seed = 1);
    optimizer = sgd(lr = 0.1);
    micro_batches = 4;
}
parallel {
    stages = 2;
    mesh (dp = 2, tp = 2);
}
