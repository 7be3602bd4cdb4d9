# A small BERT that classifies sequences: what tests/bench/step.py times beside PyTorch. tokens.bin, kinds.bin and labels.bin lie beside the plan.
import "nn.dsl";

# Attention to the places that are not padding: blocked is [batch, 1, 1, places], 0 there and very negative elsewhere.
cell masked_attention(x, heads, blocked) {
    let dim = size(x, -1);
    query   = linear(x, dim);
    key     = linear(x, dim);
    value   = linear(x, dim);
    score   = matmul(split_heads(query, heads), split_heads(key, heads), transpose_b = true) * (1 / sqrt(dim / heads));
    context = matmul(softmax(score + blocked), split_heads(value, heads));
    output  = linear(join_heads(context), dim);
    return output;
}

cell block(x, heads, blocked) {
    attended = masked_attention(x, heads, blocked);
    middle   = layer_norm(x + attended, eps = 1e-12);
    feed     = mlp(middle, 4 * size(x, -1), size(x, -1));
    out      = layer_norm(middle + feed, eps = 1e-12);
    return out;
}

net bert_tiny(batch = 16, places = 128, dim = 256, heads = 4, layers = 4, words = 21128, classes = 2) {
    input token    : i32[batch, places];
    input kind     : i32[batch, places];
    input seen     : f32[batch, places];
    input label    : i32[batch];
    param word     : f32[words, dim]  = normal(0.02);
    param position : f32[places, dim] = normal(0.02);
    param segment  : f32[2, dim]      = normal(0.02);

    blocked = reshape((seen - 1) * 1e4, shape = [batch, 1, 1, places]);
    norm    = layer_norm(embedding(word, token) + embedding(segment, kind) + position, eps = 1e-12);
    layer   = norm;
    for i in 0..layers {
        layer = block(layer, heads, blocked);
    }
    first  = reshape(layer[:, 0:1, :], shape = [batch, dim]);
    pooled = linear(first, dim);
    logits = linear(tanh(pooled), classes);

    loss cross_entropy(logits, label);
}

train {
    data      = raw(token = raw("token.bin"), kind = raw("kind.bin"), seen = raw("seen.bin"), label = raw("label.bin"));
    optimizer = adam(lr = 0.00002);
    steps     = 20;
    log "{loss:.7f}";
}
