# ResNet-50 on CIFAR-10, as MindSpore's example of training on several GPUs has it: 32 pictures a rank of 8, cut at random, flipped, and brought to 224 x 224. The last
# layer begins with zeros, so that the first loss is ln 10 on any data: 2.3025851, where that example prints the f32 above it, 2.3025854. The binary version of CIFAR-10 (cs.toronto.edu/~kriz/cifar.html) lies beside this file, in
# cifar-10-batches-bin.
#
#   pcc resnet_cifar.dsl --ranks 8 && prun --ranks 8 resnet_cifar.plan
#   pcc resnet_cifar.dsl --ranks 2 -D batch=32 -D side=32 -o small.plan && prun --ranks 2 small.plan     # without enlarging them
import "nn.dsl";

net resnet_cifar(batch = 256, side = 224, width = 64, classes = 10) {
    input image : f32[batch, 3, side, side];
    input label : i32[batch];

    conv1  = conv2d(image, width, 7, stride = 2, padding = 3, with_bias = false);
    bn1    = batch_norm(conv1);
    pool   = max_pool(relu(bn1), kernel_size = 3, stride = 2, padding = 1);
    layer1 = pool;
    for i in 0..3 {
        layer1 = bottleneck(layer1, width);
    }
    layer2 = layer1;
    for i in 0..4 {
        layer2 = bottleneck(layer2, 2 * width, stride = max(2 - i, 1));
    }
    layer3 = layer2;
    for i in 0..6 {
        layer3 = bottleneck(layer3, 4 * width, stride = max(2 - i, 1));
    }
    layer4 = layer3;
    for i in 0..3 {
        layer4 = bottleneck(layer4, 8 * width, stride = max(2 - i, 1));
    }
    fc = linear(global_avg_pool(layer4), classes, std = 0.0);

    loss cross_entropy(fc, label);
}

train {
    data      = cifar10("cifar-10-batches-bin/data_batch_*.bin", pad = 4, crop = 32, flip = true, scale = 1.0 / 255, mean = [0.4465, 0.4822, 0.4914], deviation = [0.2010, 0.1994, 0.2023]);
    order     = shuffle(seed = 0);
    optimizer = momentum(lr = 0.01, momentum = 0.9);
    epochs    = 10;
}

eval {
    every   = epoch;
    data    = cifar10("cifar-10-batches-bin/test_batch.bin", scale = 1.0 / 255, mean = [0.4465, 0.4822, 0.4914], deviation = [0.2010, 0.1994, 0.2023]);
    metrics = loss, accuracy, top5;
}
