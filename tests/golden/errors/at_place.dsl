# flags: --ranks 4 --shard t=at(1)
net q(batch = 16) {
    input x : i32[batch] shard at(0);
    param w : f32[32, 8] = normal(0.01) shard at(4);
    param v : f32[8, 8] = normal(0.01) shard at(1, 2);
    param u : f32[8, 8] = normal(0.01) shard at(1) -> (4, 1);
    param t : f32[8, 8] = normal(0.01) shard at(0);
    param s : f32[8, 8] = normal(0.01) shard at(0);
    h = embedding(w, x) shard at(1);
    loss mean(h @ v @ u @ t @ s);
}
train {
    data = numpy_rand(seed = 1);
    optimizer = sgd(lr = 0.1);
}
hints {
    h = at(2);
    s = at(1);
    w* = at(1);
}
