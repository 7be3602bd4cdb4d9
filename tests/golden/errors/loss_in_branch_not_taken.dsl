net q(batch = 16, deep = 0) {
    input x : f32[batch, 8];
    if deep {
        loss sum(x);
    }
}

train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); }
