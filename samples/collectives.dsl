# Communications by hand, in mode manual: a value is a rank's own, and the net says what is exchanged. Rank r holds [r + 1, 10 (r + 1)].
#
#   pcc collectives.dsl --ranks 4 && mpirun -n 4 prun collectives.plan --print total --print everyone --print part
#
# On 4 ranks the sum is [10, 100] on each, everyone is 1 10 2 20 3 30 4 40, and of 0 to 7, which rank 0 scatters, rank r has [2r, 2r + 1]. A state is printed with the ranks
# as its first dimension.
net collectives {
    param w    : f32[2] = ones;
    const held : f32[2] = [rank + 1, 10 * (rank + 1)];
    const pair : f32[2] = [2 * rank, 2 * rank + 1];

    state total    : f32[2]          = zeros;
    state average  : f32[2]          = zeros;
    state product  : f32[2]          = zeros;
    state largest  : f32[2]          = zeros;
    state smallest : f32[2]          = zeros;
    state at_root  : f32[2]          = zeros;
    state sent     : f32[2]          = zeros;
    state part     : f32[2]          = zeros;
    state everyone : f32[2 * nranks] = zeros;
    state gathered : f32[2 * nranks] = zeros;
    state share    : f32[2]          = zeros;
    state turned   : f32[2 * nranks] = zeros;
    state before   : f32[2]          = zeros;
    state together : f32[2]          = zeros;

    x   = w * held;
    all = all_gather(pair);  # 0 to 2 nranks - 1

    total <- all_reduce(x, sum);
    average <- all_reduce(x, mean);
    product <- all_reduce(x, prod);
    largest <- all_reduce(x, max);
    smallest <- all_reduce(x, min);
    at_root <- reduce(x, sum, root = nranks - 1);
    sent <- broadcast(x, root = nranks - 1);
    part <- scatter(all);
    everyone <- all_gather(x);
    gathered <- gather(x, root = nranks - 1);
    share <- reduce_scatter(all, sum);
    turned <- all_to_all(all + 100.0 * cast(rank, to = f32));

    # Round the ring: each rank gets what the one before it has.
    message = send(x, to = (rank + 1) % nranks);
    before <- recv(message, from = (rank + nranks - 1) % nranks);
    together <- barrier(x);

    loss mean(square(all_reduce(x, mean) - pair));
}

train {
    optimizer = sgd(lr = 0.001);
    steps     = 1;
}

parallel {
    mode = manual;
}
