net q(batch = 16, deep = 0) {
    input x : f32[batch, 8];
    if deep {
        h = relu(x);
    } else if deep > 1 {
        g = tanh(x);
    }
    y = h + g;
    loss sum(y);
}

train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); }
