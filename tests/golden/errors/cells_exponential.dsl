cell a0(x) { return relu(x) + 1; }
cell a1(x) { return a0(a0(a0(a0(a0(x))))); }
cell a2(x) { return a1(a1(a1(a1(a1(x))))); }
cell a3(x) { return a2(a2(a2(a2(a2(x))))); }
cell a4(x) { return a3(a3(a3(a3(a3(x))))); }
cell a5(x) { return a4(a4(a4(a4(a4(x))))); }
cell a6(x) { return a5(a5(a5(a5(a5(x))))); }
cell a7(x) { return a6(a6(a6(a6(a6(x))))); }
cell a8(x) { return a7(a7(a7(a7(a7(x))))); }
cell a9(x) { return a8(a8(a8(a8(a8(x))))); }

net q(batch = 16) {
    input x : f32[batch, 8];
    input t : f32[batch, 8];
    y = a9(x);
    loss mse(y, t);
}

train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); }
