# flags: --ranks 4
net q {
    input x : f32[4, 8];
    input label : i32[4];
    param w : f32[8, 6] = ones;
    param deep : f32[1, 1, 1, 1, 1, 1, 1, 2] = ones;
    param seven : f32[1, 1, 1, 1, 1, 1, 2] = ones;
    state kept : f32[8] = zeros;

    a = all_reduce(x, product);
    b = all_reduce(x, sum, over = evns);
    c = all_reduce(x, sum, over = tp);
    d = broadcast(x, root = 1, over = evens);
    e = broadcast(x, root = 4);
    f = all_reduce(label, mean);
    g = all_gather(label == 1);
    h = all_gather(seven);
    i = reduce_scatter(w @ w.T, sum, over = three);
    j = scatter(sum(x));
    k = all_reduce(3, sum);
    l, m = all_reduce(x);
    n = all_reduce(x) shard ((4, 1),);
    o = all_gather(x, axis = 1);
    kept <- x;
    loss mean(x @ w);
}

train {
    data = normal(seed = 1);
    optimizer = sgd(lr = 0.1);
}

parallel {
    mode = manual;
    mesh (dp = 2, tp = 1);
    group (evens = [0, 2], three = [0, 1, 3]);
}
