net q(batch = 16) {
    input x : f32[batch, 8];
    if detph > 2 {
        loss sum(x);
    } else {
        loss mean(x);
    }
}

train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); }
