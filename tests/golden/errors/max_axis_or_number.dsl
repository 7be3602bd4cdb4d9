net max_axis_or_number(batch = 8) {
    input x : f32[batch, 4];
    param w : f32[4, 4] = normal(1);
    h = matmul(x, w);
    a = max(h, 0);
    b = min(h, -1);
    c = max(h, h);
    d = min(0.5, h) + max(0, h);
    loss mean(c + d);
}
