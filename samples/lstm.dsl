# A sequence classified by the last state of an LSTM. Parameters are named as those of a PyTorch module with nn.LSTM lstm and nn.Linear fc.
#
#   pcc lstm.dsl --ranks 8 && prun --ranks 8 lstm.plan
import "nn.dsl";

net lstm(batch = 32, places = 12, dim = 8, hidden = 16, classes = 10) {
    input x     : f32[batch, places, dim];
    input label : i32[batch];

    lstm = lstm(x, hidden);
    fc   = linear(lstm[:, -1], classes);

    loss cross_entropy(fc, label);
}

train {
    data      = normal(seed = 1);
    optimizer = sgd(lr = 0.1, momentum = 0.9);
    steps     = 10;
}
