cell inner(x) {
    param w : f32[7, 8] = zeros;
    return matmul(x, w);
}
cell middle(x) {
    for i in 0..2 { x2 = inner(x); }
    return x;
}
cell outer(x) {
    z = middle(x);
    return z;
}

net q(batch = 16) {
    input x : f32[batch, 8];
    input t : f32[batch, 8];
    y = outer(x);
    loss mse(y, t);
}

train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); }
