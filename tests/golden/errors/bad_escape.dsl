net q(batch = 16) {
    input x : f32[batch, 32];
    param w : f32[32, 8] = normal(0.01);
    loss mean(matmul(x, w));
}
train {
    data = numpy_rand(seed = 1);
    log "{loss}\q\n";
    log "a\"b\é";
    log "a\x80";
    optimizer = sgd(lr = 0.1);
}
