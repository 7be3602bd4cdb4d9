# LLaMA with 2 blocks: rms_norm, rotary positions, 8 heads of queries that share 4 of keys and values. Its parameters are named and stored as those of Hugging Face's
# LlamaForCausalLM, whose safetensors load as they are. On any text of tokens it generates.
#
#   pcc llama_tiny.dsl --ranks 8 --hints llama_tiny_hints.dsl
#   prun --ranks 8 --load model.safetensors --generate 8 --prompt-tokens 3,1,4 llama_tiny.plan
import "nn.dsl";

net llama_tiny(batch = 8, places = 16, dim = 32, heads = 8, groups = 4, hidden = 48, layers = 2, words = 64) {
    input word : i32[batch, places];
    input next : i32[batch, places];

    model   = llama_model(word, words, dim, layers, heads, groups, hidden);
    lm_head = linear(model, words, with_bias = false);

    loss cross_entropy(lm_head, next);
}

train {
    data      = normal(seed = 1);
    optimizer = adamw(lr = 0.01, weight_decay = 0.1);
    steps     = 6;
}

generate {
    text   = word;
    logits = lm_head;
}
