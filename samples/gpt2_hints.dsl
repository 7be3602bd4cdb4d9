# Megatron's strategy (Shoeybi et al. 2019) for gpt2.dsl, two hints for attention and two for what stands behind it: the first product is split by its results, the second one by
# what it sums over. Query, key and value lie behind each other in c_attn, so that they are sent to the ranks of their heads.
hints {
    **.c_attn = ((dp, -, -), (-, tp));
    **.c_fc   = ((dp, -, -), (-, tp));
    **.c_proj = ((dp, -, tp), (tp, -));
}

parallel {
    mode = auto;
    mesh (dp = 4, tp = 2);
}
