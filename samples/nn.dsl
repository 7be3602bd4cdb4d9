# Layers of neural nets, written in the language: import "nn.dsl"; then y = linear(x, 64);
# The strategy of a call, y = linear(x, 64) shard ((2, 4), (1, 4)), is that of its matmul; behind calls of larger cells the operators in them are
# named: y = mlp(x, 256, 64) shard { up = ((2, 4), (1, 4)); }.

# x: [..., n] -> [..., out]. weight is [out, n], as PyTorch stores it: files of nn.Linear load as they are. A strategy has the tuple of weight as it lies:
# ((2, 4), (1, 4)) splits the sum over n, ((2, 1), (4, 1)) splits out.
cell linear(x, out, with_bias = true, std = 1 / sqrt(size(x, -1))) {
    param weight : f32[out, size(x, -1)] = normal(std);
    y = matmul(x, weight, transpose_b = true) shard;
    if with_bias {
        param bias : f32[out] = zeros;
        y = y + bias;
    }
    return y;
}

# The same with weight as [n, out], as Keras and Flax store it. x: [..., n] -> [..., out]
cell dense(x, out, with_bias = true, std = 1 / sqrt(size(x, -1))) {
    param weight : f32[size(x, -1), out] = normal(std);
    y = matmul(x, weight) shard;
    if with_bias {
        param bias : f32[out] = zeros;
        y = y + bias;
    }
    return y;
}

# The rows of a table at index[..], [.., dim]: PyTorch's nn.Embedding(rows, dim).
cell embedding(index, rows, dim, std = 1.0) {
    param weight : f32[rows, dim] = normal(std);
    return embedding(weight, index);
}

# The first rows of a table, one a place, for sequences of at most `most` places: [places, dim]
cell positions(places, most, dim, std = 0.02) {
    require places <= most "there is a position for each place";
    param weight : f32[most, dim] = normal(std);
    if places < most {
        y = weight[0:places];
    } else {
        y = weight;
    }
    return y;
}

# Two layers. x: [..., n] -> [..., out]
cell mlp(x, hidden, out) {
    up   = linear(x, hidden);
    down = linear(gelu(up), out);
    return down;
}

# Each row brought to mean 0 and variance 1, then scaled and moved. weight and bias are those of PyTorch's nn.LayerNorm. x: [..., n] -> [..., n]
cell layer_norm(x, eps = 1e-5) {
    param weight : f32[size(x, -1)] = ones;
    param bias   : f32[size(x, -1)] = zeros;
    return layer_norm(x, weight, bias, eps = eps);
}

# Each row brought to a mean square of 1, then scaled. x: [..., n] -> [..., n]
cell rms_norm(x, eps = 1e-5) {
    param weight : f32[size(x, -1)] = ones;
    return rms_norm(x, weight, eps = eps);
}

# [batch, places, dim] -> [batch, heads, places, dim / heads]
cell split_heads(x, heads) {
    let dim = size(x, 2);
    require heads > 0 "there is at least one head";
    require dim % heads == 0 "the width of x is divided among the heads evenly";
    parts = reshape(x, shape = [size(x, 0), size(x, 1), heads, dim / heads]);
    return transpose(parts, perm = [0, 2, 1, 3]);
}

# The other way round.
cell join_heads(x) {
    places = transpose(x, perm = [0, 2, 1, 3]);
    return reshape(places, shape = [size(x, 0), size(x, 2), size(x, 1) * size(x, 3)]);
}

# Attention of queries to keys, that weighs values; each [batch, heads, places, width].
cell dot_attention(q, k, v) {
    score   = matmul(q, k, transpose_b = true) * (1 / sqrt(size(q, -1)));
    weights = softmax(score);
    return matmul(weights, v);
}

# Self-attention of several heads. x: [batch, places, dim] -> [batch, places, dim]
cell attention(x, heads) {
    let dim = size(x, -1);
    require heads > 0 "there is at least one head";
    require dim % heads == 0 "the width of x is divided among the heads evenly";
    query   = linear(x, dim);
    key     = linear(x, dim);
    value   = linear(x, dim);
    context = dot_attention(split_heads(query, heads), split_heads(key, heads), split_heads(value, heads));
    output  = linear(join_heads(context), dim);
    return output;
}

# PyTorch's nn.MultiheadAttention(size(query, -1), heads, batch_first=True), whose parameters these are: in_proj_weight has the rows of query, key and value behind each other.
# Each of query, key and value: [batch, places, dim] -> [batch, places of query, dim]
cell multihead_attention(query, key, value, heads, causal = false) {
    let dim = size(query, -1);
    require heads > 0 "there is at least one head";
    require dim % heads == 0 "the width of query is divided among the heads evenly";
    let bound = sqrt(6 / (4.0 * dim));
    param in_proj_weight : f32[3 * dim, dim] = uniform(-bound, bound);
    param in_proj_bias   : f32[3 * dim]      = zeros;
    weight_q, weight_k, weight_v = split(in_proj_weight, parts = 3);
    bias_q, bias_k, bias_v = split(in_proj_bias, parts = 3);
    q = matmul(query, weight_q, transpose_b = true) + bias_q;
    k = matmul(key, weight_k, transpose_b = true) + bias_k;
    v = matmul(value, weight_v, transpose_b = true) + bias_v;
    context = dot_product_attention(split_heads(q, heads), split_heads(k, heads), split_heads(v, heads), causal = causal);
    out_proj = linear(join_heads(context), dim);
    return out_proj;
}

# One block of a transformer, with its norms first. x: [batch, places, dim] -> [batch, places, dim]
cell transformer_block(x, heads, hidden = 4 * size(x, -1)) {
    norm1    = layer_norm(x);
    attended = attention(norm1, heads);
    middle   = x + attended;
    norm2    = layer_norm(middle);
    feed     = mlp(norm2, hidden, size(x, -1));
    return middle + feed;
}

# The mean of the absolute differences: loss l1(y, label); its rows can be told apart, as those of mse can.
cell l1(y, label) {
    return mean(abs(y - label));
}

# x where it is above 0, else slope * x. x: [..] -> [..]
cell leaky_relu(x, slope = 0.01) {
    return where(x > 0.0, x, slope * x);
}

# x where it is above 0, else alpha * (exp(x) - 1). x: [..] -> [..]
cell elu(x, alpha = 1.0) {
    return where(x > 0.0, x, alpha * expm1(clamp(x, high = 0)));
}

# Where x is not a number. x: [..] -> bool[..]
cell isnan(x) {
    return x != x;
}

# The mean of half the squared differences, of those beyond delta of delta * (|difference| - delta / 2), as PyTorch's HuberLoss.
cell huber(x, target, delta = 1.0) {
    require delta > 0 "delta is above 0: the difference up to which the square counts";
    apart = x - target;
    near  = clamp(apart, low = -delta, high = delta);
    return mean(near * (apart - near / 2));
}

# The mean of target * (log(target) - x), x logarithms of probabilities, as PyTorch's KLDivLoss: over all elements, or with batchmean the sum of each
# row's, which is what mathematicians call the divergence. log_target: target is a logarithm too.
cell kl_div(x, target, log_target = false, batchmean = false) {
    if log_target {
        each = exp(target) * (target - x);
    } else {
        each = target * log(where(target > 0.0, target, 1.0)) - target * x;
    }
    if batchmean {
        value = sum(each) / size(x, 0);
    } else {
        value = mean(each);
    }
    return value;
}

# Each channel, over the batch and all places, brought to mean 0 and variance 1, then scaled and moved: PyTorch's BatchNorm, of the whole batch however it is
# split; in mode data_parallel of each replica's rows, or with batch_norm = global of all, as its SyncBatchNorm. weight, bias, running_mean and running_var are those
# of PyTorch's files. In an eval the running ones take the place of the batch's. x: [n, c, ..] -> [n, c, ..]
cell batch_norm(x, momentum = 0.1, eps = 1e-5) {
    require eps > 0 "eps is above 0: it is added to a variance";
    require momentum >= 0 and momentum <= 1 "momentum is the share of the new batch in the running statistics: 0 to 1";
    require ndim(x) >= 2 and ndim(x) <= 5 "x is [n, c] and up to three dimensions behind them";
    let channels = size(x, 1);
    param weight       : f32[channels] = ones;
    param bias         : f32[channels] = zeros;
    state running_mean : f32[channels] = zeros;
    state running_var  : f32[channels] = ones;
    if training {
        y, mean, variance = batch_norm(x, weight, bias, eps = eps) shard;
        count = size(x, 0) * batch_norm_replicas;
        for d in 2..ndim(x) {
            count = count * size(x, d);
        }
        running_mean <- (1 - momentum) * running_mean + momentum * mean;
        running_var <- (1 - momentum) * running_var + momentum * count / (count - 1.0) * variance;
    } else {
        scale = weight * rsqrt(running_var + eps);
        move  = bias - running_mean * scale;
        if ndim(x) == 2 {
            y = x * scale + move;
        } else if ndim(x) == 3 {
            y = x * scale[:, None] + move[:, None];
        } else if ndim(x) == 4 {
            y = x * scale[:, None, None] + move[:, None, None];
        } else {
            y = x * scale[:, None, None, None] + move[:, None, None, None];
        }
    }
    return y;
}

# The channels of each group together, of every sample alone, brought to mean 0 and variance 1; then each channel scaled and moved: PyTorch's nn.GroupNorm, whose
# weight and bias these are. Samples may be split, and groups. x: [n, c, ..] -> [n, c, ..]
cell group_norm(x, groups, eps = 1e-5) {
    require ndim(x) >= 2 and ndim(x) <= 5 "x is [n, c] and up to three dimensions behind them";
    require groups > 0 "there is at least one group";
    require size(x, 1) % groups == 0 "the channels are divided among the groups evenly";
    let channels = size(x, 1);
    param weight : f32[channels] = ones;
    param bias   : f32[channels] = zeros;
    flat = reshape(x, shape = [size(x, 0), groups, -1]);
    const ones_of_group  : f32[size(flat, 2)] = ones;
    const zeros_of_group : f32[size(flat, 2)] = zeros;
    normalised = reshape(layer_norm(flat, ones_of_group, zeros_of_group, eps = eps), shape = [size(x, 0), channels, -1]);
    scaled     = normalised * reshape(weight, shape = [channels, 1]) + reshape(bias, shape = [channels, 1]);
    if ndim(x) == 2 {
        y = reshape(scaled, shape = [size(x, 0), channels]);
    } else if ndim(x) == 3 {
        y = scaled;
    } else if ndim(x) == 4 {
        y = reshape(scaled, shape = [size(x, 0), channels, size(x, 2), size(x, 3)]);
    } else {
        y = reshape(scaled, shape = [size(x, 0), channels, size(x, 2), size(x, 3), size(x, 4)]);
    }
    return y;
}

# Cross-correlation over planes: PyTorch's nn.Conv2d, weight [out, channels / groups, height, width] as in its files. kernel_size, stride, padding and dilation are of
# height and width alike; for two numbers there is the operator, conv2d(x, weight, stride = [1, 2]). x: [n, c, h, w] -> [n, out, h', w']. A strategy is that of the
# operator: ((8, 1, 1, 1), (1, 1, 1, 1)) splits the batch, ((1, 1, 1, 1), (8, 1, 1, 1)) splits out, ((1, 8, 1, 1), (1, 8, 1, 1)) the sum over c.
cell conv2d(x, out, kernel_size, stride = 1, padding = 0, dilation = 1, groups = 1, with_bias = true, std = 1 / sqrt(1.0 * size(x, 1) / groups * kernel_size * kernel_size)) {
    require groups > 0 and size(x, 1) % groups == 0 and out % groups == 0 "the channels of x and of the result are divided among the groups evenly";
    param weight : f32[out, size(x, 1) / groups, kernel_size, kernel_size] = normal(std);
    y = conv2d(x, weight, stride = stride, padding = padding, dilation = dilation, groups = groups) shard;
    if with_bias {
        param bias : f32[out] = zeros;
        y = y + reshape(bias, shape = [out, 1, 1]);
    }
    return y;
}

# The same over rows: PyTorch's nn.Conv1d, weight [out, channels / groups, width]. x: [n, c, w] -> [n, out, w']
cell conv1d(x, out, kernel_size, stride = 1, padding = 0, dilation = 1, groups = 1, with_bias = true, std = 1 / sqrt(1.0 * size(x, 1) / groups * kernel_size)) {
    require ndim(x) == 3 "x is [n, c, w]";
    require groups > 0 and size(x, 1) % groups == 0 and out % groups == 0 "the channels of x and of the result are divided among the groups evenly";
    param weight : f32[out, size(x, 1) / groups, kernel_size] = normal(std);
    rows  = reshape(x, shape = [size(x, 0), size(x, 1), 1, size(x, 2)]);
    taps  = reshape(weight, shape = [out, size(x, 1) / groups, 1, kernel_size]);
    plane = conv2d(rows, taps, stride = [1, stride], padding = [0, padding], dilation = [1, dilation], groups = groups) shard;
    y     = reshape(plane, shape = [size(x, 0), out, size(plane, 3)]);
    if with_bias {
        param bias : f32[out] = zeros;
        y = y + reshape(bias, shape = [out, 1]);
    }
    return y;
}

# The mean of each plane: PyTorch's AdaptiveAvgPool2d(1) and a flatten behind it. x: [n, c, h, w] -> [n, c]
cell global_avg_pool(x) {
    return mean(x, axes = [2, 3]);
}

# The outputs of PyTorch's nn.LSTM(size(x, -1), hidden, batch_first=True), a layer in one direction that begins at zeros; its parameters have that one's names and shapes.
# The last state is y[:, -1]. x: [batch, places, n] -> [batch, places, hidden]. A strategy is that of the product of x and weight_ih_l0.
cell lstm(x, hidden) {
    require ndim(x) == 3 "x is [batch, places, n]";
    let bound = 1 / sqrt(hidden);
    param weight_ih_l0 : f32[4 * hidden, size(x, 2)] = uniform(-bound, bound);
    param weight_hh_l0 : f32[4 * hidden, hidden]     = uniform(-bound, bound);
    param bias_ih_l0   : f32[4 * hidden]             = uniform(-bound, bound);
    param bias_hh_l0   : f32[4 * hidden]             = uniform(-bound, bound);
    const start        : f32[size(x, 0), hidden]     = zeros;
    product = matmul(x, weight_ih_l0, transpose_b = true) shard;
    given   = product + (bias_ih_l0 + bias_hh_l0);
    h       = start;
    c       = start;
    y       = start;
    for t in 0..size(x, 1) {
        gates = given[:, t];
        if t > 0 {
            gates = gates + matmul(h, weight_hh_l0, transpose_b = true);
        }
        take, keep, new, show = split(gates, parts = 4, axis = 1);
        c = sigmoid(keep) * c + sigmoid(take) * tanh(new);
        h = sigmoid(show) * tanh(c);
        if t == 0 {
            y = h[:, None];
        } else {
            y = concat(y, h[:, None], axis = 1);
        }
    }
    return y;
}

# The same of PyTorch's nn.GRU. x: [batch, places, n] -> [batch, places, hidden]
cell gru(x, hidden) {
    require ndim(x) == 3 "x is [batch, places, n]";
    let bound = 1 / sqrt(hidden);
    param weight_ih_l0 : f32[3 * hidden, size(x, 2)] = uniform(-bound, bound);
    param weight_hh_l0 : f32[3 * hidden, hidden]     = uniform(-bound, bound);
    param bias_ih_l0   : f32[3 * hidden]             = uniform(-bound, bound);
    param bias_hh_l0   : f32[3 * hidden]             = uniform(-bound, bound);
    const start        : f32[size(x, 0), hidden]     = zeros;
    product = matmul(x, weight_ih_l0, transpose_b = true) shard;
    given   = product + bias_ih_l0;
    h       = start;
    y       = start;
    for t in 0..size(x, 1) {
        own = bias_hh_l0[None];
        if t > 0 {
            own = matmul(h, weight_hh_l0, transpose_b = true) + bias_hh_l0;
        }
        reset, keep, new = split(given[:, t], parts = 3, axis = 1);
        own_reset, own_keep, own_new = split(own, parts = 3, axis = 1);
        next = tanh(new + sigmoid(reset + own_reset) * own_new);
        h = next + sigmoid(keep + own_keep) * (h - next);
        if t == 0 {
            y = h[:, None];
        } else {
            y = concat(y, h[:, None], axis = 1);
        }
    }
    return y;
}

# In training each element is 0 with probability p, else x / (1 - p); in an eval x. x: [..] -> [..]
cell dropout(x, p = 0.5) {
    require p >= 0 and p < 1 "p is the share of elements that become 0: at least 0, less than 1";
    if training and p > 0 {
        y = where(random(x) < 1.0 - p, x * (1 / (1.0 - p)), 0.0);
    } else {
        y = x;
    }
    return y;
}

# Numbers of the standard normal distribution, as many as x has elements, others at every step: of pairs of uniform ones (Box and Muller 1958). x: [..] -> [..]
cell standard_normal(x) {
    radius = sqrt(-2.0 * log(1.0 - random(x)));
    return radius * cos(6.283185307179586 * random(x));
}

# A block of ResNet-18 and -34 (He et al. 2015), named as torchvision's BasicBlock: two convolutions, and x beside them, through a convolution and a norm of its own
# where the block changes the shape. x: [n, c, h, w] -> [n, out, h / stride, w / stride]
cell basic_block(x, out, stride = 1) {
    conv1      = conv2d(x, out, 3, stride = stride, padding = 1, with_bias = false);
    bn1        = batch_norm(conv1);
    conv2      = conv2d(relu(bn1), out, 3, padding = 1, with_bias = false);
    bn2        = batch_norm(conv2);
    downsample = x;
    if stride != 1 or size(x, 1) != out {
        for k in 0..2 {
            if k == 0 {
                downsample = conv2d(downsample, out, 1, stride = stride, with_bias = false);
            } else {
                downsample = batch_norm(downsample);
            }
        }
    }
    return relu(bn2 + downsample);
}

# A block of ResNet-50 and deeper ones, named as torchvision's Bottleneck; the convolution in the middle has the stride.
# x: [n, c, h, w] -> [n, 4 * width, h / stride, w / stride]
cell bottleneck(x, width, stride = 1) {
    conv1      = conv2d(x, width, 1, with_bias = false);
    bn1        = batch_norm(conv1);
    conv2      = conv2d(relu(bn1), width, 3, stride = stride, padding = 1, with_bias = false);
    bn2        = batch_norm(conv2);
    conv3      = conv2d(relu(bn2), 4 * width, 1, with_bias = false);
    bn3        = batch_norm(conv3);
    downsample = x;
    if stride != 1 or size(x, 1) != 4 * width {
        for k in 0..2 {
            if k == 0 {
                downsample = conv2d(downsample, 4 * width, 1, stride = stride, with_bias = false);
            } else {
                downsample = batch_norm(downsample);
            }
        }
    }
    return relu(bn3 + downsample);
}

# LLaMA's layers, whose parameters are named as Hugging Face names them.
# Attention of each place to those up to it, with rotary positions; heads / groups heads of queries share one of keys and values.
# x: [batch, places, dim] -> [batch, places, dim]
cell llama_attention(x, heads, groups, base = 10000.0) {
    let batch = size(x, 0);
    let places = size(x, 1);
    let width = size(x, 2) / heads;
    q_proj  = linear(x, heads * width, with_bias = false);
    k_proj  = linear(x, groups * width, with_bias = false);
    v_proj  = linear(x, groups * width, with_bias = false);
    q       = transpose(reshape(q_proj, shape = [batch, places, groups, heads / groups, width]), perm = [0, 2, 3, 1, 4]);
    k       = transpose(reshape(k_proj, shape = [batch, places, groups, width]), perm = [0, 2, 1, 3]);
    v       = transpose(reshape(v_proj, shape = [batch, places, groups, width]), perm = [0, 2, 1, 3]);
    context = dot_product_attention(rope(q, base = base), rope(k, base = base), v, causal = true);
    joined  = reshape(transpose(context, perm = [0, 3, 1, 2, 4]), shape = [batch, places, heads * width]);
    o_proj  = linear(joined, size(x, 2), with_bias = false);
    return o_proj;
}

# silu(gate) * up, then down. x: [.., n] -> [.., n]
cell llama_mlp(x, hidden) {
    gate_proj = linear(x, hidden, with_bias = false);
    up_proj   = linear(x, hidden, with_bias = false);
    down_proj = linear(silu(gate_proj) * up_proj, size(x, -1), with_bias = false);
    return down_proj;
}

# x: [batch, places, dim] -> [batch, places, dim]
cell llama_block(x, heads, groups, hidden, base = 10000.0, eps = 1e-5) {
    input_layernorm = rms_norm(x, eps = eps);
    self_attn = llama_attention(input_layernorm, heads, groups, base = base);
    middle = x + self_attn;
    post_attention_layernorm = rms_norm(middle, eps = eps);
    mlp = llama_mlp(post_attention_layernorm, hidden);
    return middle + mlp;
}

# What LlamaForCausalLM has below its lm_head. word: [batch, places] -> [batch, places, dim]
cell llama_model(word, words, dim, blocks, heads, groups, hidden, base = 10000.0, eps = 1e-5) {
    embed_tokens = embedding(word, words, dim, std = 0.02);
    layers       = embed_tokens;
    for i in 0..blocks {
        layers = llama_block(layers, heads, groups, hidden, base = base, eps = eps);
    }
    norm = rms_norm(layers, eps = eps);
    return norm;
}

# GPT-2's parts (Radford et al. 2019), named as Hugging Face's, whose Conv1D is dense: weight is [in, out].
# Attention of each place to those up to it. x: [batch, places, dim] -> [batch, places, dim]
cell gpt2_attention(x, heads) {
    c_attn  = dense(x, 3 * size(x, -1), std = 0.02);
    q, k, v = split(c_attn, parts = 3, axis = -1);
    context = dot_product_attention(split_heads(q, heads), split_heads(k, heads), split_heads(v, heads), causal = true);
    c_proj  = dense(join_heads(context), size(x, -1), std = 0.02);
    return c_proj;
}

cell gpt2_mlp(x, hidden) {
    c_fc   = dense(x, hidden, std = 0.02);
    c_proj = dense(gelu(c_fc, tanh = true), size(x, -1), std = 0.02);
    return c_proj;
}

cell gpt2_block(x, heads, dropped = 0.0) {
    ln_1   = layer_norm(x);
    attn   = gpt2_attention(ln_1, heads);
    middle = x + dropout(attn, dropped);
    ln_2   = layer_norm(middle);
    mlp    = gpt2_mlp(ln_2, 4 * size(x, -1));
    return middle + dropout(mlp, dropped);
}

# The same table for words and logits: what it has at index[..], and all of it, [rows, dim].
cell tied_embedding(index, rows, dim) {
    param weight : f32[rows, dim] = normal(0.02);
    return embedding(weight, index), weight;
}

# GPT2LMHeadModel, whose lm_head is wte's table. dropped is resid_pdrop and embd_pdrop; the weights of attention are not dropped.
# word: [batch, places] -> [batch, places, words], the logits of what follows each place
cell gpt2_model(word, words, most, dim, blocks, heads, dropped = 0.0) {
    wte, table = tied_embedding(word, words, dim);
    wpe = positions(size(word, -1), most, dim);
    h = dropout(wte + wpe, dropped);
    for i in 0..blocks {
        h = gpt2_block(h, heads, dropped = dropped);
    }
    ln_f = layer_norm(h);
    return matmul(ln_f, table, transpose_b = true);
}

# Mixture of experts (GShard: Lepikhin et al. 2020; Switch: Fedus et al. 2021). Each place of x goes to the `k` of the experts that a linear router likes best; an expert is two layers
# with a relu between. Of each row of the batch an expert takes `capacity` places at most: first choices before second ones, each in the order of places; what is beyond is dropped, and its
# share of y is 0. Of several choices the weights sum to 1; of one the weight is the router's probability, from which the router learns. Results: y; balance, a loss
# that is least (1) where all experts get as much (times 0.01, say, it is added to the loss); dropped, the share of choices that found no room.
# Places go to slots, and their results back, by index: no product with a mask. A strategy is that of up: ((8, 1, 1), (8, 1, 1)) splits experts, where batches come and go by
# AllToAll. x: [batch, places, n] -> [batch, places, n]
cell moe(x, experts, hidden, k = 1, capacity = ceil_div(5 * k * size(x, 1), 4 * experts)) {
    require ndim(x) == 3 "x is [batch, places, n]";
    require k >= 1 and k <= experts "each place has 1 choice or more, and no more than there are experts";
    require capacity >= 1 "an expert takes at least one place of each row";
    let batch = size(x, 0);
    let places = size(x, 1);
    let width = size(x, 2);
    const none   : i32[batch, experts * capacity] = zeros;
    const each   : i32[batch, k, places]          = ones;
    param w_up   : f32[experts, width, hidden]    = normal(1 / sqrt(width));
    param w_down : f32[experts, hidden, width]    = normal(1 / sqrt(hidden));

    router       = linear(x, experts, with_bias = false);
    share        = softmax(router);
    gate, expert = topk(share, k = k);
    if k > 1 {
        gate = gate / sum(gate, axes = -1, keep_dims = true);
    }

    # Of each choice the expert, how many came before it, and the slot that it gets: -1 where all are taken.
    choice = reshape(transpose(expert, perm = [0, 2, 1]), shape = [batch, k * places]);
    taken  = one_hot(choice, depth = experts, to = i32);
    before = reshape(gather(cumsum(taken, axis = 1, exclusive = true), choice[:, :, None]), shape = [batch, k * places]);
    fits   = before < capacity;
    slot   = where(fits, choice * capacity + before, -1);

    # Of each slot its place, counted from 1.
    place = reshape(cumsum(each, axis = 2), shape = [batch, k * places]);
    from  = scatter_add(none, slot, place);

    sent  = reshape(gather(x, from - 1, axis = 1), shape = [batch, experts, capacity, width]);
    given = reshape(transpose(sent, perm = [1, 0, 2, 3]), shape = [experts, batch * capacity, width]);
    up    = matmul(given, w_up) shard;
    down  = matmul(relu(up), w_down);
    back  = transpose(reshape(down, shape = [experts, batch, capacity, width]), perm = [1, 0, 2, 3]);
    found = gather(reshape(back, shape = [batch, experts * capacity, width]), slot, axis = 1);

    weight  = reshape(transpose(gate, perm = [0, 2, 1]), shape = [batch, k, places, 1]);
    y       = sum(reshape(found, shape = [batch, k, places, width]) * weight, axes = 1);
    balance = experts * sum(mean(cast(taken, f32), axes = [0, 1]) * mean(share, axes = [0, 1]));
    dropped = 1 - mean(cast(fits, f32));
    return y, balance, dropped;
}

# Mixtral's mixture of experts (Jiang et al. 2024), named as Hugging Face's MixtralSparseMoeBlock: an expert is w2(silu(w1 x) * w3 x), and each place's result is the sum of those of its `k` experts, by the router's
# probabilities scaled to the sum 1. No place is dropped: all experts compute all places, and those that a place does not have count 0. Strategies: of w1 and w3 that of [batch, places, n] by
# [experts * hidden, n], of w2 that of [experts, batch * places, hidden] by [experts, n, hidden]. What a file has of each expert, experts.0.w1.weight and so on, is one parameter of all, experts.w1.weight.
# Results: y, and balance as of moe. x: [batch, places, n] -> [batch, places, n]
cell mixtral_moe(x, count, hidden, k = 2) {
    require ndim(x) == 3 "x is [batch, places, n]";
    require k >= 1 and k <= count "each place has 1 choice or more, and no more than there are experts";
    gate = linear(x, count, with_bias = false, std = 0.02);
    share = softmax(gate);
    chosen, expert = topk(share, k = k);
    taken = one_hot(expert, depth = count);
    weight = sum(taken * reshape(chosen / sum(chosen, axes = -1, keep_dims = true), shape = [size(x, 0), size(x, 1), k, 1]), axes = 2);
    balance = count * sum(mean(taken, axes = [0, 1, 2]) * mean(share, axes = [0, 1]));
    experts = mixtral_experts(x, weight, hidden);
    return experts, balance;
}

# x: [batch, places, n], weight: [batch, places, experts] -> [batch, places, n]
cell mixtral_experts(x, weight, hidden) {
    w1    = expert_linear(x, size(weight, -1), hidden);
    w3    = expert_linear(x, size(weight, -1), hidden);
    inner = silu(w1) * w3 * reshape(weight, shape = [size(weight, 0), size(weight, 1), size(weight, 2), 1]);
    w2    = expert_sum(inner, size(x, -1));
    return w2;
}

# Each expert's own product. x: [batch, places, n] -> [batch, places, experts, out]
cell expert_linear(x, experts, out) {
    param weight : f32[experts, out, size(x, -1)] = normal(0.02);
    y = matmul(x, reshape(weight, shape = [experts * out, size(x, -1)]), transpose_b = true) shard;
    return reshape(y, shape = [size(x, 0), size(x, 1), experts, out]);
}

# The sum of each expert's own product. x: [batch, places, experts, n] -> [batch, places, out]
cell expert_sum(x, out) {
    param weight : f32[size(x, 2), out, size(x, -1)] = normal(0.02);
    given = reshape(transpose(x, perm = [2, 0, 1, 3]), shape = [size(x, 2), size(x, 0) * size(x, 1), size(x, -1)]);
    each  = matmul(given, weight, transpose_b = true) shard;
    return reshape(sum(each, axes = 0), shape = [size(x, 0), size(x, 1), out]);
}

# x: [batch, places, dim] -> the same, and balance
cell mixtral_block(x, heads, groups, experts, hidden, k, base = 1000000.0, eps = 1e-5) {
    input_layernorm = rms_norm(x, eps = eps);
    self_attn = llama_attention(input_layernorm, heads, groups, base = base);
    middle = x + self_attn;
    post_attention_layernorm = rms_norm(middle, eps = eps);
    block_sparse_moe, balance = mixtral_moe(post_attention_layernorm, experts, hidden, k = k);
    return middle + block_sparse_moe, balance;
}

# What MixtralForCausalLM has below its lm_head, and the sum of its blocks' balance. word: [batch, places] -> [batch, places, dim]
cell mixtral_model(word, words, dim, blocks, heads, groups, experts, hidden, k = 2, base = 1000000.0, eps = 1e-5) {
    embed_tokens = embedding(word, words, dim, std = 0.02);
    layers       = embed_tokens;
    balance      = 0.0;
    for i in 0..blocks {
        layers, even = mixtral_block(layers, heads, groups, experts, hidden, k, base = base, eps = eps);
        balance      = balance + even;
    }
    norm = rms_norm(layers, eps = eps);
    return norm, balance;
}

# BERT's parts (Devlin et al. 2019), named as Hugging Face's.
# x: [batch, places, dim], keep: bool[batch, 1, 1, places] -> [batch, places, dim]
cell bert_self_attention(x, heads, keep) {
    query = linear(x, size(x, -1), std = 0.02);
    key   = linear(x, size(x, -1), std = 0.02);
    value = linear(x, size(x, -1), std = 0.02);
    return join_heads(dot_product_attention(split_heads(query, heads), split_heads(key, heads), split_heads(value, heads), keep));
}

# A linear layer, and the norm of its sum with what stood before. x: [.., n], before: [.., dim] -> [.., dim]
cell bert_output(x, before, dropped) {
    dense     = linear(x, size(before, -1), std = 0.02);
    LayerNorm = layer_norm(dropout(dense, dropped) + before, eps = 1e-12);
    return LayerNorm;
}

cell bert_attention(x, heads, keep, dropped) {
    self   = bert_self_attention(x, heads, keep);
    output = bert_output(self, x, dropped);
    return output;
}

cell bert_intermediate(x, hidden) {
    dense = linear(x, hidden, std = 0.02);
    return gelu(dense);
}

cell bert_layer(x, heads, keep, dropped) {
    attention    = bert_attention(x, heads, keep, dropped);
    intermediate = bert_intermediate(attention, 4 * size(x, -1));
    output       = bert_output(intermediate, attention, dropped);
    return output;
}

cell bert_embeddings(token, kind, words, most, dim, dropped) {
    word_embeddings = embedding(token, words, dim, std = 0.02);
    position_embeddings = positions(size(token, 1), most, dim);
    token_type_embeddings = embedding(kind, 2, dim, std = 0.02);
    LayerNorm = layer_norm(word_embeddings + token_type_embeddings + position_embeddings, eps = 1e-12);
    return dropout(LayerNorm, dropped);
}

cell bert_encoder(x, layers, heads, keep, dropped) {
    layer = x;
    for i in 0..layers {
        layer = bert_layer(layer, heads, keep, dropped);
    }
    return layer;
}

# The first place of each sequence: [batch, places, dim] -> [batch, dim]
cell bert_pooler(x) {
    dense = linear(x[:, 0], size(x, -1), std = 0.02);
    return tanh(dense);
}

cell bert_model(token, kind, keep, words, most, dim, layers, heads, dropped) {
    embeddings = bert_embeddings(token, kind, words, most, dim, dropped);
    encoder    = bert_encoder(embeddings, layers, heads, keep, dropped);
    pooler     = bert_pooler(encoder);
    return pooler;
}
