net q(batch = 16) {
    input x : i32[batch, 4];
    param w : f32[4, 2] = normal(0.1);
    loss mean(embedding(w, x));
}
train { data = csv(x = csv("d.csv", column = "text", tokens = characters(3))); optimizer = sgd(lr = 0.1); }
