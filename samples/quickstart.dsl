net quickstart(batch = 16, in_dim = 32, hidden_dim = 16, out_dim = 16) {
    input x     : f32[batch, in_dim];
    input label : f32[batch, out_dim];
    param w     : f32[in_dim, hidden_dim]  = normal(0.01);
    param w2    : f32[hidden_dim, out_dim] = normal(0.01);

    h = matmul(x, w) shard ((2, 4), (4, 1));
    a = relu(h);
    y = matmul(a, w2);

    loss mse(y, label);
}

train {
    data      = numpy_rand(seed = 1, rows = 2);      # MindSpore's: every rank draws the same 2 rows
    optimizer = momentum(lr = 0.4, momentum = 0.1);  # MindSpore's tutorial: its text has lr 0.2, the losses that it prints come from 0.4
    epochs    = 5;
    steps     = 4;                                   # per epoch
}

parallel {
    mode    = auto;           # stand_alone | data_parallel | semi_auto | auto
    search  = sharding_propagation;
    dataset = data_parallel;  # | full_batch | a strategy | auto (default): as the first consumer wants it
}
