# BERT (Devlin et al. 2019) that classifies sequences: bert-base-chinese, 102,267,648 parameters and a classifier of 1,538, named as Hugging Face's
# BertForSequenceClassification, whose safetensors load as they are. `dropped` is hidden_dropout_prob; the weights of the attention are not dropped.
#
#   pcc bert_base.dsl --ranks 8 --machine gpu8 --stats
import "nn.dsl";

net bert_base(batch = 16, places = 128, dim = 768, heads = 12, layers = 12, words = 21128, most = 512, classes = 2, dropped = 0.1) {
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
