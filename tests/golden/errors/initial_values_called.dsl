net q(batch = 16) {
    input x : f32[batch, 8];
    a = xavier(x);
    b = causal(-1e9);
    c = x * ciel_div(9, 2);
    loss sum(x);
}

train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); }
