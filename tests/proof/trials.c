#include "ir/lookup.h"
#include "tests/proof/trials.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define S(...)                                                                                                                             \
    {                                                                                                                                      \
        .ndim = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .dim = { __VA_ARGS__ }                                          \
    }
#define INTS(...)                                                                                                                          \
    {                                                                                                                                      \
        .given = true, .n = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .ints = { __VA_ARGS__ }                             \
    }
#define INT(v)                                                                                                                             \
    { .given = true, .i = (v) }
#define REAL(v)                                                                                                                            \
    { .given = true, .f = (v) }
#define TEXT(v)                                                                                                                            \
    { .given = true, .text = (v) }

const Trial trials[] = {
    {.op = OP_matmul, .nin = 2, .in = {S(7, 5), S(5, 3)}},
    {.op = OP_matmul, .nin = 2, .in = {S(2, 7, 5), S(5, 3)}},
    {.op = OP_matmul, .nin = 2, .in = {S(5, 7), S(3, 5)}, .attr = {INT(1), INT(1)}},
    {.op = OP_matmul, .nin = 2, .in = {S(3, 1, 4, 6), S(2, 6, 5)}},
    {.op = OP_matmul, .nin = 2, .in = {S(3, 40, 70), S(3, 70, 6)}, .hidden = true},
    {.op = OP_add, .nin = 2, .in = {S(8, 6), S(8, 1)}},
    {.op = OP_add, .nin = 2, .in = {S(3, 8, 6), S(3, 6)}, .hidden = true},
    {.op = OP_sub, .nin = 2, .in = {S(6), S(8, 6)}},
    {.op = OP_mul, .nin = 2, .in = {S(4, 1, 3), S(5, 1)}},
    {.op = OP_div, .nin = 2, .in = {S(8, 6), S(6)}, .inverted = true},
    {.op = OP_neg, .nin = 1, .in = {S(7, 5)}},
    {.op = OP_square, .nin = 1, .in = {S(7, 5)}},
    {.op = OP_gelu, .nin = 1, .in = {S(7, 5)}, .hashed = true},
    {.op = OP_gelu, .nin = 1, .in = {S(7, 5)}, .attr = {INT(1)}, .hashed = true},
    {.op = OP_log_softmax, .nin = 1, .in = {S(4, 6, 3)}, .attr = {INT(1)}, .hashed = true},
    {.op = OP_log_softmax, .nin = 1, .in = {S(4, 6, 3)}, .hashed = true, .hidden = true},
    {.op = OP_softmax, .nin = 1, .in = {S(4, 6, 3)}, .attr = {INT(1)}, .hashed = true},
    {.op = OP_softmax, .nin = 1, .in = {S(4, 6, 3)}, .hashed = true, .hidden = true},
    {.op = OP_layer_norm, .nin = 3, .in = {S(4, 6, 3), S(3), S(3)}, .attr = {REAL(0.125)}, .hashed = true},
    {.op = OP_layer_norm, .nin = 3, .in = {S(4, 6, 3), S(6, 3), S(6, 3)}, .attr = {REAL(0.125)}, .hashed = true},
    {.op = OP_layer_norm, .nin = 3, .in = {S(3, 4, 5), S(3, 5), S(3, 5)}, .attr = {REAL(0.125)}, .hashed = true, .hidden = true},
    {.op = OP_rms_norm, .nin = 2, .in = {S(4, 6, 3), S(3)}, .attr = {REAL(0.5)}, .hashed = true},
    {.op = OP_rms_norm, .nin = 2, .in = {S(3, 4, 5), S(3, 5)}, .attr = {REAL(0.5)}, .hashed = true, .hidden = true},
    {.op = OP_batch_norm, .nin = 3, .in = {S(4, 6), S(6), S(6)}, .attr = {REAL(0.125)}, .hashed = true},
    {.op = OP_batch_norm, .nin = 3, .in = {S(4, 6, 3), S(6), S(6)}, .attr = {REAL(0.125)}, .hashed = true},
    {.op = OP_batch_norm, .nin = 3, .in = {S(3, 4, 5, 2), S(3, 5), S(3, 5)}, .attr = {REAL(0.5)}, .hashed = true, .hidden = true},
    {.op = OP_rope, .nin = 1, .in = {S(4, 6)}, .hashed = true},
    {.op = OP_rope, .nin = 1, .in = {S(3, 5, 4)}, .attr = {REAL(100), INT(1)}, .hashed = true, .hidden = true},
    {.op = OP_dot_product_attention, .nin = 3, .in = {S(4, 6, 3), S(4, 5, 3), S(4, 5, 2)}, .hashed = true},
    {.op = OP_dot_product_attention, .nin = 3, .in = {S(4, 2, 6, 3), S(4, 7, 3), S(4, 7, 2)}, .attr = {INT(1)}, .hashed = true},
    {.op = OP_dot_product_attention,
     .nin = 4,
     .in = {S(4, 2, 6, 3), S(4, 7, 3), S(4, 7, 2), S(1, 6, 7)},
     .attr = {[1] = REAL(0.5)},
     .hashed = true},
    {.op = OP_dot_product_attention,
     .nin = 4,
     .in = {S(3, 6, 3), S(3, 5, 3), S(3, 5, 2), S(3, 1, 5)},
     .attr = {INT(1)},
     .hashed = true,
     .hidden = true},
    {.op = OP_attention_most, .nin = 2, .in = {S(4, 6, 3), S(4, 5, 3)}, .attr = {INT(1)}, .hashed = true},
    {.op = OP_attention_most, .nin = 3, .in = {S(4, 2, 6, 3), S(4, 5, 3), S(6, 1)}, .hashed = true},
    {.op = OP_attention_sums, .nin = 4, .in = {S(4, 6, 3), S(4, 5, 3), S(4, 5, 2), S(4, 6, 1)}, .attr = {INT(1)}, .hashed = true},
    {.op = OP_attention_sums,
     .nin = 5,
     .in = {S(4, 2, 6, 3), S(4, 5, 3), S(4, 5, 2), S(4, 2, 6, 1), S(4, 1, 1, 5)},
     .attr = {[1] = REAL(0.5)},
     .hashed = true},
    {.op = OP_attention_grad,
     .nin = 7,
     .in = {S(4, 6, 3), S(4, 6, 2), S(4, 5, 3), S(4, 5, 2), S(4, 6, 2), S(4, 6, 1), S(4, 6, 1)},
     .attr = {INT(1)},
     .hashed = true},
    {.op = OP_attention_grad,
     .nin = 8,
     .in = {S(4, 2, 6, 3), S(4, 2, 6, 2), S(4, 5, 3), S(4, 5, 2), S(4, 2, 6, 2), S(4, 2, 6, 1), S(4, 2, 6, 1), S(2, 6, 5)},
     .attr = {[1] = REAL(0.5)},
     .hashed = true},
    {.op = OP_sum, .nin = 1, .in = {S(4, 6, 3)}},
    {.op = OP_sum, .nin = 1, .in = {S(4, 6, 3)}, .attr = {INTS(1)}},
    {.op = OP_sum, .nin = 1, .in = {S(4, 6, 3)}, .attr = {INTS(-1, 0), INT(1)}},
    {.op = OP_sum, .nin = 1, .in = {S(4, 6, 3)}, .attr = {INTS(0)}, .hidden = true},
    {.op = OP_mean, .nin = 1, .in = {S(4, 6, 3)}},
    {.op = OP_mean, .nin = 1, .in = {S(4, 6, 3)}, .attr = {INTS(1)}},
    {.op = OP_mean, .nin = 1, .in = {S(4, 6, 3)}, .attr = {INTS(0)}, .hidden = true},
    {.op = OP_max, .nin = 1, .in = {S(4, 6, 3)}, .attr = {INTS(1), INT(1)}},
    {.op = OP_max, .nin = 1, .in = {S(4, 6, 3)}},
    {.op = OP_min, .nin = 1, .in = {S(4, 6, 3)}, .attr = {INTS(1), INT(1)}},
    {.op = OP_min, .nin = 1, .in = {S(4, 6, 3)}},
    {.op = OP_maximum, .nin = 2, .in = {S(8, 6), S(8, 1)}},
    {.op = OP_maximum, .nin = 2, .in = {S(3, 6), S(3, 8, 6)}, .hidden = true},
    {.op = OP_minimum, .nin = 2, .in = {S(6), S(8, 6)}},
    {.op = OP_clamp, .nin = 1, .in = {S(7, 5)}, .attr = {REAL(-1), REAL(2)}, .hashed = true},
    {.op = OP_clamp, .nin = 1, .in = {S(7, 5)}, .attr = {[1] = REAL(1)}, .hashed = true},
    {.op = OP_abs, .nin = 1, .in = {S(7, 5)}},
    {.op = OP_pow, .nin = 2, .in = {S(8, 6), S(6)}, .hashed = true},
    {.op = OP_pow, .nin = 2, .in = {S(3, 8, 6), S(3, 6)}, .hashed = true, .hidden = true},
    {.op = OP_transpose, .nin = 1, .in = {S(4, 6, 3)}},
    {.op = OP_transpose, .nin = 1, .in = {S(4, 6, 3)}, .attr = {INTS(1, 2, 0)}},
    {.op = OP_transpose, .nin = 1, .in = {S(4, 6, 3)}, .attr = {INTS(1, 0)}, .hidden = true},
    {.op = OP_reshape, .nin = 1, .in = {S(4, 6, 3)}, .attr = {INTS(8, 9)}},
    {.op = OP_reshape, .nin = 1, .in = {S(4, 6, 3)}, .attr = {INTS(2, 9)}, .hidden = true},
    {.op = OP_slice, .nin = 1, .in = {S(4, 6)}, .attr = {INTS(0, 1), INTS(4, -1)}},
    {.op = OP_slice, .nin = 1, .in = {S(3, 4, 6)}, .attr = {INTS(1, 0), INTS(4, 6)}, .hidden = true},
    {.op = OP_slice_grad, .nin = 1, .in = {S(4, 4)}, .attr = {INTS(0, 1), INTS(4, -1), INTS(4, 6)}},
    {.op = OP_concat, .nin = 3, .in = {S(2, 5), S(7, 5), S(3, 5)}},
    {.op = OP_concat, .nin = 2, .in = {S(3, 2, 5), S(3, 2, 4)}, .attr = {INT(-1)}, .hidden = true},
    {.op = OP_split, .nin = 1, .in = {S(4, 6)}, .attr = {INT(3), INT(1)}},
    {.op = OP_split, .nin = 1, .in = {S(3, 4, 6)}, .attr = {INT(2)}, .hidden = true},
    {.op = OP_stop_gradient, .nin = 1, .in = {S(7, 5)}},
    {.op = OP_pick, .nin = 2, .in = {S(7, 5), S(7)}},
    {.op = OP_pick, .nin = 2, .in = {S(4, 6, 3), S(4, 6)}},
    {.op = OP_pick, .nin = 2, .in = {S(4, 6, 3), S(4, 6)}, .hidden = true},
    {.op = OP_pick, .nin = 2, .in = {S(5), {0}}},
    {.op = OP_pick_grad, .nin = 2, .in = {S(7), S(7)}, .attr = {INT(5)}},
    {.op = OP_cross_entropy_rows, .nin = 2, .in = {S(7, 5), S(7)}, .hashed = true},
    {.op = OP_cross_entropy_rows, .nin = 2, .in = {S(4, 6, 3), S(4, 6)}, .attr = {REAL(0.25)}, .hashed = true},
    {.op = OP_cross_entropy_rows, .nin = 2, .in = {S(4, 6, 3), S(4, 6)}, .attr = {REAL(0.25)}, .hashed = true, .hidden = true},
    {.op = OP_cross_entropy_rows_grad, .nin = 5, .in = {S(7, 5), S(7), S(7), S(7, 1), S(7, 1)}, .hashed = true},
    {.op = OP_cross_entropy_rows_grad,
     .nin = 5,
     .in = {S(4, 6, 3), S(4, 6), S(4, 6), S(4, 6, 1), S(4, 6, 1)},
     .attr = {REAL(0.25)},
     .hashed = true},
    {.op = OP_cross_entropy_rows_grad,
     .nin = 5,
     .in = {S(4, 6, 3), S(4, 6), S(4, 6), S(4, 6, 1), S(4, 6, 1)},
     .hashed = true,
     .hidden = true},
    {.op = OP_pick_grad, .nin = 2, .in = {S(4, 6), S(4, 6)}, .attr = {INT(3)}, .hidden = true},
    {.op = OP_cast, .nin = 1, .in = {S(7, 5)}, .attr = {TEXT("f32")}},
    {.op = OP_compress, .nin = 1, .in = {S(7, 5)}, .attr = {TEXT("bf16")}},
    {.op = OP_cast, .nin = 1, .in = {S(7, 5)}, .attr = {TEXT("bool")}},
    {.op = OP_cast, .nin = 1, .in = {S(7, 5)}, .attr = {TEXT("i64")}, .hashed = true},
    {.op = OP_less, .nin = 2, .in = {S(8, 6), S(6)}},
    {.op = OP_less_equal, .nin = 2, .in = {S(8, 6), S(8, 1)}},
    {.op = OP_greater, .nin = 2, .in = {S(8, 6), S(8, 6)}},
    {.op = OP_greater_equal, .nin = 2, .in = {S(3, 6), S(3, 6)}, .hidden = true},
    {.op = OP_equal, .nin = 2, .in = {S(7, 5), S(7, 5)}},
    {.op = OP_not_equal, .nin = 2, .in = {S(7, 5), S(7, 5)}},
    {.op = OP_where, .nin = 3, .in = {S(8, 1), S(6), S(8, 6)}},
    {.op = OP_where, .nin = 3, .in = {S(3, 8, 6), S(3, 8, 6), S(3, 6)}, .hidden = true},
    {.op = OP_first, .nin = 1, .in = {S(4, 6, 3)}, .attr = {INT(1)}},
    {.op = OP_first, .nin = 1, .in = {S(4, 6)}, .hidden = true},
    {.op = OP_one_hot, .nin = 1, .in = {S(7)}, .attr = {INT(5)}},
    {.op = OP_one_hot, .nin = 1, .in = {S(3, 4)}, .attr = {INT(5), TEXT("i32")}, .hidden = true},
    {.op = OP_embedding, .nin = 2, .in = {S(7, 5), S(4, 3)}},
    {.op = OP_embedding, .nin = 2, .in = {S(3, 7, 5), S(3, 4)}, .hidden = true},
    {.op = OP_embedding_grad, .nin = 2, .in = {S(4, 3, 5), S(4, 3)}, .attr = {INT(7)}},
    {.op = OP_embedding_grad, .nin = 2, .in = {S(3, 4, 5), S(3, 4)}, .attr = {INT(7)}, .hidden = true},
    {.op = OP_gather, .nin = 2, .in = {S(7, 5), S(7, 3)}},
    {.op = OP_gather, .nin = 2, .in = {S(4, 6, 3), S(4, 5, 3)}, .attr = {INT(1)}},
    {.op = OP_gather, .nin = 2, .in = {S(4, 6, 3), S(4, 5)}, .attr = {INT(-2)}},
    {.op = OP_gather, .nin = 2, .in = {S(3, 4, 6), S(3, 7)}, .attr = {INT(0)}, .hidden = true},
    {.op = OP_gather_grad, .nin = 2, .in = {S(7, 5), S(7, 5)}, .attr = {INT(4)}},
    {.op = OP_gather_grad, .nin = 2, .in = {S(4, 6, 3), S(4, 6, 3)}, .attr = {INT(4), INT(1)}},
    {.op = OP_gather_grad, .nin = 2, .in = {S(4, 6, 3), S(4, 6)}, .attr = {INT(9), INT(-2)}},
    {.op = OP_gather_grad, .nin = 2, .in = {S(3, 4, 6), S(3, 4)}, .attr = {INT(7), INT(0)}, .hidden = true},
    {.op = OP_scatter_add, .nin = 3, .in = {S(7, 5), S(7, 3), S(7, 3)}},
    {.op = OP_scatter_add, .nin = 3, .in = {S(4, 6, 3), S(4, 5), S(4, 5, 3)}, .attr = {INT(1)}},
    {.op = OP_cumsum, .nin = 1, .in = {S(7, 5)}},
    {.op = OP_cumsum, .nin = 1, .in = {S(4, 6, 3)}, .attr = {INT(1), INT(1), INT(1)}},
    {.op = OP_cumsum, .nin = 1, .in = {S(3, 4, 6)}, .attr = {INT(0), INT(1)}, .hidden = true},
    {.op = OP_topk, .nin = 1, .in = {S(7, 5)}, .attr = {INT(2)}},
    {.op = OP_topk, .nin = 1, .in = {S(3, 4, 6)}, .attr = {INT(6)}, .hidden = true},
    {.op = OP_stack, .nin = 2, .in = {S(7, 5), S(7, 5)}},
    {.op = OP_stack, .nin = 3, .in = {S(7, 5), S(7, 5), S(7, 5)}, .attr = {INT(-1)}},
    {.op = OP_replicate, .nin = 1, .in = {S(4, 6)}, .attr = {INT(5)}},
    {.op = OP_replica_sum, .nin = 1, .in = {S(5, 4, 6)}, .hidden = true},
    {.op = OP_replica_sum, .nin = 1, .in = {S(5, 4, 6)}, .attr = {INT(1)}, .hidden = true},
    {.op = OP_expose, .nin = 1, .in = {S(5, 4, 6)}, .hidden = true},
    {.op = OP_expose, .nin = 1, .in = {S(5, 4, 6)}, .attr = {INT(1)}},
    {.op = OP_einsum, .nin = 2, .in = {S(7, 5), S(7, 3)}, .attr = {TEXT("ab,ac->bc")}},
    {.op = OP_einsum, .nin = 2, .in = {S(3, 7, 5), S(3, 5, 4)}, .attr = {TEXT("ead,edb->ab")}},
    {.op = OP_einsum, .nin = 2, .in = {S(3, 7, 5), S(3, 7, 4)}, .attr = {TEXT("ab,ac->cb")}, .hidden = true},
    {.op = OP_einsum, .nin = 2, .in = {S(7, 5), S(3)}, .attr = {TEXT("ab,c->bc")}},
    {.op = OP_tanh_grad, .nin = 2, .in = {S(7, 5), S(7, 5)}},
    {.op = OP_sqrt_grad, .nin = 2, .in = {S(7, 5), S(7, 5)}, .inverted = true},
    {.op = OP_sigmoid_grad, .nin = 2, .in = {S(7, 5), S(7, 5)}},
    {.op = OP_square_grad, .nin = 2, .in = {S(7, 5), S(7, 5)}},
    {.op = OP_gelu_grad, .nin = 2, .in = {S(7, 5), S(7, 5)}, .hashed = true},
    {.op = OP_gelu_grad, .nin = 2, .in = {S(7, 5), S(7, 5)}, .attr = {INT(1)}, .hashed = true},
    {.op = OP_rsqrt_grad, .nin = 2, .in = {S(7, 5), S(7, 5)}},
    {.op = OP_log_softmax_grad, .nin = 2, .in = {S(4, 6, 3), S(4, 6, 3)}, .attr = {INT(1)}, .hashed = true},
    {.op = OP_log_softmax_grad, .nin = 2, .in = {S(4, 6), S(4, 6)}, .hashed = true},
    {.op = OP_softmax_grad, .nin = 2, .in = {S(4, 6, 3), S(4, 6, 3)}, .attr = {INT(1)}},
    {.op = OP_softmax_grad, .nin = 2, .in = {S(4, 6), S(4, 6)}},
    {.op = OP_layer_norm_grad,
     .nin = 5,
     .in = {S(4, 6, 3), S(4, 6, 3), S(3), S(4, 6, 1), S(4, 6, 1)},
     .attr = {REAL(0.125)},
     .hashed = true},
    {.op = OP_layer_norm_grad,
     .nin = 5,
     .in = {S(4, 6, 3), S(4, 6, 3), S(6, 3), S(4, 1, 1), S(4, 1, 1)},
     .attr = {REAL(0.125)},
     .hashed = true},
    {.op = OP_layer_norm_grad,
     .nin = 5,
     .in = {S(3, 4, 5), S(3, 4, 5), S(3, 5), S(3, 4, 1), S(3, 4, 1)},
     .attr = {REAL(0.125)},
     .hashed = true,
     .hidden = true},
    {.op = OP_rms_norm_grad, .nin = 4, .in = {S(4, 6, 3), S(4, 6, 3), S(3), S(4, 6, 1)}, .attr = {REAL(0.5)}, .hashed = true},
    {.op = OP_batch_norm_grad, .nin = 5, .in = {S(4, 6), S(4, 6), S(6), S(6), S(6)}, .attr = {REAL(0.125)}, .hashed = true},
    {.op = OP_batch_norm_grad, .nin = 5, .in = {S(4, 6, 3), S(4, 6, 3), S(6), S(6), S(6)}, .attr = {REAL(0.125)}, .hashed = true},
    {.op = OP_batch_norm_grad,
     .nin = 5,
     .in = {S(3, 4, 5, 2), S(3, 4, 5, 2), S(3, 5), S(3, 5), S(3, 5)},
     .attr = {REAL(0.5)},
     .hashed = true,
     .hidden = true},
    {.op = OP_conv2d, .nin = 2, .in = {S(3, 2, 5, 4), S(4, 2, 3, 2)}},
    {.op = OP_conv2d, .nin = 2, .in = {S(2, 6, 5, 4), S(4, 3, 3, 2)}, .attr = {INTS(2, 1), INTS(1), INTS(1, 2), INT(2)}},
    {.op = OP_conv2d, .nin = 2, .in = {S(3, 2, 4, 4, 4), S(3, 6, 2, 2, 3)}, .attr = {{0}, INTS(1, 0), {0}, INT(2)}, .hidden = true},
    {.op = OP_conv2d, .nin = 2, .in = {S(3, 2, 3, 4, 4), S(3, 4, 3, 1, 1)}, .hidden = true},
    {.op = OP_conv2d_grad_x,
     .nin = 2,
     .in = {S(2, 4, 3, 2), S(4, 3, 3, 2)},
     .attr = {INTS(2, 1), INTS(1), INTS(1, 2), INT(2), INTS(2, 6, 5, 2)}},
    {.op = OP_conv2d_grad_x, .nin = 2, .in = {S(3, 2, 4, 3, 3), S(3, 4, 2, 2, 2)}, .attr = {[4] = INTS(2, 2, 4, 4)}, .hidden = true},
    {.op = OP_conv2d_grad_w,
     .nin = 2,
     .in = {S(2, 6, 5, 2), S(2, 4, 3, 2)},
     .attr = {INTS(2, 1), INTS(1), INTS(1, 2), INT(2), INTS(4, 3, 3, 2)}},
    {.op = OP_conv2d_grad_w, .nin = 2, .in = {S(3, 2, 2, 4, 4), S(3, 2, 4, 3, 3)}, .attr = {[4] = INTS(4, 2, 2, 2)}, .hidden = true},
    {.op = OP_max_pool, .nin = 1, .in = {S(3, 4, 5)}, .attr = {INTS(2)}},
    {.op = OP_max_pool, .nin = 1, .in = {S(3, 2, 5, 6)}, .attr = {INTS(3, 2), INTS(2), INTS(1, 0), INTS(1, 2), INT(1)}, .hidden = true},
    {.op = OP_max_pool_grad, .nin = 2, .in = {S(3, 4, 5), S(3, 2, 2)}, .attr = {INTS(2)}},
    {.op = OP_max_pool_grad, .nin = 2, .in = {S(3, 2, 5, 5), S(3, 2, 3, 3)}, .attr = {INTS(3), INTS(2), INTS(1)}, .hidden = true},
    {.op = OP_avg_pool, .nin = 1, .in = {S(3, 4, 5)}, .attr = {INTS(2)}},
    {.op = OP_avg_pool, .nin = 1, .in = {S(3, 2, 4, 4)}, .attr = {INTS(2), INTS(1), INTS(1)}, .hidden = true},
    {.op = OP_avg_pool_grad, .nin = 1, .in = {S(3, 2, 2)}, .attr = {INTS(2), [5] = INTS(3, 4, 5)}},
    {.op = OP_avg_pool, .nin = 1, .in = {S(3, 4, 5)}, .attr = {INTS(2), [4] = INT(3)}},
    {.op = OP_avg_pool_grad, .nin = 1, .in = {S(3, 2, 2)}, .attr = {INTS(2, 3), [4] = INT(1), [5] = INTS(3, 4, 6)}},
    {.op = OP_avg_pool_grad,
     .nin = 1,
     .in = {S(3, 2, 5, 5)},
     .attr = {INTS(2), INTS(1), INTS(1), INT(0), [5] = INTS(2, 4, 4)},
     .hidden = true},
    {.op = OP_pad, .nin = 1, .in = {S(4, 6)}, .attr = {INTS(0, 2), INTS(0, 1)}},
    {.op = OP_upsample, .nin = 1, .in = {S(3, 2, 3)}, .attr = {INTS(2, 3)}},
    {.op = OP_max_mask, .nin = 2, .in = {S(7, 5), S(7, 5)}},
    {.op = OP_max_share, .nin = 2, .in = {S(7, 5), S(5)}},
    {.op = OP_abs_grad, .nin = 2, .in = {S(7, 5), S(7, 5)}},
    {.op = OP_clamp_grad, .nin = 2, .in = {S(7, 5), S(7, 5)}, .attr = {REAL(-1), REAL(2)}, .hashed = true},
    {.op = OP_sum_grad, .nin = 1, .in = {S(4)}, .attr = {INTS(1), INTS(4, 6)}},
    {.op = OP_mean_grad, .nin = 1, .in = {S(4, 1)}, .attr = {INTS(1), INTS(4, 6)}},
    {.op = OP_mean_grad, .nin = 1, .in = {S(3, 4)}, .attr = {INTS(1), INTS(4, 6)}, .hidden = true},
    {.op = OP_sum_to, .nin = 1, .in = {S(5, 8, 6)}, .attr = {INTS(8, 1)}},
    {.op = OP_sgd, .nin = 2, .in = {S(7, 5), S(7, 5)}, .attr = {REAL(0.5)}},
    {.op = OP_sgd, .nin = 3, .in = {S(7, 5), S(7, 5), {0}}, .attr = {REAL(0.5), REAL(0.25)}},
    {.op = OP_momentum, .nin = 3, .in = {S(7, 5), S(7, 5), S(7, 5)}, .attr = {REAL(0.5), REAL(0.25)}},
    {.op = OP_momentum, .nin = 4, .in = {S(7, 5), S(7, 5), S(7, 5), {0}}, .attr = {REAL(0.5), REAL(0.25), REAL(0.5)}},
    {.op = OP_adam,
     .nin = 5,
     .in = {S(7, 5), S(7, 5), S(7, 5), S(7, 5), {0}},
     .attr = {REAL(0.5), REAL(0.25), REAL(0.5), REAL(0.125)},
     .hashed = true},
    {.op = OP_adam,
     .nin = 6,
     .in = {S(7, 5), S(7, 5), S(7, 5), S(7, 5), {0}, {0}},
     .attr = {REAL(0.5), REAL(0.25), REAL(0.5), REAL(0.125), REAL(0.5)},
     .hashed = true},
    {.op = OP_adamw,
     .nin = 6,
     .in = {S(7, 5), S(7, 5), S(7, 5), S(7, 5), {0}, {0}},
     .attr = {REAL(0.5), REAL(0.25), REAL(0.5), REAL(0.125), REAL(0.5)},
     .hashed = true},
    {.op = OP_momentum,
     .nin = 4,
     .in = {S(7, 5), S(7, 5), S(7, 5), {0}},
     .attr = {REAL(0.5), REAL(0.25), REAL(0.5), {.given = true, .i = 1}}},
    {.op = OP_lion, .nin = 3, .in = {S(7, 5), S(7, 5), S(7, 5)}, .attr = {REAL(0.5), REAL(0.25), REAL(0.125)}, .hashed = true},
    {.op = OP_lion,
     .nin = 4,
     .in = {S(7, 5), S(7, 5), S(7, 5), {0}},
     .attr = {REAL(0.5), REAL(0.25), REAL(0.125), REAL(0.5)},
     .hashed = true},
    {.op = OP_lamb_step,
     .nin = 5,
     .in = {S(7, 5), S(7, 5), S(7, 5), S(7, 5), {0}},
     .attr = {REAL(0.25), REAL(0.5), REAL(0.125), REAL(0.5)},
     .hashed = true},
    {.op = OP_lamb, .nin = 4, .in = {S(7, 5), S(7, 5), {0}, {0}}, .attr = {REAL(0.5)}, .hashed = true},
    {.op = OP_lamb, .nin = 5, .in = {S(7, 5), S(7, 5), {0}, {0}, {0}}, .attr = {REAL(0.5)}, .hashed = true},
    {.op = OP_put, .nin = 3, .in = {S(7, 5), S(7, 2), S(2)}, .attr = {INT(1)}},
    {.op = OP_put, .nin = 3, .in = {S(4, 6, 3), S(4, 8, 3), S(8)}, .attr = {INT(-2)}},
    {.op = OP_embedding_sgd, .nin = 3, .in = {S(7, 5), S(4, 3, 5), S(4, 3)}, .attr = {REAL(0.5)}},
    {.op = OP_embedding_sgd, .nin = 4, .in = {S(7, 5), S(6, 5), S(6), {0}}, .attr = {REAL(0.5)}},
    {.op = OP_lazy_adam,
     .nin = 6,
     .in = {S(7, 5), S(7, 5), S(7, 5), S(6, 5), S(6), {0}},
     .attr = {REAL(0.5), REAL(0.25), REAL(0.5), REAL(0.125)},
     .hashed = true},
    {.op = OP_lazy_adam,
     .nin = 7,
     .in = {S(7, 5), S(7, 5), S(7, 5), S(4, 3, 5), S(4, 3), {0}, {0}},
     .attr = {REAL(0.5), REAL(0.25), REAL(0.5), REAL(0.125)},
     .hashed = true},
    {.op = OP_adafactor,
     .nin = 5,
     .in = {S(7, 5), S(7, 5), {0}, {0}, {0}},
     .attr = {REAL(0.5), REAL(0.125), REAL(2), REAL(0.25)},
     .hashed = true},
    {.op = OP_adafactor,
     .nin = 6,
     .in = {S(7, 5), S(7, 5), {0}, {0}, {0}, {0}},
     .attr = {REAL(0.5), REAL(0.125), REAL(2), REAL(0.25)},
     .hashed = true},
    {.op = OP_sum_squares, .nin = 1, .in = {S(7, 5)}},
    {.op = OP_clip, .nin = 2, .in = {S(7, 5), {0}}, .attr = {REAL(0.5)}, .hashed = true},
/* Every row of elementwise.def; those that are no hashes in proof/semantics.c stand above too, to be compared with their kernels. */
#define UNARY_OP(name, ...) {.op = OP_##name, .nin = 1, .in = {S(7, 5)}, .hashed = true},
#define UNARY_GRADIENT(name) {.op = OP_##name##_grad, .nin = 2, .in = {S(7, 5), S(7, 5)}, .hashed = true},
#define UNARY_OP_X(name, ...) UNARY_OP(name, ) UNARY_GRADIENT(name)
#define UNARY_OP_Y(name, ...) UNARY_OP(name, ) UNARY_GRADIENT(name)
#define BINARY_OP(name, ...) {.op = OP_##name, .nin = 2, .in = {S(8, 6), S(6)}, .hashed = true},
#include "ir/elementwise.def"
};
const int ntrials = sizeof trials / sizeof *trials;

DType trial_type(const Trial *trial, int operand, DType dtype) {
    char letter = op_type(trial->op, false, operand);
    return letter == 'i' ? (operand == 0 ? I64 : I32) : letter == 'b' ? BOOL : letter == 'w' && dtype_is_half(dtype) ? F32 : dtype;
}

void trial_open(TrialGraph *t, const Trial *trial, DType dtype) {
    int in[MAX_IN];
    RuleError error;
    arena_init(&t->arena);
    graph_init(&t->graph, &t->arena);
    t->graph.nranks = 1;
    for (int i = 0; i < trial->nin; i++) {
        Input input = {.name = arena_printf(&t->arena, "x%d", i), .type = {trial_type(trial, i, dtype), trial->hidden, trial->in[i]}};
        in[i] = graph_input(&t->graph, graph_add_input(&t->graph, input));
    }
    int id = graph_add(&t->graph, trial->op, in, trial->nin, trial->attr, "y", (Span){0}, &error);
    cr_assert(id >= 0, "%s: %s", op_table[trial->op].name, error.text);
    graph_find_indices(&t->graph);
    t->node = &t->graph.nodes.at[id];
}

void trial_close(TrialGraph *t) {
    arena_finish(&t->arena);
}

static FieldTensor box_of(const TensorType *type, const Rule *rule, int operand, const int8_t *map, const int64_t *begin,
                          const int64_t *end) {
    return (FieldTensor){
        .dtype = type->dtype, .hidden = type->hidden, .global = type->shape, .box = part_box(&type->shape, rule, operand, map, begin, end)};
}

void trial_boxes(const TrialGraph *t, const int64_t *begin, const int64_t *end, FieldTensor *in, FieldTensor *out) {
    const Node *node = t->node;
    for (int i = 0; i < node->nin; i++)
        in[i] = box_of(&t->graph.values.at[node->in[i]].type, node->rule, i, node->rule->in[i], begin, end);
    for (int k = 0; k < node->nout; k++)
        out[k] = box_of(&t->graph.values.at[node->out[k]].type, node->rule, -1, node->rule->out[k], begin, end);
}

void trial_parts(const TrialGraph *t, bool contracted, uint64_t *random, int64_t *begin, int64_t *end) {
    const Rule *rule = t->node->rule;
    for (int f = 0; f < rule->nfactors; f++) {
        bool cut = !factor_stays_whole(&rule->factor[f]) && (contracted || !rule_sums(rule, f));
        part_range(random, part_extent(rule, f), cut, &begin[f], &end[f]);
    }
}
