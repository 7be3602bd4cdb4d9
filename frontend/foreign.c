/* Names from PyTorch, JAX, NumPy and MindSpore: those with one possible meaning are accepted; for others a hint shows what to write instead. */
#include "frontend/lower.h"

#include <stdlib.h>
#include <string.h>

/* Attributes of operators. */
static const struct {
    const char *theirs, *ours;
} attrs[] = {{"axis", "axes"},       {"dim", "axes"},          {"dims", "axes"},          {"axes", "axis"},  {"dim", "axis"},
             {"dims", "axis"},       {"keepdim", "keep_dims"}, {"keepdims", "keep_dims"}, {"axes", "perm"},  {"dims", "perm"},
             {"input_perm", "perm"}, {"newshape", "shape"},    {"num_classes", "depth"},  {"dtype", "to"},   {"chunks", "parts"},
             {"min", "low"},         {"max", "high"},          {"a_min", "low"},          {"a_max", "high"}, {"output_num", "parts"}};

const char *foreign_attr(OpCode op, const char *name) {
    if (op_attr(op, name) >= 0) return name;
    for (size_t i = 0; i < sizeof attrs / sizeof *attrs; i++)
        if (!strcmp(attrs[i].theirs, name) && op_attr(op, attrs[i].ours) >= 0) return attrs[i].ours;
    return name;
}

/* Words that mean the same. */
static const struct {
    const char *what, *theirs, *ours;
} words[] = {{"element type", "float32", "f32"},
             {"element type", "float64", "f64"},
             {"element type", "int32", "i32"},
             {"element type", "int64", "i64"},
             {"mode", "auto_parallel", "auto"},
             {"mode", "semi_auto_parallel", "semi_auto"},
             {"mode", "hybrid_parallel", "manual"},
             {"mode", "standalone", "stand_alone"},
             {"setting", "search_mode", "search"},
             {"setting", "parallel_mode", "mode"},
             {"setting", "dataset_strategy", "dataset"},
             {"setting", "pipeline_stages", "stages"},
             {"setting", "virtual_stages", "chunks"},
             {"setting", "virtual_pipeline_model_parallel_size", "chunks"},
             {"setting", "num_virtual_stages_per_pipeline_rank", "chunks"},
             {"setting", "auto_parallel_search_mode", "search"},
             {"argument", "learning_rate", "lr"},
             {"argument", "warmup_steps", "warmup"},
             {"argument", "num_warmup_steps", "warmup"},
             {"argument", "step_size", "every"},
             {"schedule", "cosineannealinglr", "cosine"},
             {"schedule", "cosineannealing", "cosine"},
             {"schedule", "cosinedecay", "cosine"},
             {"schedule", "steplr", "step"},
             {"schedule", "multisteplr", "multistep"},
             {"schedule", "noam", "inverse_sqrt"}};

const char *foreign_word(const char *what, const char *name) {
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i].what, what) && !strcmp(words[i].theirs, name)) return words[i].ours;
    return name;
}

const char *word_of(Lower *lower, const Expr *value) {
    const char *text = value->kind == EXPR_NAME || value->kind == EXPR_STRING ? value->text
                       : value->kind == EXPR_PATH                             ? value->last->text
                                                                              : NULL;
    if (!text) return NULL;
    char *copy = arena_copy(lower->arena, text, strlen(text));
    for (char *at = copy; *at; at++)
        if (*at >= 'A' && *at <= 'Z') *at = (char)(*at - 'A' + 'a');
    return copy;
}

/* What is written differently here; foreign names are in lower case and without '_'. */
static const struct {
    const char *what, *theirs, *hint;
} hints[] = {
    {"operator", "mm", "a @ b, or matmul(a, b)"},
    {"operator", "checkpoint", "recompute behind the call: h = block(x) recompute;"},
    {"operator", "remat", "recompute behind the call: h = block(x) recompute;"},
    {"operator", "bmm", "a @ b, or matmul(a, b); leading dimensions are a batch"},
    {"operator", "dot", "a @ b, or matmul(a, b)"},
    {"operator", "batchmatmul", "a @ b, or matmul(a, b); leading dimensions are a batch"},
    {"operator", "cat", "concat(a, b, axis = 0)"},
    {"operator", "concatenate", "concat(a, b, axis = 0)"},
    {"operator", "hstack", "concat(a, b, axis = 1)"},
    {"operator", "vstack", "concat(a, b, axis = 0)"},
    {"operator", "chunk", "p, q = split(x, parts = 2, axis = 0);"},
    {"operator", "view", "reshape(x, shape = [4, -1])"},
    {"operator", "flatten", "reshape(x, shape = [x.shape[0], -1])"},
    {"operator", "permute", "transpose(x, perm = [0, 2, 1])"},
    {"operator", "swapaxes", "transpose(x, perm = [0, 2, 1]); x.T of a matrix"},
    {"operator", "t", "x.T, or transpose(x)"},
    {"operator", "unsqueeze", "x[:, None] has a new dimension 1 of size 1"},
    {"operator", "expanddims", "x[:, None] has a new dimension 1 of size 1"},
    {"operator", "squeeze", "x[:, 0] is without dimension 1; or reshape(x, shape = [..])"},
    {"operator", "expand", "size 1 broadcasts by itself: x + b; for a concat add zeros: const none : f32[16, 1, 8] = zeros; y = x + none;"},
    {"operator", "broadcastto",
     "size 1 broadcasts by itself: x + b; for a concat add zeros: const none : f32[16, 1, 8] = zeros; y = x + none;"},
    {"operator", "repeat", "size 1 broadcasts by itself; concat(x, x) joins copies"},
    {"operator", "tile", "size 1 broadcasts by itself; concat(x, x) joins copies"},
    {"operator", "power", "x ** y, or pow(x, y)"},
    {"operator", "multiply", "a * b, or mul(a, b)"},
    {"operator", "subtract", "a - b, or sub(a, b)"},
    {"operator", "divide", "a / b, or div(a, b)"},
    {"operator", "truediv", "a / b, or div(a, b)"},
    {"operator", "realdiv", "a / b, or div(a, b)"},
    {"operator", "negative", "-x, or neg(x)"},
    {"operator", "allreduce", "communications are written in mode manual; in the others pcc inserts them"},
    {"operator", "allgather", "communications are written in mode manual; in the others pcc inserts them"},
    {"operator", "reducescatter", "communications are written in mode manual; in the others pcc inserts them"},
    {"operator", "alltoall", "communications are written in mode manual; in the others pcc inserts them"},
    {"operator", "broadcast", "size 1 broadcasts by itself: x + b; the communication broadcast(x, root = 0) is written in mode manual"},
    {"operator", "barrier", "communications are written in mode manual; in the others pcc inserts them"},
    {"operator", "send", "communications are written in mode manual; in the others pcc inserts them"},
    {"operator", "recv", "communications are written in mode manual; in the others pcc inserts them"},
    {"operator", "reducesum", "sum(x, axes = 1)"},
    {"operator", "reducemean", "mean(x, axes = 1)"},
    {"operator", "reducemax", "max(x, axes = 1)"},
    {"operator", "reducemin", "min(x, axes = 1)"},
    {"operator", "amax", "max(x, axes = 1)"},
    {"operator", "amin", "min(x, axes = 1)"},
    {"operator", "average", "mean(x, axes = 1)"},
    {"operator", "var", "mean(square(x - mean(x, axes = -1, keep_dims = true)), axes = -1)"},
    {"operator", "std", "sqrt(mean(square(x - mean(x, axes = -1, keep_dims = true)), axes = -1))"},
    {"operator", "norm", "sqrt(sum(square(x)))"},
    {"operator", "logsumexp", "m + log(sum(exp(x - m), axes = -1, keep_dims = true)) with m = max(x, axes = -1, keep_dims = true)"},
    {"operator", "log1p", "log(1 + x)"},
    {"operator", "tan", "sin(x) / cos(x)"},
    {"operator", "sinh", "(exp(x) - exp(-x)) / 2"},
    {"operator", "cosh", "(exp(x) + exp(-x)) / 2"},
    {"operator", "asin", "there are sin and cos, and not what undoes them"},
    {"operator", "acos", "there are sin and cos, and not what undoes them"},
    {"operator", "atan", "there are sin and cos, and not what undoes them"},
    {"operator", "exp2", "exp(0.6931471805599453 * x)"},
    {"operator", "log2", "log(x) * 1.4426950408889634"},
    {"operator", "log10", "log(x) * 0.4342944819032518"},
    {"operator", "reciprocal", "1 / x"},
    {"operator", "ceil", "-floor(-x)"},
    {"operator", "round", "floor(x + 0.5)"},
    {"operator", "trunc", "cast(cast(x, to = i32), to = f32)"},
    {"operator", "logsigmoid", "-softplus(-x)"},
    {"operator", "logit", "log(x) - log(1 - x)"},
    {"operator", "softmin", "softmax(-x)"},
    {"operator", "softsign", "x / (1 + abs(x))"},
    {"operator", "mish", "x * tanh(softplus(x))"},
    {"operator", "prelu", "maximum(x, 0.0) + a * minimum(x, 0.0), with a parameter a"},
    {"operator", "celu", "import \"nn.dsl\"; at the top of the file brings in elu(x), which it is for alpha = 1"},
    {"operator", "selu", "1.0507009873554805 * where(x > 0.0, x, 1.6732632423543772 * (exp(minimum(x, 0.0)) - 1))"},
    {"operator", "hardsigmoid", "clamp(x / 6 + 0.5, low = 0, high = 1)"},
    {"operator", "glu", "a * sigmoid(b), where a, b = split(x, parts = 2, axis = -1);"},
    {"operator", "swiglu", "silu(a) * b, where a, b = split(x, parts = 2, axis = -1);"},
    {"operator", "argmin", "argmax(-x)"},
    {"operator", "sort", "topk(x, k = n) gives the n largest in order"},
    {"operator", "argsort", "topk(x, k = n) gives the n largest in order"},
    {"operator", "median", "nothing sorts: there is no median; mean(x, axes = 1)"},
    {"operator", "nanmean", "there is no mean without the NaNs; mean(x, axes = 1) is with them"},
    {"operator", "rsub", "b - a"},
    {"operator", "addmm", "x @ w + b"},
    {"operator", "logicaland", "where(a, b, a)"},
    {"operator", "logicalor", "where(a, a, b)"},
    {"operator", "logicalnot", "a == 0"},
    {"operator", "maskedfill", "where(mask, value, x)"},
    {"operator", "zeroslike", "0 * x; or const c : f32[8, 4] = zeros;"},
    {"operator", "oneslike", "const c : f32[8, 4] = ones;"},
    {"operator", "arange", "const c : i32[4] = [0, 1, 2, 3]; or file(\"c.npy\")"},
    {"operator", "eye", "const c : f32[2, 2] = [[1, 0], [0, 1]]; or file(\"c.npy\")"},
    {"operator", "rmsnorm", "x * rsqrt(mean(square(x), axes = -1, keep_dims = true) + 1e-6) * weight"},
    {"operator", "huberloss", "import \"nn.dsl\"; at the top of the file brings in huber(x, target)"},
    {"operator", "smoothl1loss", "import \"nn.dsl\"; at the top of the file brings in huber(x, target), which it is for beta = 1"},
    {"operator", "kldivloss", "import \"nn.dsl\"; at the top of the file brings in kl_div(x, target), x logarithms"},
    {"operator", "item", "prun prints the loss; prun --print NAME prints a parameter"},
    {"operator", "half", "element types of reals are f32 and f64: cast(x, to = f32)"},
    {"operator", "withshardingconstraint", "the strategy stands behind the operator: h = matmul(x, w) shard ((2, 4), (4, 1));"},
    {"operator", "scaleddotproductattention", "import \"nn.dsl\"; at the top of the file brings in dot_attention and attention"},
    {"operator", "multiheadattention", "import \"nn.dsl\"; at the top of the file brings in dot_attention and attention"},
    {"operator", "relu6", "clamp(x, low = 0, high = 6)"},
    {"operator", "clip", "clamp(x, low = 0, high = 1)"},
    {"operator", "clipbyvalue", "clamp(x, low = 0, high = 1)"},
    {"operator", "swish", "silu(x)"},
    {"operator", "hardtanh", "clamp(x, low = -1, high = 1)"},
    {"operator", "select", "where(cond, a, b)"},
    {"operator", "onehot", "one_hot(index, depth = 10)"},
    {"operator", "takealongdim", "gather(x, index, axis = 1)"},
    {"operator", "takealongaxis", "gather(x, index, axis = 1)"},
    {"operator", "gatherd", "gather(x, index, axis = 1)"},
    {"operator", "indexselect", "gather(x, index, axis = 0), whose index has one dimension; embedding(table, index) for rows of a matrix"},
    {"operator", "scatteradd", "scatter_add(x, index, added, axis = 1)"},
    {"operator", "indexadd", "scatter_add(x, index, added, axis = 0), whose index has one dimension"},
    {"operator", "take", "embedding(table, index) for rows, pick(x, index) for one element of each row"},
    {"operator", "indexselect", "embedding(table, index)"},
    {"operator", "detach", "stop_gradient(x)"},
    {"operator", "float", "cast(x, to = f32)"},
    {"operator", "double", "cast(x, to = f64)"},
    {"operator", "int", "cast(x, to = i32)"},
    {"operator", "long", "cast(x, to = i64)"},
    {"operator", "astype", "cast(x, to = f32)"},
    {"operator", "type", "cast(x, to = f32)"},
    {"operator", "to", "cast(x, to = f32); where it runs is the business of prun --device"},
    {"operator", "dim", "ndim(x), or x.ndim"},
    {"operator", "shape", "x.shape[0], or size(x, 0)"},
    {"operator", "len", "x.shape[0], or size(x, 0)"},
    {"operator", "gt", "greater(a, b)"},
    {"operator", "ge", "greater_equal(a, b)"},
    {"operator", "lt", "less(a, b)"},
    {"operator", "le", "less_equal(a, b)"},
    {"operator", "eq", "equal(a, b)"},
    {"operator", "ne", "not_equal(a, b)"},
    {"operator", "mseloss", "mse(x, target)"},
    {"operator", "l1loss", "mean(abs(x - target))"},
    {"operator", "meansquarederror", "mse(x, target)"},
    {"operator", "crossentropyloss", "cross_entropy(logits, label)"},
    {"operator", "softmaxcrossentropywithlogits", "cross_entropy(logits, label), with labels that are indices"},
    {"operator", "sparsesoftmaxcrossentropywithlogits", "cross_entropy(logits, label)"},
    {"operator", "nllloss", "cross_entropy(logits, label) takes logits; of logarithms y it is -mean(pick(y, label))"},
    {"operator", "bce", "bce_with_logits(logits, label), with what would go into the sigmoid"},
    {"operator", "bceloss", "bce_with_logits(logits, label), with what would go into the sigmoid"},
    {"operator", "binarycrossentropy", "bce_with_logits(logits, label), with what would go into the sigmoid"},
    {"operator", "bcewithlogitsloss", "bce_with_logits(logits, label)"},
    {"operator", "binarycrossentropywithlogits", "bce_with_logits(logits, label)"},
    {"operator", "matmuladd", "x @ w + b"},
    {"operator", "sequential", "y = relu(linear(x, 64)); calls stand in each other, or one below the other"},
    {"operator", "parameter", "param w : f32[8, 4] = normal(0.01);"},
    {"operator", "tensor", "const c : f32[2] = [1, 2];"},
    {"operator", "array", "const c : f32[2] = [1, 2];"},
    {"operator", "randn", "param w : f32[8, 4] = normal(1); as data: data = normal(seed = 1); in the train block"},
    {"operator", "rand", "param w : f32[8, 4] = uniform(0, 1); as data: data = uniform(seed = 1); in the train block"},
    {"operator", "dropout", "dropout(x, p = 0.1), behind import \"nn.dsl\";"},
    {"operator", "batchnorm", "batch_norm(x), behind import \"nn.dsl\";"},
    {"operator", "conv", "conv2d(x, w), or behind import \"nn.dsl\"; conv2d(x, 64, 3)"},
    {"operator", "conv1d", "conv1d(x, 64, 3), behind import \"nn.dsl\";"},
    {"operator", "maxpool2d", "max_pool(x, kernel_size = 2)"},
    {"operator", "avgpool2d", "avg_pool(x, kernel_size = 2)"},
    {"operator", "adaptiveavgpool2d", "mean(x, axes = [2, 3])"},
    {"operator", "globalavgpool2d", "mean(x, axes = [2, 3])"},
    {"operator", "interpolate", "upsample(x, scale_factor = 2)"},
    {"operator", "zeropad2d", "pad(x, before = [0, 0, 1, 1], after = [0, 0, 1, 1])"},
    {"operator", "print", "prun --print NAME prints a parameter at the end, pcc --explain NAME says how a value lies"},
    {"operator", "range", "for i in 0..12 { ... }"},
    {"operator", "input", "input x : f32[16, 32];"},
    {"operator", "backward", "gradients are taken by themselves, of the loss and all params"},
    {"operator", "zerograd", "gradients are taken by themselves, of the loss and all params"},
    {"operator", "step", "the optimizer of the train block updates all params at every step"},

    {"initial value", "randn", "normal(0.01)"},
    {"initial value", "rand", "uniform(0, 1)"},
    {"initial value", "gaussian", "normal(0.01)"},
    {"initial value", "truncatednormal", "normal(0.01)"},
    {"initial value", "zero", "zeros"},
    {"initial value", "one", "ones"},
    {"initial value", "xavieruniform", "xavier()"},
    {"initial value", "xaviernormal", "xavier()"},
    {"initial value", "glorotuniform", "xavier()"},
    {"initial value", "kaiminguniform", "kaiming()"},
    {"initial value", "kaimingnormal", "kaiming()"},
    {"initial value", "henormal", "kaiming()"},
    {"initial value", "load", "file(\"w.npy\")"},
    {"initial value", "npy", "file(\"w.npy\")"},
    {"initial value", "tril", "causal(-1e9): 0 up to the diagonal, -1e9 behind it"},
    {"initial value", "triu", "causal(-1e9): 0 up to the diagonal, -1e9 behind it"},

    {"statement", "def", "a cell is a part of a net that is called: cell block(x) { y = relu(x); return y; }; it stands beside the net"},
    {"statement", "fn", "a cell is a part of a net that is called: cell block(x) { y = relu(x); return y; }; it stands beside the net"},
    {"statement", "func", "a cell is a part of a net that is called: cell block(x) { y = relu(x); return y; }; it stands beside the net"},
    {"statement", "function",
     "a cell is a part of a net that is called: cell block(x) { y = relu(x); return y; }; it stands beside the net"},
    {"statement", "class",
     "a net is written net q(batch = 16) { ... }, a part of it that is called cell block(x) { y = relu(x); return y; }"},
    {"statement", "struct",
     "a net is written net q(batch = 16) { ... }, a part of it that is called cell block(x) { y = relu(x); return y; }"},
    {"statement", "model", "a net is written net q(batch = 16) { ... }"},
    {"statement", "module", "a net is written net q(batch = 16) { ... }"},
    {"statement", "network", "a net is written net q(batch = 16) { ... }"},
    {"statement", "layer", "a part of a net that is called is a cell: cell block(x) { y = relu(x); return y; }"},
    {"statement", "lambda", "a cell is a part of a net that is called: cell block(x) { y = relu(x); return y; }; it stands beside the net"},
    {"statement", "from", "import \"nn.dsl\"; brings in all cells of a file"},
    {"statement", "include", "import \"nn.dsl\";"},
    {"statement", "using", "import \"nn.dsl\";"},
    {"statement", "while", "a loop runs over numbers that are known: for i in 0..12 { ... }"},
    {"statement", "foreach", "for i in 0..12 { ... }"},
    {"statement", "repeat", "for i in 0..12 { ... }"},
    {"statement", "elif", "else if condition { ... }"},
    {"statement", "elsif", "else if condition { ... }"},
    {"statement", "switch", "if n == 1 { ... } else if n == 2 { ... }"},
    {"statement", "var", "a number is named let n = 3; and a tensor h = relu(x);"},
    {"statement", "val", "a number is named let n = 3; and a tensor h = relu(x);"},
    {"statement", "auto", "a number is named let n = 3; and a tensor h = relu(x);"},
    {"statement", "int", "a number is named let n = 3; and a tensor h = relu(x);"},
    {"statement", "float", "a number is named let n = 0.5; and a tensor h = relu(x);"},
    {"statement", "double", "a number is named let n = 0.5; and a tensor h = relu(x);"},
    {"statement", "tensor", "a tensor is named h = relu(x); one that is fixed const c : f32[2] = [1, 2];"},
    {"statement", "parameter", "param w : f32[8, 4] = normal(0.01);"},
    {"statement", "weight", "param w : f32[8, 4] = normal(0.01);"},
    {"statement", "variable", "param w : f32[8, 4] = normal(0.01);"},
    {"statement", "inputs", "input x : f32[16, 32];"},
    {"statement", "output",
     "a net says what is to become small: loss mse(y, label); what prun --predict writes is said by predict in the eval block"},
    {"statement", "print", "prun --print NAME prints a parameter at the end, pcc --explain NAME says how a value lies"},
    {"statement", "assert", "sizes are checked by themselves; numbers are by require batch % 8 == 0 \"batch is a multiple of 8\";"},
    {"statement", "optimizer", "the optimizer stands in the train block: train { optimizer = sgd(lr = 0.1); ... }"},
    {"statement", "data", "the data stand in the train block: train { data = numpy_rand(seed = 1); ... }"},
    {"statement", "strategy", "a strategy stands behind its operator: h = matmul(x, w) shard ((2, 4), (4, 1));"},
    {"statement", "test", "the block for other data is eval { data = npy(x = \"x.npy\"); metrics = loss; }"},
    {"statement", "validate", "the block for other data is eval { data = npy(x = \"x.npy\"); metrics = loss; }"},
    {"statement", "training", "train { data = numpy_rand(seed = 1); optimizer = sgd(lr = 0.1); }"},

    {"argument", "betas", "beta1 = 0.9, beta2 = 0.999"},
    {"argument", "dampening", "there is no dampening: leave it out"},
    {"argument", "amsgrad", "there is no amsgrad: leave it out"},
    {"argument", "params", "every param of the net is trained: leave it out"},
    {"argument", "epsilon", "eps = 1e-8"},
    {"argument", "strategy", "the strategy stands behind the call: h = matmul(x, w) shard ((2, 4), (4, 1));"},
    {"argument", "instrategy", "the strategy stands behind the call: h = matmul(x, w) shard ((2, 4), (4, 1));"},
    {"argument", "outstrategy", "the strategy stands behind the call: h = matmul(x, w) shard ((2, 4), (4, 1)) -> (8, 1);"},
    {"argument", "sharding", "the strategy stands behind the call: h = matmul(x, w) shard ((2, 4), (4, 1));"},
    {"argument", "inplace", "leave it out: values do not change"},
    {"argument", "approximate", "tanh = true for the approximation; left out, gelu is exact"},
    {"argument", "beta", "softplus(b * x) / b is that with another beta"},
    {"argument", "adjx", "transpose_a = true"},
    {"argument", "adjy", "transpose_b = true"},
    {"argument", "adjointa", "transpose_a = true"},
    {"argument", "adjointb", "transpose_b = true"},
    {"argument", "sizeaverage", "reduction = mean or reduction = sum"},
    {"argument", "reduce", "reduction = none"},
    {"argument", "requiresgrad", "a param is trained, a const is not"},
    {"argument", "device", "leave it out: prun --device says where it runs"},

    {"data source", "random", "data = numpy_rand(seed = 1); the same rows at every step; or normal(seed = 1), uniform(seed = 1)"},
    {"data source", "rand", "data = uniform(seed = 1);"},
    {"data source", "randn", "data = normal(seed = 1);"},
    {"data source", "mnist", "data = idx(x = \"train-images-idx3-ubyte.gz\", label = \"train-labels-idx1-ubyte.gz\");"},
    {"data source", "file", "data = npy(x = \"x.npy\", label = \"label.npy\");"},
    {"data source", "npz", "data = npy(x = \"x.npy\", label = \"label.npy\"); an array a file"},
    {"data source", "dataloader", "data = npy(x = \"x.npy\", label = \"label.npy\");"},

    {"optimizer", "adagrad", "adam(lr = 0.001) is near to it"},
    {"optimizer", "rmsprop", "adam(lr = 0.001) is near to it"},
    {"optimizer", "sparseadam", "lazy_adam(lr = 0.001)"},

    {"schedule", "linearwarmup", "schedule = constant(warmup = 100);"},
    {"schedule", "exponentiallr", "schedule = step(every = 1, gamma = 0.95);"},
    {"schedule", "exponential", "schedule = step(every = 1, gamma = 0.95);"},
    {"schedule", "piecewise", "schedule = multistep([30, 60], gamma = 0.1); each multiplies by gamma"},
    {"schedule", "reducelronplateau", "none looks at a metric; early_stop f1 patience 3; ends a training"},

    {"mode", "ddp", "write data_parallel"},
    {"mode", "tensorparallel", "write auto, and shard at one operator: h = matmul(x, w) shard ((1, 1), (1, 8));"},

    {"setting", "lr", "it belongs to the optimizer: optimizer = sgd(lr = 0.1);"},
    {"setting", "learningrate", "it belongs to the optimizer: optimizer = sgd(lr = 0.1);"},
    {"setting", "momentum", "it belongs to the optimizer: optimizer = momentum(lr = 0.1, momentum = 0.9);"},
    {"setting", "weightdecay", "it belongs to the optimizer: optimizer = adamw(lr = 0.001, weight_decay = 0.01); decay except **.bias;"},
    {"setting", "batch", "the batch is a number of the net, net q(batch = 16) { input x : f32[batch, 32]; ... }"},
    {"setting", "batchsize", "the batch is a number of the net, net q(batch = 16) { input x : f32[batch, 32]; ... }"},
    {"setting", "loss", "it stands in the net: loss mse(y, label);"},
    {"setting", "lossfn", "it stands in the net: loss mse(y, label);"},
    {"setting", "opt", "optimizer = sgd(lr = 0.1);"},
    {"setting", "epoch", "epochs = 5;"},
    {"setting", "numepochs", "epochs = 5;"},
    {"setting", "maxepochs", "epochs = 5;"},
    {"setting", "maxsteps", "steps = 100; per epoch"},
    {"setting", "numsteps", "steps = 100; per epoch"},
    {"setting", "shuffle", "order = shuffle(seed = 0);"},
    {"setting", "droplast", "last = drop; or pad, short"},
    {"setting", "scheduler", "schedule = cosine(warmup = 100, end = 0.1);"},
    {"setting", "lrscheduler", "schedule = cosine(warmup = 100, end = 0.1);"},
    {"setting", "warmup", "schedule = constant(warmup = 100);"},
    {"setting", "gradclip", "clip = norm(1.0);"},
    {"setting", "maxgradnorm", "clip = norm(1.0);"},
    {"setting", "gradientaccumulation", "accumulate = 4;"},
    {"setting", "accumulategradbatches", "accumulate = 4;"},
    {"setting", "gradientaccumulationsteps", "accumulate = 4;"},
    {"setting", "gradaccumsteps", "accumulate = 4;"},
    {"setting", "dataset", "data = npy(x = \"x.npy\", label = \"label.npy\");"},
    {"setting", "devicenum", "the number of ranks is said on the command line: pcc net.dsl --ranks 8"},
    {"setting", "ranks", "the number of ranks is said on the command line: pcc net.dsl --ranks 8"},
    {"setting", "worldsize", "the number of ranks is said on the command line: pcc net.dsl --ranks 8"},
    {"setting", "device", "where it runs is said on the command line: prun --device cuda net.plan"},
    {"setting", "save", "prun --save w.safetensors net.plan writes the parameters at the end; checkpoint every epoch; on the way"},
    {"setting", "savetotallimit", "checkpoint every epoch keep 3;"},
    {"setting", "metricforbestmodel", "checkpoint every epoch keep 3 best f1;"},
    {"setting", "integratedsave", "checkpoint every epoch per_rank; a file for each rank, where MindSpore has integrated_save=False"},
    {"setting", "loadbestmodelatend", "restore best; with checkpoint every epoch best f1;"},
    {"setting", "earlystopping", "early_stop f1 patience 3;"},
    {"setting", "earlystoppingpatience", "early_stop f1 patience 3;"},
    {"setting", "load", "prun --load w.safetensors net.plan begins with them"},
    {"setting", "resume", "prun --resume latest net.plan goes on from a checkpoint"},
    {"setting", "verbose", "prun -v net.plan"},
    {"setting", "fullbatch", "dataset = full_batch;"},
    {"setting", "strategysearchmode", "search = sharding_propagation;"},
    {"setting", "gradientsmean", "gradients = mean;"},
    {"setting", "zerostage", "shard_states = optimizer; is stage 1, gradients stage 2, parameters stage 3"},
    {"setting", "zero", "shard_states = optimizer; is stage 1, gradients stage 2, parameters stage 3"},
    {"setting", "pipelineinterleave", "pipeline_scheduler = interleaved; chunks = 2;"},
    {"setting", "interleaved", "pipeline_scheduler = interleaved; chunks = 2;"},
    {"setting", "numlayerspervirtualpipelinestage", "chunks = 2; is how many parts of the net each stage has"},
    {"setting", "pipelineconfig", "pipeline_scheduler = \"1f1b\"; gpipe; or interleaved, with chunks = 2;"},
    {"setting", "fsdp", "shard_states = parameters;"},
    {"setting", "fullshard", "shard_states = parameters;"},
    {"setting", "shardingstrategy", "shard_states = parameters; is FULL_SHARD, with regather = none; SHARD_GRAD_OP"},
    {"setting", "reshardafterforward", "regather = parameters; or none; of one module a hint: layer.0 = regather;"},
    {"setting", "paralleloptimizer", "shard_states = optimizer; or gradients, parameters"},
    {"setting", "enableparalleloptimizer", "shard_states = optimizer; or gradients, parameters"},
    {"setting", "paralleloptimizerthreshold", "shard_from = 64 KiB;"},
    {"setting", "sequenceparallel", "regather = all;"},
    {"setting", "gradientcheckpointing", "recompute behind a call, or in hints: layer.* = recompute;"},
    {"setting", "activationcheckpointing", "recompute behind a call, or in hints: layer.* = recompute;"},
    {"setting", "strategy", "a strategy stands at its operator: h = matmul(x, w) shard ((2, 4), (4, 1)); or in a hints block"},
    {"setting", "shard", "a strategy stands at its operator: h = matmul(x, w) shard ((2, 4), (4, 1)); or in a hints block"},
};

/* A name in lower case, without '_': log_softmax and LogSoftmax are one word. */
static const char *plain(Arena *arena, const char *name) {
    char *copy = arena_copy(arena, name, strlen(name)), *to = copy;
    for (const char *at = name; *at; at++)
        if (*at != '_') *to++ = *at >= 'A' && *at <= 'Z' ? (char)(*at - 'A' + 'a') : *at;
    *to = '\0';
    return copy;
}

const char *foreign_hint(Arena *arena, const char *what, const char *name) {
    const char *word = plain(arena, name);
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (!strcmp(hints[i].what, what) && !strcmp(hints[i].theirs, word)) return hints[i].hint;
    return NULL;
}

/* ---------------------------------------------------------------- operators and cells by other names */

/* The operator, or the defined cell, whose name is the same word; NULL: none. */
static const char *same_word(Lower *lower, const char *name) {
    const char *word = plain(lower->arena, name);
    for (int op = 0; op < NOPS; op++)
        if (op_table[op].op_class == OP_CLASS_USER && !strcmp(plain(lower->arena, op_table[op].name), word)) return op_table[op].name;
    for (int i = 0; i < lower->cell.n; i++)
        if (!strcmp(plain(lower->arena, lower->cell.at[i]->name), word)) return lower->cell.at[i]->name;
    return NULL;
}

/* The library's cell whose name is the same word, where nothing imports it. NULL: none, or it is imported. */
static const char *library_cell(Lower *lower, const char *name) {
    const char *word = plain(lower->arena, name);
    const Block *first = library_blocks(lower);
    for (const Block *block = first; block; block = block->next)
        if (block->kind == BLOCK_CELL && !strcmp(plain(lower->arena, block->name), word)) return block->name;
    return NULL;
}

/* How to write the call here: "matmul(x, w)" for torch.matmul(x, w). */
const char *foreign_called(Lower *lower, const char *name, const Expr *call) {
    const Expr *first = call && call->kind == EXPR_CALL ? call->items : NULL;
    if (first && call->method) first = first->next;
    if (!first) return arena_printf(lower->arena, "%s(x)", name);
    const int begin = first->loc.begin, n = call->loc.end - begin;
    const bool fits = n < 80 && !memchr(lower->text + begin, '\n', (size_t)n);
    return fits ? arena_printf(lower->arena, "%s(%.*s", name, n, lower->text + begin) : arena_printf(lower->arena, "%s(...)", name);
}

static bool hint_call(Lower *lower, const char *name, const Expr *call) {
    const char *ours = same_word(lower, name), *known = ours ? NULL : foreign_hint(lower->arena, "operator", name),
               *cell = ours || known ? NULL : library_cell(lower, name);
    if (ours)
        diag_hint(lower->diags, "write %s", foreign_called(lower, ours, call));
    else if (known)
        diag_hint(lower->diags, "%s", known);
    else if (cell)
        diag_hint(lower->diags, "import \"nn.dsl\"; at the top of the file brings in %s", foreign_called(lower, cell, call));
    return ours || known || cell;
}

bool hint_operator(Lower *lower, const Expr *call) {
    return hint_call(lower, call->text, call);
}

/* ---------------------------------------------------------------- modules */

/* The name at the beginning of x.y.z(..); NULL: it does not begin with one. */
static const Expr *root_of(const Expr *expr) {
    while (expr->kind == EXPR_PATH || (expr->kind == EXPR_CALL && expr->method))
        expr = expr->items;
    return expr->kind == EXPR_NAME ? expr : NULL;
}

bool is_of_module(const Lower *lower, const Expr *expr) {
    static const char *const modules[] = {"torch", "nn",        "F",    "ops",  "P",          "np",  "numpy", "jnp",   "jax",   "tf",
                                          "ms",    "mindspore", "mint", "math", "functional", "lax", "flax",  "keras", "optim", "self"};
    const Expr *root = expr->kind == EXPR_PATH || (expr->kind == EXPR_CALL && expr->method) ? root_of(expr) : NULL;
    if (!root) return false;
    const Symbol *symbol = names_look(lower, root->text);
    if (symbol && symbol->kind != SYMBOL_AHEAD) return false;
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if (!strcmp(modules[i], root->text)) return true;
    return false;
}

void hint_lists(Lower *lower) {
    diag_hint(lower->diags, "pcc --list-ops prints the operators; import \"nn.dsl\"; brings in cells");
}

bool no_modules(Lower *lower, const Expr *expr) {
    const Expr *root = root_of(expr);
    const char *name = expr->kind == EXPR_CALL ? expr->text : expr->last->text;
    if (!strcmp(root->text, "self")) {
        diag_error(lower->diags, lower_span(lower, root->loc), "there is no self: what a net or a cell defines is called by its name");
        diag_hint(lower->diags, "write %s", expr->kind == EXPR_CALL ? foreign_called(lower, name, expr) : name);
        return false;
    }
    diag_error(lower->diags, lower_span(lower, root->loc), "there are no modules here: operators and cells stand without '%s.'",
               root->text);
    if (!hint_call(lower, name, expr)) hint_lists(lower);
    return false;
}
