net clamp_bounds(batch = 8) {
    input x : f32[batch, 4];
    input i : i32[batch];
    param w : f32[4, 4] = normal(1);
    h = matmul(x, w);
    a = clamp(h);
    b = clamp(h, low = 2, high = 1);
    c = clamp(i, low = 0.5);
    d = clamp(h, 0, 1);
    loss bce_with_logits(h, x, reduction = max);
}
