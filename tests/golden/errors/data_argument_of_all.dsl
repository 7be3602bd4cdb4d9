net q(batch = 16) {
    input x : f32[batch, 4];
    input y : f32[batch, 2];
    param w : f32[4, 2] = normal(0.1);
    loss mse(matmul(x, w), y);
}
train { data = files(x = npy("x.npy"), y = csv("y.csv"), first = 10, missing = drop); optimizer = sgd(lr = 0.1); }
