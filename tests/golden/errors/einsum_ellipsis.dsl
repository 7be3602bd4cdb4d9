net n(b = 2) {
    input q : f64[b, 4, 2, 8];
    param k : f64[2, 6, 2, 8] = normal(0.5);
    s = einsum("...d,bshd->bhts", q, k);
    loss mean(square(s));
}

train {
    data      = normal(seed = 1);
    optimizer = sgd(lr = 0.1);
}
