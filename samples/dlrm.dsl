# DLRM (Naumov et al. 2019), as for Criteo's Kaggle data: 26 tables of a million rows, a bottom and a top MLP, the products of all pairs of rows looked up: 416,475,985 parameters. Tables are
# trained by the rows that occur: no gradient is as large as a table, and what ranks exchange are rows and their indices.
#
#   pcc dlrm.dsl --ranks 8 && prun --ranks 8 dlrm.plan
import "nn.dsl";

cell table(index, rows, dim) {
    param weight : f32[rows, dim] = uniform(-1 / sqrt(rows), 1 / sqrt(rows));
    return embedding(weight, index);
}

net dlrm(batch = 128, features = 13, tables = 26, rows = 1000000, dim = 16, wide = 512, middle = 256, narrow = 64) {
    input dense    : f32[batch, features];
    input category : i32[batch, tables];
    input click    : f32[batch];

    bot_l = dense;
    for i in 0..4 {
        if i == 0 {
            bot_l = relu(linear(bot_l, wide));
        } else if i == 1 {
            bot_l = relu(linear(bot_l, middle));
        } else if i == 2 {
            bot_l = relu(linear(bot_l, narrow));
        } else {
            bot_l = relu(linear(bot_l, dim));
        }
    }

    all = bot_l[:, None];
    for i in 0..tables {
        emb_l = table(category[:, i], rows, dim);
        all   = concat(all, emb_l[:, None], axis = 1);
    }

    # The products of each of them with those before it, in the order of a matrix below its diagonal.
    const below : f32[tables, tables] = causal(-1);
    products      = einsum("bip,bjp->ijb", all, all);
    first, chosen = topk(reshape(below, shape = [-1]), k = tables * (tables + 1) / 2);
    pairs         = gather(reshape(products[1:, :-1], shape = [tables * tables, batch]), chosen, axis = 0);

    top_l = concat(bot_l, pairs.T, axis = 1);
    for i in 0..3 {
        if i == 0 {
            top_l = relu(linear(top_l, wide));
        } else if i == 1 {
            top_l = relu(linear(top_l, middle));
        } else {
            top_l = linear(top_l, 1);
        }
    }

    loss bce_with_logits(reshape(top_l, shape = [batch]), click);
}

train {
    data      = uniform(seed = 1);
    optimizer = sgd(lr = 0.1);
    steps     = 10;
}
