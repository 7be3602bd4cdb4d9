# Self-attention with two heads, the operators that cut and join tensors, and those of whole rows. Classes are judged by the strongest answer
# of the last four places.
net attention(batch = 12, places = 6, dim = 8, heads = 2, classes = 5) {
    width = dim / heads;
    input x     : f32[batch, places, dim];
    input label : f32[batch, classes];
    param qkv   : f32[dim, 3 * dim] = normal(0.4);
    param mix   : f32[2 * dim, dim] = normal(0.3);
    param gate  : f32[dim, dim]     = normal(0.3);
    param out   : f32[dim, classes] = normal(0.5);

    q, k, v = split(matmul(x, qkv), parts = 3, axis = -1);
    qh      = transpose(reshape(q, shape = [batch, places, heads, width]), perm = [0, 2, 1, 3]);
    kh      = transpose(reshape(k, shape = [batch, places, heads, width]), perm = [0, 2, 1, 3]);
    vh      = transpose(reshape(v, shape = [batch, places, heads, width]), perm = [0, 2, 1, 3]);
    weights = softmax(matmul(qh, kh, transpose_b = true) * 0.5);
    context = reshape(transpose(matmul(weights, vh), perm = [0, 2, 1, 3]), shape = [batch, places, dim]);

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
