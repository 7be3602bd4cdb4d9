# flags: --ranks 2
net q {
    const c : f32[3] = normal(1 + rank);
    param w : f32[3] = uniform(-1 - rank, 1);
    state s : f32[3] = normal(rank + 1);

    s <- w * c;
    loss mean(w * c);
}

train {
    data = normal(seed = 1);
    optimizer = sgd(lr = 0.1);
}

parallel {
    mode = manual;
}
