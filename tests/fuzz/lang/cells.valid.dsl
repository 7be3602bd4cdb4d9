let k = 2;
cell linear(x, out, bias = true, std = 1 / sqrt(size(x, -1))) {
    param weight : f32[size(x, -1), out] = normal(std);
    y = matmul(x, weight) shard;
    if bias { param b : f32[out] = zeros; y = y + b; }
    return y;
}
cell both(x, n) { return linear(x, n), relu(x); }
net q(batch = 16, dim = 8, n = 3) {
    input x : f32[batch, dim];
    h = x;
    for i in 0..n {
        for j in i..n { h = linear(h, ceil_div(dim, 3) * k) shard ((2, 4), (4, 1)); }
        if i == 0 or not (i >= 2 and true) { h = tanh(h); } else if i != 1 { h = -h; } else { h = h * max(i, 2.5); }
    }
    a, b = both(h, min(ndim(x) + 2, 4)) shard { linear = ((8, 1), (1, 1)); };
    loss mean(a) + mean(b);
}
train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); }
hints { h.0.*.b = (2); x = (8, 1); **.weight = (2, 2) ; }
