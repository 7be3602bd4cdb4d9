# Megatron's strategy (Shoeybi et al. 2019) for bert_tiny.dsl and bert_base.dsl in two hints a layer: the first product of its feed-forward part is split by its results, the
# one behind it by what it sums over. What is left open follows, attention by the batch.
hints {
    **.intermediate.dense   = ((dp, -, -), (tp, -));
    **.layer.*.output.dense = ((dp, -, tp), (-, tp));
}

parallel {
    mode = auto;
    mesh (dp = 4, tp = 2);
}
