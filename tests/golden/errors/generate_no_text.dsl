# The block does not say which input is text.
net n(batch = 2) {
    input text   : i32[batch, 4];
    input next   : i32[batch, 4];
    param letter : f32[9, 8] = normal(0.5);
    x      = embedding(letter, text);
    y      = dot_product_attention(x, x, x, causal = true);
    logits = matmul(y, letter, transpose_b = true);
    loss cross_entropy(logits, next);
}

train {
    data      = normal(seed = 1);
    optimizer = sgd(lr = 0.1);
}

generate {
    logits = logits;
}
