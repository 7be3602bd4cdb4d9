# ResNet-50 (He et al. 2015) on images of 224 x 224: 25,557,032 parameters, named as torchvision's: its safetensors load as they are.
#
#   pcc resnet50.dsl --ranks 8 --stats
#   pcc resnet50.dsl --ranks 8 -D side=32 -D batch=64 -o small.plan && prun --ranks 8 small.plan
import "nn.dsl";

net resnet50(batch = 256, side = 224, width = 64, classes = 1000) {
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
    fc = linear(global_avg_pool(layer4), classes);

    loss cross_entropy(fc, label);
}

train {
    data      = normal(seed = 1);
    optimizer = momentum(lr = 0.1, momentum = 0.9, weight_decay = 0.0001);
    steps     = 10;
}
