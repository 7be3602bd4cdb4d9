# LLaMA 3 of 8,030,261,248 parameters (Grattafiori et al. 2024): 32 blocks, 32 heads of queries that share 8 of keys and values. Its parameters are named and stored as
# those of Hugging Face's LlamaForCausalLM, whose safetensors load as they are.
#
#   pcc llama.dsl --ranks 8 --machine gpu8 --stats
import "nn.dsl";

net llama(batch = 8, places = 2048, dim = 4096, heads = 32, groups = 8, hidden = 14336, layers = 32, words = 128256) {
    input word : i32[batch, places];
    input next : i32[batch, places];

    model   = llama_model(word, words, dim, layers, heads, groups, hidden, base = 500000.0);
    lm_head = linear(model, words, with_bias = false, std = 0.02);

    loss cross_entropy(lm_head, next);
}

train {
    data      = normal(seed = 1);
    optimizer = adamw(lr = 0.0003, weight_decay = 0.1);
    steps     = 4;
}

generate {
    text   = word;
    logits = lm_head;
}
