net q(batch = 16) {
    input x : f32[batch, 4];
    input label : f32[batch, 2];
    param w : f32[4, 2] = normal(0.1);
    y = matmul(x, w);
    loss mse(y, label);
}
train { data = npy(x = "x.npy", label = "y.npy"); optimizer = sgd(lr = 0.1); }
eval { data = npy(x = "new.npy"); }
