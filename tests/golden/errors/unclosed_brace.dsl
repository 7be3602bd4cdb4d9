net q {
    input x : f32[2];
train {
}
