net t(batch = 4) {
    param w     : f32[batch, 3] = normal(1);
    const label : i32[batch]    = [0, 1, 3, 2];
    loss cross_entropy(w, label);
}
train { optimizer = sgd(lr = 0.1); }
