net divisor_override(batch = 4) {
    input x : f32[batch, 6, 6];

    param w : f32[] = ones;
    loss mean(w * avg_pool(x, kernel_size = 2, divisor_override = 0));
}

train {
    data      = numpy_rand(seed = 1);
    optimizer = sgd(lr = 0.1);
}
