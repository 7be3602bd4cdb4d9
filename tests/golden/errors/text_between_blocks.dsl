net q(batch = 16) {
    param w : f32[4] = ones;
    loss sum(w * w);
}
(batch = 3)
train {
    optimizer = sgd(lr = 0.1);
}
