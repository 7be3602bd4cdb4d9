net n() {
    input x : f32[4, 4];
    param w : f32[4, 4] = zeros;
    h = matmul(x, w);
    a = h recompute;
    loss mean(a);
}
train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); }
