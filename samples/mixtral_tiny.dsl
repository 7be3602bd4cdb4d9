# Mixtral with 2 blocks of 4 experts, 2 of which compute each place. Its parameters are named as those of Hugging Face's MixtralForCausalLM, whose safetensors load as they are: an expert's
# matrices there, experts.0.w1.weight, are one of the net's for all, experts.w1.weight. On any text of tokens it generates.
#
#   pcc mixtral_tiny.dsl --ranks 8 --hints mixtral_tiny_hints.dsl
#   prun --ranks 8 --load model.safetensors --generate 8 --prompt-tokens 3,1,4 mixtral_tiny.plan
import "nn.dsl";

net mixtral_tiny(batch = 8, places = 16, dim = 32, heads = 8, groups = 4, experts = 4, hidden = 24, k = 2, layers = 2, words = 64, balanced = 0.01) {
    input word : i32[batch, places];
    input next : i32[batch, places];

    model, balance = mixtral_model(word, words, dim, layers, heads, groups, experts, hidden, k = k);
    lm_head        = linear(model, words, with_bias = false);

    if training {  # an eval's loss is of each row by itself
        loss cross_entropy(lm_head, next) + balanced * balance;
    } else {
        loss cross_entropy(lm_head, next);
    }
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
