# The checkpoint demonstration of PyTorch's DDP tutorial: rank 0 saves the parameters, all ranks load them and take a step together, and the file is deleted. A run with
# --save ends, on all ranks, when the file is whole, and --load reads it on every rank: the tutorial's barriers are the ends of these runs. --check-replicas
# shows that the parameters are equal bit for bit on all ranks.
#
#   pcc ddp_checkpoint.dsl --ranks 4 -D updates=0 -o save.plan && mpirun -n 4 prun save.plan --save model.safetensors
#   pcc ddp_checkpoint.dsl --ranks 4 && mpirun -n 4 prun ddp_checkpoint.plan --load model.safetensors --check-replicas
#   rm model.safetensors
cell linear(x, out, bound = 1 / sqrt(size(x, -1))) {
    param weight : f32[size(x, -1), out] = uniform(-bound, bound);
    param bias   : f32[out]              = uniform(-bound, bound);
    return matmul(x, weight) + bias;
}

net ddp_checkpoint(batch = 20, updates = 1) {
    input x      : f32[batch, 10];
    input target : f32[batch, 5];

    net1 = linear(x, 10);
    net2 = linear(relu(net1), 5);
    loss mse(net2, target);
}

train {
    data      = normal(seed = 0);
    optimizer = sgd(lr = 0.001);
    steps     = updates;
}

parallel {
    mode = data_parallel;
}
