# Strategies for characters.dsl: rows over dp; heads, the wide layer and the alphabet over tp.
hints {
    attended.*.query  = ((dp, -, -), (-, tp));
    attended.*.key    = ((dp, -, -), (-, tp));
    attended.*.value  = ((dp, -, -), (-, tp));
    attended.*.output = ((dp, -, tp), (tp, -));
    feed.*.up         = ((dp, -, -), (-, tp));
    feed.*.down       = ((dp, -, tp), (tp, -));
    logits            = ((dp, -, -), (-, tp));
    **.up.weight      = (-, tp);
    **.down.weight    = (tp, -);
}

parallel {
    mode = auto;
    mesh (dp = 2, tp = 2);
}
