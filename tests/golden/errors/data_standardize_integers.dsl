net q(batch = 16) {
    input x : f32[batch, 4];
    input label : i32[batch];
    param w : f32[4, 2] = normal(0.1);
    loss cross_entropy(matmul(x, w), label);
}
train { data = csv("d.csv", standardize = true); optimizer = sgd(lr = 0.1); }
