import "fuzz.dsl"; import "/dev/zero"; import "/dev/stdin"; import "."; import "";
net q { input x : f32[4]; loss mean(x); }
train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); }
