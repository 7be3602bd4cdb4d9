net q(batch = 16) { input x : f32[batch, 4]; param w : f32[4] = ones; loss mean(x * w); }
train { data = normal(seed = 1); optimizer = sgd(lr = 0.1); precision = f16; metrics = noise_scale; }
parallel { mode = data_parallel; }
