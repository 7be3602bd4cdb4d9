let hidden = 4 * width;
let width  = 8;

net q(batch = 16) {
    input x : f32[batch, hidden];
    loss sum(x);
}

train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); }
