#include <criterion/criterion.h>

#include "strategies/strategies.h"
#include "tests/strategies/nets.h"

/* Powers of two, so that expectations are exact. */
static const Machine machine = {.flops = {[PEAK_F32] = 1024, [PEAK_F64] = 512, [PEAK_F16] = 2048, [PEAK_BF16] = 4096, [PEAK_VECTOR] = 64},
                                .memory_bytes_per_s = 16,
                                .kernel_s = 0.5};

static double seconds(Net *net, int value, const Machine *on, const int32_t *splits, int nranks) {
    const Node *node = net_node(net, value);
    Strategy strategy;
    if (splits == NULL) return operator_seconds(on, &net->graph, node, NULL);
    strategy_from_splits(splits, node->rule->nfactors, nranks, &strategy);
    return operator_seconds(on, &net->graph, node, &strategy);
}

/* The longer of arithmetic and memory, and the start. */
Test(kernel, a_product_is_its_arithmetic_or_its_bytes) {
    Net net;
    net_init(&net, 8);
    int y = net_op(&net, OP_matmul, net_input(&net, "x", 2, (int64_t[]){16, 32}), net_input(&net, "w", 2, (int64_t[]){32, 8}), "y");
    Machine fast = machine;
    fast.memory_bytes_per_s = 1e30;
    cr_expect_eq(seconds(&net, y, &fast, NULL, 8), 2.0 * 16 * 32 * 8 / 1024 + 0.5);
    cr_expect_eq(seconds(&net, y, &machine, NULL, 8), 4.0 * (16 * 32 + 32 * 8 + 16 * 8) / 16 + 0.5);
    /* m in 2, k in 4: the product of 8 x 8 and 8 x 8. */
    const int32_t splits[] = {2, 4, 1};
    cr_expect_eq(seconds(&net, y, &fast, splits, 8), 2.0 * 8 * 8 * 8 / 1024 + 0.5);
    cr_expect_eq(seconds(&net, y, &machine, splits, 8), 4.0 * 3 * 8 * 8 / 16 + 0.5);
    net_finish(&net);
}

/* 16 x 32 by 32 x 8, whose operands' 768 elements take time beside the arithmetic, and a start, those handed to it by a kernel that runs as one with it too; other operators take none. */
Test(kernel, a_product_packs_its_operands_beside_its_arithmetic) {
    Net net;
    net_init(&net, 8);
    int y = net_op(&net, OP_matmul, net_input(&net, "x", 2, (int64_t[]){16, 32}), net_input(&net, "w", 2, (int64_t[]){32, 8}), "y");
    int z = net_op(&net, OP_relu, y, -1, "z");
    Machine packing = machine;
    packing.memory_bytes_per_s = 1e30;
    packing.product = (MachineLevel){0.25, 128};
    const double expected = 2.0 * 16 * 32 * 8 / 1024 + 4.0 * (16 * 32 + 32 * 8) / 128 + 0.25;
    cr_expect_eq(seconds(&net, y, &packing, NULL, 8), expected + 0.5);
    cr_expect_eq(seconds(&net, z, &packing, NULL, 8), 16.0 * 8 / 64 + 0.5);
    KernelWork work = {0};
    kernel_count(&work, &packing, &net.graph, net_node(&net, y), NULL, 3, 1, NULL);
    cr_expect_eq(work.product_s, expected);
    cr_expect_eq(work.bytes, 0);
    kernel_count(&work, &packing, &net.graph, net_node(&net, z), NULL, 1, 0, NULL); /* runs as one with it, and after it */
    cr_expect_eq(kernel_seconds(&packing, &work), expected + 16.0 * 8 / 64 + 0.5);
    net_finish(&net);
}

/* A kernel of 512 bytes, and a cache that holds just as many, or one fewer. */
Test(kernel, what_fits_into_the_cache_is_moved_there) {
    Net net;
    net_init(&net, 1);
    int y = net_op(&net, OP_relu, net_input(&net, "x", 1, (int64_t[]){64}), -1, "y");
    Machine cached = machine;
    cached.ncaches = 1;
    cached.cache[0] = (Cache){128, 512};
    cr_expect_eq(seconds(&net, y, &cached, NULL, 1), 512.0 / 128 + 0.5);
    cached.cache[0].bytes = 511;
    cr_expect_eq(seconds(&net, y, &cached, NULL, 1), 512.0 / 16 + 0.5);
    net_finish(&net);
}

/* 64 numbers in the second of two caches, and as many in memory. */
Test(kernel, each_operand_is_moved_where_it_lies) {
    Net net;
    net_init(&net, 1);
    int y = net_op(&net, OP_relu, net_input(&net, "x", 1, (int64_t[]){64}), -1, "y");
    Machine cached = machine;
    cached.ncaches = 2;
    cached.cache[0] = (Cache){256, 16}, cached.cache[1] = (Cache){128, 32};
    KernelWork work = {0};
    kernel_count(&work, &cached, &net.graph, net_node(&net, y), NULL, 0, 0, &(KernelCaches){.in = {1}, .out = {2}});
    cr_expect_eq(kernel_seconds(&cached, &work), 256.0 / 128 + 256.0 / 16 + 0.5);
    cr_expect_eq(copy_seconds(&cached, 256, 0, 2), 256.0 / 256 + 256.0 / 16 + 0.5);
    cached.product.bytes_per_s = 128; /* as one that was measured: what is written is fetched first */
    cr_expect_float_eq(copy_seconds(&cached, 256, 2, 2), 2 * 256.0 / 16 + 0.5, 1e-9);
    cr_expect_float_eq(copy_seconds(&cached, 256, 0, 2), 256.0 / 256 + 4.0 / 3 * 256 / 16 + 0.5, 1e-9);
    net_finish(&net);
}

/* A kernel of 3 x 3 over planes of 4 x 4 with padding 1: of 9 taps at 16 places 100 do not lie in it. Where the times of products were measured, padding takes none, the weights are read again, from the
 * nearest cache, for each of the two images, and all but the taps that see padding is brought into blocks of channels, or back; but not where planes have one place, of which one tap sees something. */
Test(kernel, a_convolution_reads_its_weights_for_each_image_and_no_padding) {
    for (int side = 1; side <= 4; side += 3) {
        Net net;
        net_init(&net, 1);
        const int x = net_input(&net, "x", 4, (int64_t[]){2, 3, side, side}), w = net_input(&net, "w", 4, (int64_t[]){5, 3, 3, 3});
        const Attr attr[MAX_ATTRS] = {{0}, {.given = true, .n = 1, .ints = {1}}};
        const int y = graph_emit(&net.graph, OP_conv2d, (int[]){x, w}, 2, attr, "y", (Span){0});
        Machine measured = machine;
        measured.memory_bytes_per_s = 1e30;
        const double points = 2.0 * 3 * 5 * side * side * 9, inside = side == 1 ? 1.0 / 9 : 100.0 / 144, weights = 5 * 3 * 9,
                     operands = 2 * (3 + 5) * side * side + weights;
        cr_expect_float_eq(seconds(&net, y, &measured, NULL, 1), 2 * points / 1024 + 0.5, 1e-9);
        measured.product.bytes_per_s = 128;
        cr_expect_float_eq(seconds(&net, y, &measured, NULL, 1), 2 * points * inside / 1024 + 0.5, 1e-9);
        measured.ncaches = 1;
        measured.cache[0] = (Cache){16, 1};
        cr_expect_float_eq(seconds(&net, y, &measured, NULL, 1),
                           2 * points * inside / 1024 + (side == 1 ? 0 : 2 * 4 * weights * inside / 16) + 0.5, 1e-9);
        measured.cache[0].bytes = 1 << 20;
        const double reordered = 2 * 4 * (operands - weights * (1 - inside));
        cr_expect_float_eq(seconds(&net, y, &measured, NULL, 1),
                           2 * points * inside / 1024 + ((side == 1 ? 0 : 2 * 4 * weights * inside) + reordered + 4 * operands) / 16 + 0.5,
                           1e-9);
        const double other = seconds(&net, y, &measured, NULL, 1);
        measured.convolution_flops = 512;
        cr_expect_float_eq(seconds(&net, y, &measured, NULL, 1), other + 2 * points * inside / 1024, 1e-9);
        net_finish(&net);
    }
}

/* On a machine whose products were measured, what a core takes for them: op.effort of exp's FLOPs. */
Test(kernel, operators_take_what_they_were_seen_to) {
    Net net;
    net_init(&net, 1);
    const int x = net_input(&net, "x", 1, (int64_t[]){64}), y = net_op(&net, OP_log, x, -1, "y"), z = net_op(&net, OP_exp, x, -1, "z");
    Machine measured = machine;
    measured.memory_bytes_per_s = 1e30;
    cr_expect_eq(seconds(&net, y, &measured, NULL, 1), seconds(&net, z, &measured, NULL, 1));
    measured.product.bytes_per_s = 128;
    cr_expect_gt(op_table[OP_log].effort, op_table[OP_log].flops);
    cr_expect_eq(seconds(&net, y, &measured, NULL, 1), op_table[OP_log].effort * 64.0 / 64 + 0.5);
    cr_expect_eq(seconds(&net, z, &measured, NULL, 1), op_table[OP_exp].flops * 64.0 / 64 + 0.5);
    net_finish(&net);
}

/* 64 numbers, and as many of their gradient: an update writes over what it reads, which a machine may do at another rate; what fits into the cache is moved there all the same. */
Test(kernel, an_update_writes_over_what_it_reads) {
    Net net;
    net_init(&net, 1);
    const Attr lr[MAX_ATTRS] = {{.given = true, .f = 0.5}};
    const int w = net_input(&net, "w", 1, (int64_t[]){64}), g = net_input(&net, "g", 1, (int64_t[]){64});
    const int y = graph_emit(&net.graph, OP_sgd, (int[]){w, g}, 2, lr, "y", (Span){0}), z = net_op(&net, OP_relu, y, -1, "z");
    Machine quick = machine;
    cr_expect_eq(seconds(&net, y, &quick, NULL, 1), 3 * 4 * 64.0 / 16 + 0.5);
    quick.update_bytes_per_s = 32;
    cr_expect_eq(seconds(&net, y, &quick, NULL, 1), 3 * 4 * 64.0 / 32 + 0.5);
    cr_expect_eq(seconds(&net, z, &quick, NULL, 1), 2 * 4 * 64.0 / 16 + 0.5);
    KernelWork work = {0}; /* of both in one kernel each is moved at its rate */
    kernel_count(&work, &quick, &net.graph, net_node(&net, y), NULL, 0, 0, NULL);
    kernel_count(&work, &quick, &net.graph, net_node(&net, z), NULL, 0, 0, NULL);
    cr_expect_eq(kernel_seconds(&quick, &work), 3 * 4 * 64.0 / 32 + 2 * 4 * 64.0 / 16 + 0.5);
    quick.ncaches = 1;
    quick.cache[0] = (Cache){128, 3 * 4 * 64};
    cr_expect_eq(seconds(&net, y, &quick, NULL, 1), 3 * 4 * 64.0 / 128 + 0.5);
    net_finish(&net);
}

Test(kernel, uneven_parts_count_as_the_largest) {
    Net net;
    net_init(&net, 3);
    int y = net_op(&net, OP_relu, net_input(&net, "x", 2, (int64_t[]){7, 8}), -1, "y");
    const int32_t splits[] = {3, 1};
    cr_expect_eq(seconds(&net, y, &machine, splits, 3), 2.0 * 4 * 3 * 8 / 16 + 0.5);
    net_finish(&net);
}

/* A table of a million rows of which 4 are taken; their gradient is as large as the table. */
Test(kernel, a_lookup_reads_what_it_gives) {
    Net net;
    net_init(&net, 1);
    int table = net_input(&net, "t", 2, (int64_t[]){1 << 20, 8});
    Input index = {.name = "i", .type = {.dtype = I32, .shape = {.ndim = 1, .dim = {4}}}};
    int at = graph_input(&net.graph, graph_add_input(&net.graph, index));
    int y = net_op(&net, OP_embedding, table, at, "y");
    Machine fast = machine;
    fast.memory_bytes_per_s = 1e30;
    cr_expect_eq(seconds(&net, y, &machine, NULL, 1), 4.0 * (4 * 8 + 4 * 8 + 4) / 16 + 0.5);
    cr_expect_eq(seconds(&net, y, &fast, NULL, 1), 1.0 * 4 * 8 / 64 + 0.5);
    net_finish(&net);
}

/* Attention's products over the widths of 4 queries and 6 keys, 16 and 8, and at each score what is no product; half of it where it is causal. */
Test(kernel, the_scores_of_attention_take_vector_operations) {
    for (int causal = 0; causal < 2; causal++) {
        Net net;
        net_init(&net, 1);
        int q = net_input(&net, "q", 2, (int64_t[]){4, 16}), k = net_input(&net, "k", 2, (int64_t[]){6, 16}),
            v = net_input(&net, "v", 2, (int64_t[]){6, 8});
        Attr attr[MAX_ATTRS] = {{.given = true, .i = causal}};
        int y = graph_emit(&net.graph, OP_dot_product_attention, (int[]){q, k, v}, 3, attr, "y", (Span){0});
        Machine fast = machine;
        fast.memory_bytes_per_s = 1e30;
        const double whole = 2.0 * 4 * 6 * (16 + 8) / 1024 + op_table[OP_dot_product_attention].vector_flops * 4.0 * 6 / 64;
        cr_expect_eq(seconds(&net, y, &fast, NULL, 1), whole / (causal ? 2 : 1) + 0.5);
        net_finish(&net);
    }
}

/* Wider elements take as much longer, products by their own figure. */
Test(kernel, types_have_their_own_peaks) {
    Net net;
    net_init(&net, 1);
    Input wide = {.name = "x", .type = {.dtype = F64, .shape = {.ndim = 2, .dim = {8, 8}}}};
    int x = graph_input(&net.graph, graph_add_input(&net.graph, wide));
    Machine fast = machine;
    fast.memory_bytes_per_s = 1e30;
    cr_expect_eq(seconds(&net, net_op(&net, OP_matmul, x, x, "y"), &fast, NULL, 1), 2.0 * 8 * 8 * 8 / 512 + 0.5);
    for (int i = 0; i < 2; i++) {
        Input half = {.name = i ? "b" : "h", .type = {.dtype = i ? BF16 : F16, .shape = wide.type.shape}};
        int h = graph_input(&net.graph, graph_add_input(&net.graph, half));
        cr_expect_eq(seconds(&net, net_op(&net, OP_matmul, h, h, i ? "yb" : "yh"), &fast, NULL, 1),
                     2.0 * 8 * 8 * 8 / (i ? 4096 : 2048) + 0.5);
    }
    cr_expect_eq(seconds(&net, net_op(&net, OP_relu, x, -1, "z"), &fast, NULL, 1), 2 * 8.0 * 8 / 64 + 0.5);
    net_finish(&net);
}

Test(kernel, what_is_handed_over_costs_no_bytes) {
    Net net;
    net_init(&net, 1);
    int y = net_op(&net, OP_relu, net_input(&net, "x", 1, (int64_t[]){64}), -1, "y"), z = net_op(&net, OP_neg, y, -1, "z");
    KernelWork work = {0};
    kernel_count(&work, &machine, &net.graph, net_node(&net, y), NULL, 0, 1, NULL);
    kernel_count(&work, &machine, &net.graph, net_node(&net, z), NULL, 1, 0, NULL);
    cr_expect_eq(work.bytes, 2 * 4 * 64);
    cr_expect_eq(work.flops, 2 * 64);
    cr_expect_eq(kernel_seconds(&machine, &work), 2 * 4 * 64.0 / 16 + 0.5);
    net_finish(&net);
}

Test(kernel, leaves_and_views_cost_nothing) {
    Net net;
    net_init(&net, 1);
    int x = net_input(&net, "x", 1, (int64_t[]){64});
    cr_expect_eq(seconds(&net, x, &machine, NULL, 1), 0);
    Attr shape[MAX_ATTRS] = {{.given = true, .n = 2, .ints = {8, 8}}};
    cr_expect_eq(seconds(&net, net_op_attr(&net, OP_reshape, x, shape, "y"), &machine, NULL, 1), 0);
    net_finish(&net);
}
