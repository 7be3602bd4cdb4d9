# Trained on one set of rows and measured on another after every epoch, each of its 37 * 8 rows once, on any number of ranks.
net evaluation(batch = 16, in_dim = 12, hidden_dim = 24, out_dim = 4) {
    input x     : f32[batch, in_dim];
    input label : f32[batch, out_dim];
    param w     : f32[in_dim, hidden_dim]  = normal(0.3);
    param b     : f32[hidden_dim]          = zeros;
    param w2    : f32[hidden_dim, out_dim] = normal(0.3);

    h = tanh(matmul(x, w) + b);
    y = matmul(h, w2);

    loss mse(y, label);
}

train {
    data      = normal(seed = 1);
    optimizer = momentum(lr = 0.05, momentum = 0.9);
    epochs    = 3;
    steps     = 4;
}

eval {
    every   = epoch;
    batch   = 37;  # another batch than training's, which no number of ranks divides
    data    = normal(seed = 2);
    steps   = 8;
    metrics = loss;
    predict = y;   # what prun --predict writes
}
