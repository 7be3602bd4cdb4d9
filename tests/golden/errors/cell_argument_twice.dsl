cell f(x, scale) {
    return x * scale;
}

net q(batch = 16) {
    input x : f32[batch, 8];
    loss sum(f(x, 2, scale = 3));
}

train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); }
