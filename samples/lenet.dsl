# LeNet-5 (LeCun et al. 1998) with ReLU and maxima, on digits of 32 x 32: 61,706 parameters, named as in torch.nn.Sequential's usual form.
#
#     pcc lenet.dsl --ranks 4
#     prun --ranks 4 lenet.plan

import "nn.dsl";

net lenet(batch = 64, classes = 10) {
    input image : f32[batch, 1, 32, 32];
    input label : i32[batch];

    conv1 = conv2d(image, 6, 5);
    pool1 = max_pool(relu(conv1), kernel_size = 2);
    conv2 = conv2d(pool1, 16, 5);
    pool2 = max_pool(relu(conv2), kernel_size = 2);
    flat  = reshape(pool2, shape = [batch, 400]);
    fc1   = linear(flat, 120);
    fc2   = linear(relu(fc1), 84);
    fc3   = linear(relu(fc2), classes);

    loss cross_entropy(fc3, label);
}

train {
    data      = normal(seed = 1);
    optimizer = momentum(lr = 0.01, momentum = 0.9);
    steps     = 10;
}
