net n(b = 2, places = 16) {
    input token : i32[b, 16];
    input seen  : f32[b, 16];
    input label : i32[b];
    param table : f32[256, 4] = normal(0.5);
    x = embedding(table, token) * reshape(seen, shape = [b, places, 1]);
    loss cross_entropy(sum(x, axes = 1), label);
}

train {
    data      = files(token = csv("d.csv", column = "t", tokens = bytes, length = [4, 16]),
                      seen = csv("d.csv", column = "t", tokens = bytes, give = mask, length = [4, 16]),
                      label = csv("d.csv", column = "y"));
    optimizer = sgd(lr = 0.1);
}
