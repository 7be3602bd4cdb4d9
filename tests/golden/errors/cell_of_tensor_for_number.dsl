cell f(x) {
    return relu(x);
}

net q(batch = 16) {
    input x : f32[batch, 8];
    input t : f32[batch, f(x)];
    loss sum(x);
}

train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); }
