# A small U-Net (Ronneberger et al. 2015) that gives each pixel a class: two scales down and up again, with what was seen on the way down beside; group_norm in place of batch_norm.
#
#   pcc unet_tiny.dsl --ranks 8 && prun --ranks 8 unet_tiny.plan
import "nn.dsl";

# x: [n, c, h, w] -> [n, out, h, w]
cell double_conv(x, out, groups = 4) {
    conv1 = conv2d(x, out, 3, padding = 1, with_bias = false);
    norm1 = group_norm(conv1, groups);
    conv2 = conv2d(relu(norm1), out, 3, padding = 1, with_bias = false);
    norm2 = group_norm(conv2, groups);
    return relu(norm2);
}

# x, twice as wide and high, with what its place saw before: [n, c, h, w], [n, out, 2 h, 2 w] -> [n, out, 2 h, 2 w]
cell up_again(x, beside, out) {
    up   = conv2d(upsample(x, scale_factor = 2), out, 3, padding = 1);
    both = double_conv(concat(beside, up, axis = 1), out);
    return both;
}

net unet_tiny(batch = 16, side = 16, width = 8, channels = 1, classes = 3) {
    input image : f32[batch, channels, side, side];
    input label : i32[batch, side, side];

    down1  = double_conv(image, width);
    down2  = double_conv(max_pool(down1, kernel_size = 2), 2 * width);
    middle = double_conv(max_pool(down2, kernel_size = 2), 4 * width);
    up2    = up_again(middle, down2, 2 * width);
    up1    = up_again(up2, down1, width);
    head   = conv2d(up1, classes, 1);

    loss cross_entropy(transpose(head, perm = [0, 2, 3, 1]), label);
}

train {
    data      = normal(seed = 1);
    optimizer = adam(lr = 0.001);
    steps     = 10;
}
