cell f(x) {
    return relu(z);
}

net q(batch = 16) {
    input x : f32[batch, 8];
    input t : f32[batch, 8];
    a = f(x);
    b = f(a);
    for i in 0..5 { b = f(b); }
    y = f(b);
    loss mse(y, t);
}

train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); }
