# A small transformer from the cells of nn.dsl. Its strategies stand in transformer_hints.dsl:
#
#   pcc transformer.dsl --ranks 8 --hints transformer_hints.dsl
import "nn.dsl";

net transformer(batch = 8, places = 6, dim = 16, heads = 2, layers = 2, classes = 5) {
    input x     : f32[batch, places, dim];
    input label : f32[batch, classes];
    param place : f32[places, dim] = normal(0.1);

    layer = x + place;
    for i in 0..layers {
        layer = transformer_block(layer, heads);
    }
    norm = layer_norm(mean(layer, axes = 1));
    y    = linear(norm, classes);

    loss mse(y, label);
}

train {
    data      = numpy_rand(seed = 4);
    optimizer = sgd(lr = 0.1);
    epochs    = 2;
    steps     = 4;
}
