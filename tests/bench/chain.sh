#!/bin/sh
# Prints a net of N layers (default 1000), each a matmul of SIZE x SIZE (default 512) and a relu, with one hint, mse and momentum.
#   chain.sh [N] [SIZE] [BATCH] [HINT]       HINT: a strategy for the first matmul, default ((2, 4), (4, 1)); "" for none
layers=${1:-1000} size=${2:-512} batch=${3:-512} hint=${4-((2, 4), (4, 1))}
awk -v layers="$layers" -v size="$size" -v batch="$batch" -v hint="$hint" 'BEGIN {
    printf "net chain(batch = %d, dim = %d) {\n", batch, size
    print "    input x : f32[batch, dim];"
    print "    input label : f32[batch, dim];"
    for (i = 0; i < layers; i++) printf "    param w%d : f32[dim, dim] = normal(0.05);\n", i
    for (i = 0; i < layers; i++) {
        printf "    h%d = matmul(%s, w%d)%s;\n", i, i ? "a" (i - 1) : "x", i, i == 0 && hint != "" ? " shard " hint : ""
        printf "    a%d = relu(h%d);\n", i, i
    }
    printf "    loss mse(a%d, label);\n}\n\n", layers - 1
    print "train {\n    data = numpy_rand(seed = 1);\n    optimizer = momentum(lr = 0.1, momentum = 0.9);\n    steps = 20;\n}\n"
    print "parallel {\n    mode = auto;\n    search = sharding_propagation;\n}"
}'
