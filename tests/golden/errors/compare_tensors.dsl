net q(batch = 16) {
    input x : f32[batch, 8];
    positive = x > 0 and x < 1;
    same     = not x;
    rest     = x % 2;
    both     = x and x;
    loss sum(x);
}

train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); }
