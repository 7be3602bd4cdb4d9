# Two layers that read digits: 8,000 of MNIST's test images to learn from, 2,000 held out. The files t10k-images-idx3-ubyte.gz and
# t10k-labels-idx1-ubyte.gz lie beside this one; gzip is undone as they are read, by each rank for its own rows.
#
#   pcc mnist.dsl --ranks 4 && mpirun -n 4 prun mnist.plan --save mnist.safetensors
#   prun --ranks 4 --eval --load mnist.safetensors mnist.plan
#   pcc mnist.dsl --ranks 4 --shard 'y=((2, 2), (2, 1))'   # another strategy: the same losses within rounding
net mnist(batch = 100, hidden = 256) {
    input image : f32[batch, 784];
    input label : i32[batch];
    param w1    : f32[784, hidden] = normal(0.03);
    param b1    : f32[hidden]      = zeros;
    param w2    : f32[hidden, 10]  = normal(0.06);
    param b2    : f32[10]          = zeros;

    x      = (image / 255 - 0.1307) / 0.3081;
    h      = relu(matmul(x, w1) + b1);
    y      = matmul(h, w2);
    logits = y + b2;
    loss cross_entropy(logits, label);
}

train {
    data      = files(image = idx("t10k-images-idx3-ubyte.gz", rows = 8000), label = idx("t10k-labels-idx1-ubyte.gz", rows = 8000));
    order     = shuffle(seed = 0);
    optimizer = momentum(lr = 0.05, momentum = 0.9);
    epochs    = 3;
    log_every = 20;
}

eval {
    every   = epoch;
    batch   = 100;
    data    = files(image = idx("t10k-images-idx3-ubyte.gz", first = 8000), label = idx("t10k-labels-idx1-ubyte.gz", first = 8000));
    metrics = loss, accuracy;
}
