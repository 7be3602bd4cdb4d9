# flags: --ranks 4
net q {
    input x : f32[4, 8];
    param w : f32[8, 6] = ones;

    m = send(x, to = (rank + 1) % nranks);
    a = recv(m, from = (rank + 1) % nranks);
    n = send(x, to = 1 - 2 * (rank > 0));
    b = recv(n, from = 0 * rank - 1);
    o = send(x, to = rank + 1);
    p = send(x, to = (rank + 1) % nranks);
    c = recv(p, from = (rank + nranks - 1) % nranks);
    d = recv(p, from = (rank + nranks - 1) % nranks);
    e = recv(x, from = rank);
    f = all_gather(p);
    g = p + x;
    h = send(x, to = rank);
    loss mean(x @ w);
}

train {
    data = normal(seed = 1);
    optimizer = sgd(lr = 0.1);
}

parallel {
    mode = manual;
}
