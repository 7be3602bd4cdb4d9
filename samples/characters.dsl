# A model of characters: which one follows those before it. Two blocks of attention that see no place behind their own. The file text.txt lies
# beside this one: any text of ASCII characters; each row is a window of it, and its labels are the same window one character later.
#
#   pcc characters.dsl --ranks 4 --hints characters_hints.dsl && mpirun -n 4 prun --save characters.safetensors characters.plan
#   prun --ranks 4 --load characters.safetensors --generate 50 --prompt "The " characters.plan
import "nn.dsl";

# Attention in which a place sees itself and those before it. mask is added to the scores.
cell causal_attention(x, heads, mask) {
    let dim = size(x, -1);
    query   = linear(x, dim, with_bias = false);
    key     = linear(x, dim, with_bias = false);
    value   = linear(x, dim, with_bias = false);
    score   = matmul(split_heads(query, heads), split_heads(key, heads), transpose_b = true) * (1 / sqrt(dim / heads));
    context = matmul(softmax(score + mask), split_heads(value, heads));
    output  = linear(join_heads(context), dim);
    return output;
}

net characters(batch = 32, places = 64, dim = 64, heads = 4, layers = 2, alphabet = 128) {
    input text   : i32[batch, places];
    input next   : i32[batch, places];
    const mask   : f32[places, places] = causal(-1e9);
    param letter : f32[alphabet, dim]  = normal(0.1);
    param place  : f32[places, dim]    = normal(0.1);

    layer = embedding(letter, text) + place;
    for i in 0..layers {
        norm1    = layer_norm(layer);
        attended = causal_attention(norm1, heads, mask);
        middle   = layer + attended;
        norm2    = layer_norm(middle);
        feed     = mlp(norm2, 4 * dim, dim);
        layer    = middle + feed;
    }
    norm   = layer_norm(layer);
    logits = linear(norm, alphabet);

    loss cross_entropy(logits, next);
}

train {
    data      = raw(text = raw("text.txt", type = u8, offset = 0), next = raw("text.txt", type = u8, offset = 1));
    order     = shuffle(seed = 1);
    optimizer = adamw(lr = 0.003);
    steps     = 200;
    log_every = 20;
}

generate {
    text        = text;
    logits      = logits;
    temperature = 0.8;
    top_k       = 40;
}
