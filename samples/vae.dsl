# A variational autoencoder of images of 28 x 28 (Kingma and Welling 2014), with the layers of PyTorch's example: 652,824 parameters. The loss of an image is the cross entropy of
# its pixels and the divergence of its codes from the standard normal distribution. In an eval the code is the mean.
#
#   pcc vae.dsl --ranks 8 && prun --ranks 8 vae.plan
import "nn.dsl";

net vae(batch = 64, pixels = 784, hidden = 400, code = 20) {
    input image : f32[batch, pixels];

    fc1  = linear(image, hidden);
    seen = relu(fc1);
    fc21 = linear(seen, code);
    fc22 = linear(seen, code);
    z    = fc21;
    if training {
        z = fc21 + standard_normal(fc21) * exp(0.5 * fc22);
    }
    fc3 = linear(z, hidden);
    fc4 = linear(relu(fc3), pixels);

    loss (bce_with_logits(fc4, image, reduction = sum) - 0.5 * sum(1 + fc22 - square(fc21) - exp(fc22))) / batch;
}

train {
    data      = uniform(seed = 1);
    optimizer = adam(lr = 0.001);
    steps     = 10;
}
