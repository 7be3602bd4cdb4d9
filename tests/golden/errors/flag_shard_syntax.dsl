# flags: --shard =(1,8)
cell linear(x, out, scale = 0.1) {
    param weight : f32[size(x, -1), out] = normal(scale);
    return matmul(x, weight);
}

net q(batch = 16) {
    input x : f32[batch, 8];
    input t : f32[batch, 8];
    y = linear(x, 8);
    loss mse(y, t);
}

train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); }
