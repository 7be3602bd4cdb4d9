# A deep perceptron from the cells of nn.dsl: layers that become narrower, the first and the last of them different from the others, which is decided
# when the net is compiled.
import "nn.dsl";

let depth = 4;

net mlp_cells(batch = 16, dim = 24, hidden = 32, classes = 8) {
    input x     : f32[batch, dim];
    input label : f32[batch, classes];

    layer = x;
    for i in 0..depth {
        let wide = i < depth - 1;
        layer = linear(layer, max(ceil_div(hidden, i + 1), classes), with_bias = wide and i > 0);
        if wide { layer = relu(layer_norm(layer)); }
    }
    y = linear(layer, classes);

    loss mse(y, label);
}

train {
    data      = numpy_rand(seed = 6);
    optimizer = momentum(lr = 0.05, momentum = 0.9);
    epochs    = 2;
    steps     = 5;
}
