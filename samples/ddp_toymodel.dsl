# The ToyModel of PyTorch's DDP tutorial: Linear(10, 10), ReLU, Linear(10, 5) on rows of its own on each rank; gradients are averaged.
#
#   pcc ddp_toymodel.dsl --ranks 8 && mpirun -n 8 prun ddp_toymodel.plan
#
# On two nodes of four ranks, without MPI, on either of them with its own number behind --node-rank:
#
#   prun --nproc 4 --nnodes 2 --node-rank 0 --master-addr ADDRESS --master-port 1234 ddp_toymodel.plan
net ddp_toymodel(batch = 20) {
    input x      : f32[batch, 10];
    input target : f32[batch, 5];

    # nn.Linear's initial values: uniform in +-1/sqrt(10)
    param w1 : f32[10, 10] = uniform(-0.31622776601683794, 0.31622776601683794);
    param b1 : f32[10]     = uniform(-0.31622776601683794, 0.31622776601683794);
    param w2 : f32[10, 5]  = uniform(-0.31622776601683794, 0.31622776601683794);
    param b2 : f32[5]      = uniform(-0.31622776601683794, 0.31622776601683794);

    h = relu(matmul(x, w1) + b1);
    y = matmul(h, w2) + b2;
    loss mse(y, target);
}

train {
    data      = normal(seed = 0);  # randn(20, 10) and randn(20, 5), other rows on every rank
    optimizer = sgd(lr = 0.001);
    log "[{pid}] (rank = {rank}, local_rank = {local_rank}) loss = {loss}" on all;
}

parallel {
    mode = data_parallel;
}
