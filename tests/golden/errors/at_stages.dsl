# flags: --ranks 4
net q(batch = 16) {
    input x : i32[batch];
    param w : f32[32, 8] = normal(0.01) shard at(2);
    h = embedding(w, x);
    loss mean(tanh(h));
}
train {
    data = numpy_rand(seed = 1);
    optimizer = sgd(lr = 0.1);
}
parallel {
    stages = 2;
}
