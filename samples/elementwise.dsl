# Logistic regression written out: infix operators, broadcasting, constants, scalars beside tensors. The loss is the mean of
# log(1 + exp(-s z)) with s = +1 or -1.
net elementwise(batch = 24, features = 10) {
    input x     : f64[batch, features];
    input t     : f64[batch];
    param w     : f64[features] = zeros;
    param b     : f64           = 0.5;
    const scale : f64[features] = [1, 1, 1, 1, 1, 2, 2, 2, 2, 2];

    z     = sum(x / scale * w, axes = 1) + b;
    s     = 2 * (t - 0.5);
    decay = 1e-3 * sum(w * w);

    loss mean(log(1 + exp(-(s * z)))) + decay;
}

train {
    data      = numpy_rand(seed = 5);
    optimizer = sgd(lr = 0.1);
    epochs    = 2;
    steps     = 10;
    log_every = 5;
}
