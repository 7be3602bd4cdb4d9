cell double(x) {
    return x + x;
}
net q(batch = 16) {
    input x : f32[batch, 32];
    param w : f32[32, 8] = normal(0.01);
    h = matmul(x, w);
    for stage in 0..2 { h = relu(h) stage stage; }
    a = relu(h) stage 0;
    b = double(h);
    loss mean(b);
}
train {
    data = numpy_rand(seed = 1);
    optimizer = sgd(lr = 0.1);
}
parallel {
    stages = 2;
}
