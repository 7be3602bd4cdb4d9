# flags: --ranks 8
net q(batch = 16) {
    input x : f32[batch, 32];
    param w : f32[32, 8] = normal(0.01);
    h = tanh(matmul(x, w));
    y = tanh(h * h);
    loss mean(y) + nothing;
}
train {
    data = normal(seed = 1);
    optimizer = sgd(lr = 0.1);
}
parallel {
    pipeline_scheduler = gpipe;
}
