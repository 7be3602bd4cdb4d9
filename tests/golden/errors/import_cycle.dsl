import "parts/cycle_a.dsl";

net q(batch = 16) {
    input x : f32[batch, 8];
    input t : f32[batch, 8];
    y = x;
    loss mse(y, t);
}

train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); }
