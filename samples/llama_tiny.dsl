# LLaMA with 2 blocks: rms_norm, rotary positions, 8 heads of queries that share 4 of keys and values. Its parameters are named as Hugging Face names them.
#
#   pcc llama_tiny.dsl --ranks 8 --hints llama_tiny_hints.dsl
import "nn.dsl";

net llama_tiny(batch = 8, places = 16, dim = 32, heads = 8, groups = 4, hidden = 48, layers = 2, words = 64) {
    input word         : i32[batch, places];
    input next         : i32[batch, places];
    param embed_tokens : f32[words, dim] = normal(0.5);

    h = embedding(embed_tokens, word);
    for i in 0..layers {
        h = llama_block(h, heads, groups, hidden);
    }
    norm    = rms_norm(h);
    lm_head = linear(norm, words, with_bias = false);

    loss cross_entropy(lm_head, next);
}

train {
    data      = normal(seed = 1);
    optimizer = adamw(lr = 0.01, weight_decay = 0.1);
    steps     = 6;
}
