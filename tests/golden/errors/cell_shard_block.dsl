cell linear(x, out, scale = 0.1) {
    param weight : f32[size(x, -1), out] = normal(scale);
    return matmul(x, weight);
}
cell mlp(x) {
    fc1 = linear(x, 8);
    fc2 = linear(fc1, 8);
    return fc2;
}

net q(batch = 16) {
    input x : f32[batch, 8];
    input t : f32[batch, 8];
    y = mlp(x) shard { fc3 = ((8, 1), (1, 1)); };
    loss mse(y, t);
}

train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); }
