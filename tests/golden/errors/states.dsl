net n {
    input x : f32[4, 3];
    param w : f32[3] = ones;
    state m : f32[3] = zeros;
    state k : i32[3] = zeros;
    state f : f32[3] = file("f.npy");
    state e : f32[3];
    w <- w * 2;
    m <- mean(x);
    m <- mean(x, axes = 0);
    m <- m;
    y = x * random(2.0);
    loss mean(x * w + random(x, x));
}
train { data = normal(seed = 1); optimizer = sgd(lr = 1); epochs = 1; steps = 1; }
