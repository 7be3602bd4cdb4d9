# For refused.sh: windows over height and width that are split, with strides, dilation and padding, and their gradients.
net planes(batch = 2) {
    input x : f64[batch, 2, 13, 11];
    param w : f64[4, 2, 3, 3] = normal(0.3);
    param v : f64[2, 4, 3, 2] = normal(0.3);

    a = conv2d(x, w, padding = 1, stride = [2, 1]) shard ((1, 1, 3, 2), (1, 1, 1, 1));
    b = conv2d(tanh(a), v, padding = [2, 0], dilation = [2, 1]) shard ((1, 1, 6, 1), (1, 1, 1, 1));
    c = max_pool(b, kernel_size = 3, stride = [1, 2], padding = 1) shard ((1, 1, 3, 2));
    d = avg_pool(c, kernel_size = 2, stride = 1) shard ((1, 1, 3, 1));

    loss mean(d * d);
}

train {
    data      = numpy_rand(seed = 5);
    optimizer = sgd(lr = 0.1);
    steps     = 2;
}
