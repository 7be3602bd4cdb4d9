# flags: --ranks 8
net q(batch = 16) {
    input x : f32[batch, 32];
    param w : f32[32, 8] = normal(0.01);
    h = tanh(matmul(x, w));
    loss mean(h);
}
train {
    data = numpy_rand(seed = 1);
    optimizer = sgd(lr = 0.1);
}
parallel {
    stages = auto;
}
# chunks = 2
hints found {
    h.matmul = stage 0;
    h = stage 15;
}
