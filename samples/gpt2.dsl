# GPT-2 of 124,439,808 parameters (Radford et al. 2019): 12 blocks, 1,024 places, the table of words tied to the logits. Its parameters are named and stored as those of
# Hugging Face's GPT2LMHeadModel, whose safetensors load as they are.
#
#   pcc gpt2.dsl --ranks 8 --machine gpu8 --stats
#   prun --ranks 8 --load model.safetensors --rename 'transformer.*=*' --generate 20 --prompt-tokens 464,3616,286 gpt2.plan
import "nn.dsl";

net gpt2(batch = 8, places = 1024, dim = 768, heads = 12, layers = 12, words = 50257, most = 1024, dropped = 0.0) {
    input word : i32[batch, places];
    input next : i32[batch, places];

    transformer = gpt2_model(word, words, most, dim, layers, heads, dropped = dropped);

    loss cross_entropy(transformer, next);
}

train {
    data      = normal(seed = 1);
    optimizer = adamw(lr = 0.0006, weight_decay = 0.1);
    steps     = 4;
}

generate {
    text   = word;
    logits = transformer;
}
