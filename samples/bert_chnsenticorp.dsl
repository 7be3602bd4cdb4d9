# A BERT of three layers (the size of hfl/rbt3, 38,478,338 parameters) that learns whether a hotel review in Chinese is a good one, as a loop in PyTorch on 2 ranks does it: 7,766 rows, of which one
# without a review is dropped; 6,989 to train on and 776 held out, as random_split deals them out with seed 42; 110 steps an epoch. ChnSentiCorp_htl_all.csv (SophonPlus/ChineseNlpCorpus) and the
# vocabulary of bert-base-chinese lie beside this file. bert_chnsenticorp_trainer.dsl is the same as a Trainer of Hugging Face's does it.
#
#   pcc bert_chnsenticorp.dsl --ranks 2 && prun --ranks 2 bert_chnsenticorp.plan --load rbt3.safetensors
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
    rows      = split(0.9, 0.1, seed = 42);
    order     = shuffle(seed = 0);
    last      = short;
    optimizer = adam(lr = 0.00002);
    epochs    = 3;
    log_every = 100;
    log_from  = 0;
    log "ep: {epoch}, global_step: {global_step}, loss: {loss}";
}

eval {
    every   = epoch;
    batch   = 128;
    dropped = 0.0;
    metrics = loss, accuracy;
}
