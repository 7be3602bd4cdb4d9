net t(batch = 4) {
    input label : f32[batch];
    param w     : f32[batch, 3] = normal(1);
    loss cross_entropy(w, label);
}
train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); }
