# The net of attention.dsl with the cells of nn.dsl: the same losses, digit for digit.
import "nn.dsl";

net attention_cells(batch = 12, places = 6, dim = 8, heads = 2, classes = 5) {
    input x     : f32[batch, places, dim];
    input label : f32[batch, classes];
    param qkv   : f32[dim, 3 * dim] = normal(0.4);
    param mix   : f32[2 * dim, dim] = normal(0.3);
    param gate  : f32[dim, dim]     = normal(0.3);
    param out   : f32[dim, classes] = normal(0.5);

    q, k, v = split(matmul(x, qkv), parts = 3, axis = -1);
    context = join_heads(dot_attention(split_heads(q, heads), split_heads(k, heads), split_heads(v, heads)));

    both = matmul(concat(context, x, axis = 2), mix);
    y    = both * sigmoid(matmul(both, gate));
    last = slice(matmul(y, out), begin = [0, -4, 0], end = [batch, places, classes]);

    loss mean(square(max(last, axes = 1) - label));
}

train {
    data      = numpy_rand(seed = 3);
    optimizer = sgd(lr = 0.2);
    seed      = 5;
    epochs    = 2;
    steps     = 5;
}
