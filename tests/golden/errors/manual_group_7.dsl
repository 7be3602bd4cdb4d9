# flags: --ranks 4
net q {
    param w : f32[3] = ones;
    loss mean(all_reduce(w, sum, over = dp));
}

train {
    data = normal(seed = 1);
    optimizer = sgd(lr = 0.1);
}

parallel {
    mode = manual;
    mesh (dp = 2, tp = 2);
    group (dp = [0, 1]);
}
