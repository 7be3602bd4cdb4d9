# Strategies for transformer.dsl, which has none of its own: attention by heads, the two layers behind it as Megatron shards them, and what lies between
# them by places (Korthikanti et al. 2022). All of a block's weights are split over tp. Behind -> stands how a result goes on: whole places are gathered for
# query, key and value and for up, and the sums that output and down owe go straight to the parts. So a block gathers twice and reduces twice forward, as
# often backward, which is as many bytes as the two AllReduces of a block whose norms are computed by all ranks alike.
hints {
    layer.*.norm1           = ((dp, tp, -), (-), (-)) -> (dp, -, -);
    layer.*.norm2           = ((dp, tp, -), (-), (-)) -> (dp, -, -);
    layer.*.attended.query  = ((dp, -, -), (tp, -));
    layer.*.attended.key    = ((dp, -, -), (tp, -));
    layer.*.attended.value  = ((dp, -, -), (tp, -));
    layer.*.attended.output = ((dp, -, tp), (-, tp)) -> (dp, tp, -);
    layer.*.feed.up         = ((dp, -, -), (tp, -));
    layer.*.feed.down       = ((dp, -, tp), (-, tp)) -> (dp, tp, -);
    **.up.weight            = (tp, -);
    **.down.weight          = (-, tp);
}

parallel {
    mode = auto;
    mesh (dp = 4, tp = 2);
}
