cell fc(x, k) {
    h = relu(x);
    return h;
}

net q(batch = 16, k = 8) {
    input x : f32[batch, 8];
    y = fc(x, 2) shard { h = (k, 1); };
    loss sum(y);
}

hints {
    y.h = ((2 * k, 1));
}

train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); }
