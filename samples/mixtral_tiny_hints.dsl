# Experts on ranks of their own for mixtral_tiny.dsl, and attention by Megatron's strategy (Shoeybi et al. 2019), as in llama_tiny_hints.dsl.
hints {
    **.q_proj = ((dp, -, -), (tp, -));
    **.k_proj = ((dp, -, -), (tp, -));
    **.v_proj = ((dp, -, -), (tp, -));
    **.o_proj = ((dp, -, tp), (-, tp));
    **.w1     = ((dp, -, -), (tp, -));
    **.w3     = ((dp, -, -), (tp, -));
    **.w2     = ((tp, dp, -), (tp, -, -));
}

parallel {
    mode = auto;
    mesh (dp = 2, tp = 4);
}
