# OneFlow's data parallel quick start: two ranks, each with its own two rows; the gradients are averaged. It prints the loss of each rank
# every 50 steps, and at the end w is [[2.0000], [3.0000]].
#
#   pcc oneflow_ddp.dsl --ranks 2 && mpirun -n 2 prun oneflow_ddp.plan --print w
net oneflow_ddp {
    input x : f32[2, 2];
    input y : f32[2, 1];
    param w : f32[2, 1] = zeros;

    loss mse(matmul(x, w), y, reduction = sum);
}

train {
    data      = per_rank(x = [[[1, 2], [2, 3]], [[4, 6], [3, 1]]],
                         y = [[[8], [13]], [[26], [9]]]);
    optimizer = sgd(lr = 0.01);
    steps     = 500;
    log_every = 50;
}

parallel {
    mode      = data_parallel;
    gradients = mean;
}
