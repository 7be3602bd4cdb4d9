# Rows that are split, forward and backward, for refused.sh.
net rows(batch = 6) {
    input x     : f32[batch, 5];
    input label : f32[batch, 12];
    param w     : f32[5, 12] = normal(0.5);
    param v     : f32[5, 12] = normal(0.5);
    y = softmax(matmul(x, w)) shard ((2, 3));
    z = log_softmax(matmul(x, v)) shard ((1, 6));
    loss mse(y + z, label);
}
train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); steps = 1; }
parallel { mode = auto; }
