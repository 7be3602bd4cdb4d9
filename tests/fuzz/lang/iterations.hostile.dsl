net q { input x : f32[4]; h = x; for i in 0..99999 { for j in 0..99999 { for k in 0..99999 { } } } loss mean(h); }
train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); }
