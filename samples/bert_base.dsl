# BERT (Devlin et al. 2019) that classifies sequences: bert-base-chinese, 102,267,648 parameters and a classifier of 1,538, named as Hugging Face's
# BertForSequenceClassification, whose safetensors load as they are. `dropped` is hidden_dropout_prob; the weights of the attention are not dropped.
#
#   pcc bert_base.dsl --ranks 8 --machine gpu8 --stats
import "nn.dsl";

# x: [batch, places, dim], keep: bool[batch, 1, 1, places] -> [batch, places, dim]
cell bert_self_attention(x, heads, keep) {
    query = linear(x, size(x, -1), std = 0.02);
    key   = linear(x, size(x, -1), std = 0.02);
    value = linear(x, size(x, -1), std = 0.02);
    return join_heads(dot_product_attention(split_heads(query, heads), split_heads(key, heads), split_heads(value, heads), keep));
}

# A linear layer, and the norm of its sum with what stood before. x: [.., n], before: [.., dim] -> [.., dim]
cell bert_output(x, before, dropped) {
    dense     = linear(x, size(before, -1), std = 0.02);
    LayerNorm = layer_norm(dropout(dense, dropped) + before, eps = 1e-12);
    return LayerNorm;
}

cell bert_attention(x, heads, keep, dropped) {
    self   = bert_self_attention(x, heads, keep);
    output = bert_output(self, x, dropped);
    return output;
}

cell bert_intermediate(x, hidden) {
    dense = linear(x, hidden, std = 0.02);
    return gelu(dense);
}

cell bert_layer(x, heads, keep, dropped) {
    attention    = bert_attention(x, heads, keep, dropped);
    intermediate = bert_intermediate(attention, 4 * size(x, -1));
    output       = bert_output(intermediate, attention, dropped);
    return output;
}

# The rows of a table of its own at index[..]: [.., dim]
cell bert_table(index, rows, dim) {
    param weight : f32[rows, dim] = normal(0.02);
    return embedding(weight, index);
}

# The first rows of a table: [places, dim]
cell bert_positions(places, most, dim) {
    param weight : f32[most, dim] = normal(0.02);
    return weight[0:places];
}

cell bert_embeddings(token, kind, words, most, dim, dropped) {
    word_embeddings = bert_table(token, words, dim);
    position_embeddings = bert_positions(size(token, 1), most, dim);
    token_type_embeddings = bert_table(kind, 2, dim);
    LayerNorm = layer_norm(word_embeddings + token_type_embeddings + position_embeddings, eps = 1e-12);
    return dropout(LayerNorm, dropped);
}

cell bert_encoder(x, layers, heads, keep, dropped) {
    layer = x;
    for i in 0..layers {
        layer = bert_layer(layer, heads, keep, dropped);
    }
    return layer;
}

# The first place of each sequence: [batch, places, dim] -> [batch, dim]
cell bert_pooler(x) {
    dense = linear(x[:, 0], size(x, -1), std = 0.02);
    return tanh(dense);
}

cell bert_model(token, kind, keep, words, most, dim, layers, heads, dropped) {
    embeddings = bert_embeddings(token, kind, words, most, dim, dropped);
    encoder    = bert_encoder(embeddings, layers, heads, keep, dropped);
    pooler     = bert_pooler(encoder);
    return pooler;
}

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
