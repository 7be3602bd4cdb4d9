# GPT-2 of 124,439,808 parameters with a projection each for query, key and value, where samples/gpt2.dsl has one for all three: a hint for columns is then one for heads.
import "nn.dsl";

# Attention of each place to those up to it. x: [batch, places, dim] -> [batch, places, dim]
cell causal_attention(x, heads, mask) {
    let dim = size(x, -1);
    query   = split_heads(linear(x, dim), heads);
    key     = split_heads(linear(x, dim), heads);
    value   = split_heads(linear(x, dim), heads);
    score   = matmul(query, key, transpose_b = true) * (1 / sqrt(dim / heads)) + mask;
    context = matmul(softmax(score), value);
    output  = linear(join_heads(context), dim);
    return output;
}

cell gpt_block(x, heads, mask) {
    attended = causal_attention(layer_norm(x), heads, mask);
    middle   = x + attended;
    feed     = mlp(layer_norm(middle), 4 * size(x, -1), size(x, -1));
    return middle + feed;
}

net gpt2(batch = 8, places = 1024, dim = 768, heads = 12, layers = 12, words = 50257) {
    input word  : i32[batch, places];
    input next  : i32[batch, places];
    param table : f32[words, dim]     = normal(0.02);
    param place : f32[places, dim]    = normal(0.01);
    const mask  : f32[places, places] = causal(-1e9);

    h = embedding(table, word) + place;
    for i in 0..layers {
        h = gpt_block(h, heads, mask);
    }
    logits = matmul(layer_norm(h), table, transpose_b = true);

    loss cross_entropy(logits, next);
}

train {
    data      = normal(seed = 1);
    optimizer = adamw(lr = 0.0006, weight_decay = 0.1);
    steps     = 4;
}
