# A small GPT of characters: what tests/bench/step.py times beside PyTorch. text.bin lies beside the plan.
import "nn.dsl";

# Attention in which a place sees itself and those before it. mask is added to the scores.
cell causal_attention(x, heads, mask) {
    let dim = size(x, -1);
    query   = linear(x, dim);
    key     = linear(x, dim);
    value   = linear(x, dim);
    score   = matmul(split_heads(query, heads), split_heads(key, heads), transpose_b = true) * (1 / sqrt(dim / heads));
    context = matmul(softmax(score + mask), split_heads(value, heads));
    output  = linear(join_heads(context), dim);
    return output;
}

cell block(x, heads, mask) {
    norm1    = layer_norm(x);
    attended = causal_attention(norm1, heads, mask);
    middle   = x + attended;
    norm2    = layer_norm(middle);
    feed     = mlp(norm2, 4 * size(x, -1), size(x, -1));
    return middle + feed;
}

net gpt_tiny(batch = 16, places = 128, dim = 256, heads = 8, layers = 4, alphabet = 256) {
    input text   : i32[batch, places];
    input next   : i32[batch, places];
    const mask   : f32[places, places] = causal(-1e9);
    param letter : f32[alphabet, dim]  = normal(0.02);
    param place  : f32[places, dim]    = normal(0.02);

    layer = embedding(letter, text) + place;
    for i in 0..layers {
        layer = block(layer, heads, mask);
    }
    norm   = layer_norm(layer);
    logits = linear(norm, alphabet, with_bias = false);

    loss cross_entropy(logits, next);
}

train {
    data      = raw(text = raw("text.bin", type = u8, offset = 0), next = raw("text.bin", type = u8, offset = 1));
    optimizer = adamw(lr = 0.001);
    steps     = 20;
    log "{loss:.7f}";
}
