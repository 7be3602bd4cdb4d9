cell linear(x, out, scale = 0.1) {
    param weight : f32[size(x, -1), out] = normal(scale);
    return matmul(x, weight);
}

net q(batch = 16) {
    input x : f32[batch, 8];
    input t : f32[batch, 8];
    a0 = relu(b0);
    c0 = a0 + a0;
    a1 = relu(b1);
    c1 = a1 + a1;
    a2 = relu(b2);
    c2 = a2 + a2;
    a3 = relu(b3);
    c3 = a3 + a3;
    a4 = relu(b4);
    c4 = a4 + a4;
    a5 = relu(b5);
    c5 = a5 + a5;
    a6 = relu(b6);
    c6 = a6 + a6;
    a7 = relu(b7);
    c7 = a7 + a7;
    a8 = relu(b8);
    c8 = a8 + a8;
    a9 = relu(b9);
    c9 = a9 + a9;
    a10 = relu(b10);
    c10 = a10 + a10;
    a11 = relu(b11);
    c11 = a11 + a11;
    a12 = relu(b12);
    c12 = a12 + a12;
    a13 = relu(b13);
    c13 = a13 + a13;
    a14 = relu(b14);
    c14 = a14 + a14;
    a15 = relu(b15);
    c15 = a15 + a15;
    a16 = relu(b16);
    c16 = a16 + a16;
    a17 = relu(b17);
    c17 = a17 + a17;
    a18 = relu(b18);
    c18 = a18 + a18;
    a19 = relu(b19);
    c19 = a19 + a19;
    a20 = relu(b20);
    c20 = a20 + a20;
    a21 = relu(b21);
    c21 = a21 + a21;
    a22 = relu(b22);
    c22 = a22 + a22;
    a23 = relu(b23);
    c23 = a23 + a23;
    a24 = relu(b24);
    c24 = a24 + a24;
    y = x;
    loss mse(y, t);
}

train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); }
