net q(batch = 16) {
    input x : f32[batch, 3072];
    input label : i32[batch];
    param w : f32[3072, 10] = normal(0.1);
    loss cross_entropy(matmul(x, w), label);
}
train { data = cifar10("data_batch_1.bin", pad = 4, crop = 32, flip = true); optimizer = sgd(lr = 0.1); }
