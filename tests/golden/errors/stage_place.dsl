cell double(x) {
    return x + x stage 1;
}
net q(stage = 16) {
    input x : f32[stage, 32];
    param w : f32[32, 8] = normal(0.01);
    h = matmul(x, w);
    g = h stage 1;
    a = relu(h stage 1);
    b = double(h);
    loss mean(b) stage 1;
}
train {
    data = numpy_rand(seed = 1);
    optimizer = sgd(lr = 0.1);
}
parallel {
    stages = 2;
}
