# Mixtral 8x7B (Jiang et al. 2024): 46,702,792,704 parameters, named as those of Hugging Face's MixtralForCausalLM, whose safetensors load as they are.
#
#   pcc mixtral.dsl --ranks 8 --search sharding_propagation --stats
#   prun --ranks 8 --load model.safetensors.index.json --generate 8 --prompt-tokens 1,733,16289 mixtral.plan
import "nn.dsl";

net mixtral(batch = 8, places = 2048, dim = 4096, heads = 32, groups = 8, experts = 8, hidden = 14336, k = 2, layers = 32, words = 32000, balanced = 0.01) {
    input word : i32[batch, places];
    input next : i32[batch, places];

    model, balance = mixtral_model(word, words, dim, layers, heads, groups, experts, hidden, k = k);
    lm_head        = linear(model, words, with_bias = false, std = 0.02);

    if training {  # an eval's loss is of each row by itself
        loss cross_entropy(lm_head, next) + balanced * balance;
    } else {
        loss cross_entropy(lm_head, next);
    }
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
