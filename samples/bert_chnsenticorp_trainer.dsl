# bert_chnsenticorp.dsl as Hugging Face's Trainer does it: scikit-learn's sizes of the split, a rate that falls to zero, no weight decay of biases and norms, gradients clipped, an evaluation and a
# checkpoint every epoch, of which the one with the best f1 is what training ends with.
#
#   pcc bert_chnsenticorp_trainer.dsl --ranks 2 && prun --ranks 2 bert_chnsenticorp_trainer.plan --load rbt3.safetensors
import "nn.dsl";

net bert_chnsenticorp(batch = 64, places = 128, dim = 768, heads = 12, layers = 3, words = 21128, most = 512, dropped = 0.1) {
    input token : i32[batch, places];
    input kind  : i32[batch, places];
    input seen  : bool[batch, places];
    input label : i32[batch];

    bert       = bert_model(token, kind, reshape(seen, shape = [batch, 1, 1, places]), words, most, dim, layers, heads, dropped);
    classifier = linear(dropout(bert, dropped), 2, std = 0.02);

    loss cross_entropy(classifier, label);
}

train {
    data      = files(token = csv("ChnSentiCorp_htl_all.csv", column = "review", missing = drop, tokens = wordpiece("bert-base-chinese-vocab.txt")),
                      kind = csv("ChnSentiCorp_htl_all.csv", column = "review", missing = drop, tokens = wordpiece("bert-base-chinese-vocab.txt"), give = types),
                      seen = csv("ChnSentiCorp_htl_all.csv", column = "review", missing = drop, tokens = wordpiece("bert-base-chinese-vocab.txt"), give = mask),
                      label = csv("ChnSentiCorp_htl_all.csv", column = "label", missing = drop));
    rows      = split(test = 0.1, seed = 42);
    order     = shuffle(seed = 42);
    last      = short;
    optimizer = adamw(lr = 0.00002, weight_decay = 0.01);
    schedule  = linear();
    decay except **.bias, **.LayerNorm.weight;
    clip      = norm(1.0);
    epochs    = 3;
    log_every = 10;
    log "{{'loss': {mean_loss:.4f}, 'learning_rate': {next_lr}, 'epoch': {epoch}}}";
    checkpoint every epoch keep 3 best f1;
    restore best;
}

eval {
    every   = epoch;
    batch   = 256;
    dropped = 0.0;
    metrics = loss, accuracy, f1;
}
