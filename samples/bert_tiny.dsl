# BERT (Devlin et al. 2019) with 2 layers of 128, 2 heads and the 30,522 words of bert-base-uncased (Turc et al. 2019): 4,385,920 parameters and a classifier of 258, named
# and stored as those of Hugging Face's BertForSequenceClassification, whose safetensors load as they are.
#
#   pcc bert_tiny.dsl --ranks 8 --hints bert_hints.dsl && prun --ranks 8 bert_tiny.plan
import "nn.dsl";

net bert_tiny(batch = 32, places = 64, dim = 128, heads = 2, layers = 2, words = 30522, most = 512, classes = 2, dropped = 0.1) {
    input token : i32[batch, places];
    input kind  : i32[batch, places];
    input seen  : bool[batch, places];
    input label : i32[batch];

    bert       = bert_model(token, kind, reshape(seen, shape = [batch, 1, 1, places]), words, most, dim, layers, heads, dropped);
    classifier = linear(dropout(bert, dropped), classes, std = 0.02);

    loss cross_entropy(classifier, label);
}

train {
    data      = normal(seed = 1);
    optimizer = adamw(lr = 0.00002);
    steps     = 4;
}
