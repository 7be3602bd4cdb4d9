# Megatron's strategy (Shoeybi et al. 2019) for llama_tiny.dsl: what reads the activations is split by its results, what gives them back by what it sums over. Heads, rotary
# positions and attention follow.
hints {
    **.q_proj    = ((dp, -, -), (tp, -));
    **.k_proj    = ((dp, -, -), (tp, -));
    **.v_proj    = ((dp, -, -), (tp, -));
    **.gate_proj = ((dp, -, -), (tp, -));
    **.up_proj   = ((dp, -, -), (tp, -));
    **.o_proj    = ((dp, -, tp), (-, tp));
    **.down_proj = ((dp, -, tp), (-, tp));
}

parallel {
    mode = auto;
    mesh (dp = 2, tp = 4);
}
