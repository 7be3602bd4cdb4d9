# Strategies for characters.dsl: rows over dp; heads, the wide layer and the alphabet over tp; between them places over tp, as in transformer_hints.dsl.
# On a model as small as this one the batch alone moves less in a step, and pcc says so [-Wcostly].
hints {
    norm1.*           = ((dp, tp, -), (-), (-)) -> (dp, -, -);
    norm2.*           = ((dp, tp, -), (-), (-)) -> (dp, -, -);
    attended.*.query  = ((dp, -, -), (tp, -));
    attended.*.key    = ((dp, -, -), (tp, -));
    attended.*.value  = ((dp, -, -), (tp, -));
    attended.*.output = ((dp, -, tp), (-, tp)) -> (dp, tp, -);
    feed.*.up         = ((dp, -, -), (tp, -));
    feed.*.down       = ((dp, -, tp), (-, tp)) -> (dp, tp, -);
    norm              = ((dp, tp, -), (-), (-)) -> (dp, -, -);
    logits            = ((dp, -, -), (tp, -));
    **.up.weight      = (tp, -);
    **.down.weight    = (-, tp);
}

parallel {
    mode = auto;
    mesh (dp = 2, tp = 2);
}
