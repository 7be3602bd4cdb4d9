# LLaMA 3 of 8,030,261,248 parameters (Grattafiori et al. 2024): 32 blocks, 32 heads of queries that share 8 of keys and values.
#
#   pcc llama.dsl --ranks 8 --machine gpu8 --stats
import "nn.dsl";

# x over the root of its mean square along the last dimension. x: [..., n] -> [..., n]
cell root_norm(x, eps = 1e-5) {
    param gain : f32[size(x, -1)] = ones;
    scale = rsqrt(mean(square(x), axes = -1, keep_dims = true) + eps);
    return x * scale * gain;
}

# The cosine and sine of the angle of each place and element of a head, [places, width], from a mask that has a 0 up to the diagonal; its base is 500,000.
cell angles(mask, width, log_base = 13.122363377404328) {
    seen  = sum(cast(equal(mask, 0), to = f32), axes = 1, keep_dims = true) - 1;
    pair  = transpose(slice(seen, begin = [0, 0], end = [width / 2, 1]));
    angle = seen * exp(pair * (-log_base * 2 / width));
    turn  = concat(cos(angle), cos(angle), axis = 1);
    side  = concat(sin(angle), sin(angle), axis = 1);
    return turn, side;
}

# Turns the pairs of each head by angles that grow with the place (RoPE, Su et al. 2021): element i and i + width / 2 are a pair. x: [.., places, width]
cell rotate(x, turn, side) {
    low, high = split(x, parts = 2, axis = -1);
    return x * turn + concat(-high, low, axis = -1) * side;
}

# Attention of each place to those up to it; heads / groups heads of queries share one of keys and values. x: [batch, places, dim] -> [batch, places, dim]
cell grouped_attention(x, heads, groups, mask, turn, side) {
    let batch = size(x, 0);
    let places = size(x, 1);
    let dim = size(x, 2);
    let width = dim / heads;
    query   = reshape(linear(x, dim, with_bias = false), shape = [batch, places, groups, heads / groups, width]);
    key     = reshape(linear(x, groups * width, with_bias = false), shape = [batch, places, groups, 1, width]);
    value   = reshape(linear(x, groups * width, with_bias = false), shape = [batch, places, groups, 1, width]);
    q       = rotate(transpose(query, perm = [0, 2, 3, 1, 4]), turn, side);
    k       = rotate(transpose(key, perm = [0, 2, 3, 1, 4]), turn, side);
    v       = transpose(value, perm = [0, 2, 3, 1, 4]);
    score   = matmul(q, k, transpose_b = true) * (1 / sqrt(width)) + mask;
    context = transpose(matmul(softmax(score), v), perm = [0, 3, 1, 2, 4]);
    output  = linear(reshape(context, shape = [batch, places, dim]), dim, with_bias = false);
    return output;
}

# silu(gate) * up, then down. x: [..., n] -> [..., n]
cell gated(x, hidden) {
    gate = linear(x, hidden, with_bias = false);
    up   = linear(x, hidden, with_bias = false);
    down = linear(silu(gate) * up, size(x, -1), with_bias = false);
    return down;
}

net llama(batch = 8, places = 2048, dim = 4096, heads = 32, groups = 8, hidden = 14336, layers = 32, words = 128256) {
    input word  : i32[batch, places];
    input next  : i32[batch, places];
    param table : f32[words, dim]     = normal(0.02);
    const mask  : f32[places, places] = causal(-1e9);

    turn, side = angles(mask, dim / heads);
    h = embedding(table, word);
    for i in 0..layers {
        middle = h + grouped_attention(root_norm(h), heads, groups, mask, turn, side);
        h      = middle + gated(root_norm(middle), hidden);
    }
    logits = linear(root_norm(h), words, with_bias = false, std = 0.02);

    loss cross_entropy(logits, next);
}

train {
    data      = normal(seed = 1);
    optimizer = adamw(lr = 0.0003, weight_decay = 0.1);
    steps     = 4;
}
