# Strategies for transformer.dsl, which has none of its own: attention by heads, the two layers behind it as Megatron shards them. All of a block's
# weights are split over tp, and two sums a block are what the ranks of one tp group owe each other.
hints {
    layer.*.norm1           = ((dp, -, -), (-));
    layer.*.norm2           = ((dp, -, -), (-));
    layer.*.attended.query  = ((dp, -, -), (-, tp));
    layer.*.attended.key    = ((dp, -, -), (-, tp));
    layer.*.attended.value  = ((dp, -, -), (-, tp));
    layer.*.attended.output = ((dp, -, tp), (tp, -));
    layer.*.feed.up         = ((dp, -, -), (-, tp));
    layer.*.feed.down       = ((dp, -, tp), (tp, -));
    **.up.weight            = (-, tp);
    **.down.weight          = (tp, -);
}

parallel {
    mode = auto;
    mesh (dp = 4, tp = 2);
}
