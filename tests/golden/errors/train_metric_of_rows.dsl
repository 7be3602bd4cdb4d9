net q { param w : f32[4] = ones; loss mean(w); }
train { optimizer = sgd(lr = 0.1); metrics = accuracy; }
