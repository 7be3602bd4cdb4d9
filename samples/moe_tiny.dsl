# A language model of 2 blocks whose feed-forward layers are mixtures of 8 experts, 2 of which see each place: 309,376 parameters. State `dropped` is the share of
# choices for which the last step's experts had no room.
#
#   pcc moe_tiny.dsl --ranks 8 --hints moe_tiny_hints.dsl && prun --ranks 8 --print dropped moe_tiny.plan
import "nn.dsl";

net moe_tiny(batch = 8, places = 64, dim = 64, heads = 4, experts = 8, hidden = 128, k = 2, layers = 2, words = 64) {
    input word     : i32[batch, places];
    input next     : i32[batch, places];
    param table    : f32[words, dim]  = normal(0.5);
    param position : f32[places, dim] = normal(0.1);
    state dropped  : f32              = zeros;

    h       = embedding(table, word) + position;
    balance = 0.0;
    lost    = 0.0;
    for i in 0..layers {
        attended = h + attention(layer_norm(h), heads);
        mixed, even, out = moe(layer_norm(attended), experts, hidden, k = k);
        h = attended + mixed;
        balance = balance + even;
        lost = lost + out / layers;
    }
    if training {
        dropped <- lost;
    }
    logits = linear(layer_norm(h), words, with_bias = false);

    loss cross_entropy(logits, next) + 0.01 * balance;
}

train {
    data      = normal(seed = 1);
    optimizer = adam(lr = 0.01);
    steps     = 6;
}
