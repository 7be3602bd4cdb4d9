# flags: --ranks 2
net q {
    param w : f32[3] = ones;
    state s : f32[3] = zeros;

    c = send(w, to = 1 - rank);
    y = recv(c, from = 1 - rank);
    d = c * 2;
    e = reshape(c, shape = [3, 1]);
    s <- c;
    loss sum(c);
}

train {
    data = normal(seed = 1);
    optimizer = sgd(lr = 0.1);
}

parallel {
    mode = manual;
}
