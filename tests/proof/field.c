/* Integers modulo 2^61 - 1, and what leaves hold. */
#include "proof/field.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "tests/random.h"

static const Fe edges[] = {
    0, 1, 2, 3, UINT32_MAX, UINT64_C(1) << 32, (UINT64_C(1) << 60) - 1, UINT64_C(1) << 60, FIELD_P / 2, FIELD_P - 2, FIELD_P - 1};
enum { NEDGES = sizeof edges / sizeof *edges };

/* a * b by doubling and adding: no product at all. */
static Fe slow_mul(Fe a, Fe b) {
    Fe sum = 0;
    for (; b > 0; b >>= 1) {
        if (b & 1) sum = fe_add(sum, a);
        a = fe_add(a, a);
    }
    return sum;
}

Test(proof_field, both_multiplications_are_repeated_addition) {
    uint64_t random = 1;
    for (int i = 0; i < NEDGES * NEDGES + 2000; i++) {
        bool edge = i < NEDGES * NEDGES;
        Fe a = edge ? edges[i / NEDGES] : random_next(&random) % FIELD_P, b = edge ? edges[i % NEDGES] : random_next(&random) % FIELD_P;
        Fe expected = slow_mul(a, b);
        cr_assert_lt(expected, FIELD_P);
        cr_assert_eq(fe_mul(a, b), expected, "%llu * %llu", (unsigned long long)a, (unsigned long long)b);
        cr_assert_eq(fe_mul_portable(a, b), expected, "%llu * %llu portably", (unsigned long long)a, (unsigned long long)b);
        cr_assert_eq(fe_sub(fe_add(a, b), b), a);
    }
}

Test(proof_field, both_dot_products_are_sums_of_products) {
    enum { MOST = 300 };
    Fe a[MOST], b[MOST];
    uint64_t random = 2;
    for (int largest = 0; largest < 2; largest++) {
        for (int i = 0; i < MOST; i++) {
            a[i] = largest ? FIELD_P - 1 : random_next(&random) % FIELD_P;
            b[i] = largest ? FIELD_P - 1 : random_next(&random) % FIELD_P;
        }
        Fe sum = 0;
        for (int n = 0; n < MOST; n++) {
            cr_assert_eq(fe_dot(a, b, n), sum, "of %d", n);
            cr_assert_eq(fe_dot_portable(a, b, n), sum, "of %d portably", n);
            sum = fe_add(sum, fe_mul(a[n], b[n]));
        }
    }
}

Test(proof_field, a_number_times_its_inverse_is_one) {
    enum { N = 600 };
    Fe all[N];
    uint64_t random = 3;
    for (int i = 0; i < N; i++)
        all[i] = i < NEDGES ? edges[i] : i % 50 == 0 ? 0 : random_next(&random) % FIELD_P;
    Fe inverse[N];
    for (int i = 0; i < N; i++)
        inverse[i] = all[i];
    fe_inverse_all(inverse, N);
    for (int i = 0; i < N; i++) {
        cr_assert_eq(inverse[i], fe_inverse(all[i]));
        cr_assert_eq(fe_mul(all[i], inverse[i]), all[i] != 0);
    }
}

Test(proof_field, doubles_are_what_they_are_exactly) {
    const double numbers[] = {0, -0.0, 1, -1, 0.5, 0.1, -0.4, 3.25, 1e300, 1e-300, 5e-324, 1.7976931348623157e308, 123456789012345678.0};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        /* A multiple that is an integer of 53 bits at most. */
        int exponent;
        int64_t mantissa = (int64_t)(frexp(numbers[i], &exponent) * 9007199254740992.0);
        Fe fe, power = 1;
        cr_assert(fe_double(numbers[i], &fe));
        for (int e = 0; e < abs(exponent - 53); e++)
            power = fe_mul(power, exponent > 53 ? 2 : fe_inverse(2));
        cr_assert_eq(fe, fe_mul(fe_integer(mantissa), power), "%g", numbers[i]);
    }
    Fe unused;
    cr_assert_not(fe_double(INFINITY, &unused));
    cr_assert_not(fe_double(NAN, &unused));
}

Test(proof_field, integers_keep_sign_and_order) {
    const int64_t numbers[] = {INT32_MIN, -1000, -1, 0, 1, 7, INT32_MAX, (int64_t)1 << 59};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        Fe fe;
        cr_assert_eq(fe_signed(fe_integer(numbers[i])), numbers[i]);
        cr_assert(fe_double((double)numbers[i], &fe));
        cr_assert_eq(fe, fe_integer(numbers[i]));
    }
    cr_assert_eq(fe_integer(INT64_MIN), fe_sub(0, 4)); /* -2^63 = -(2^61 * 4) */
}

static FieldTensor tensor_of(DType dtype, const Box *box, Fe *at) {
    return (FieldTensor){.dtype = dtype, .global = {3, {4, 5, 6}}, .box = *box, .at = at};
}

/* A graph with two states, an input and a constant; box of the leaf against the whole of it. */
Test(proof_field, a_leaf_has_the_same_elements_in_every_box) {
    Arena arena;
    Graph graph;
    char why[256];
    double data[120];
    arena_init(&arena);
    graph_init(&graph, &arena);
    for (int i = 0; i < 120; i++)
        data[i] = i - 60;
    TensorType type = {.dtype = F32, .shape = {3, {4, 5, 6}}};
    graph_add_state(&graph, (State){.name = "w", .type = type, .trainable = true});
    graph_add_state(&graph, (State){.name = "v", .type = type, .trainable = true});
    graph_add_input(&graph, (Input){.name = "w", .type = type});
    graph_read_state(&graph, 0, 0, NULL, (Span){0});
    graph_read_state(&graph, 1, 0, NULL, (Span){0});
    graph_input(&graph, 0);
    graph_constant(&graph, type, data, 0, "c", (Span){0});
    graph_constant(&graph, type, NULL, 0.25, "s", (Span){0});
    static const Box all = {.ndim = 3, .begin = {0, 0, 0}, .end = {4, 5, 6}}, part = {.ndim = 3, .begin = {1, 2, 2}, .end = {3, 5, 6}},
                     none = {.ndim = 3, .begin = {2, 0, 0}, .end = {2, 5, 6}};
    Fe whole[5][120], cut[120];
    for (int node = 0; node < 5; node++) {
        const Node *leaf = &graph.nodes.at[node];
        FieldTensor t = tensor_of(F32, &all, whole[node]), p = tensor_of(F32, &part, cut), e = tensor_of(F32, &none, cut);
        cr_assert(field_leaf(&graph, leaf, 9, &t, why, sizeof why), "%s", why);
        cr_assert(field_leaf(&graph, leaf, 9, &e, why, sizeof why), "%s", why);
        cr_assert(field_leaf(&graph, leaf, 9, &p, why, sizeof why), "%s", why);
        int at = 0;
        for (int i = 1; i < 3; i++)
            for (int j = 2; j < 5; j++)
                for (int k = 2; k < 6; k++)
                    cr_assert_eq(cut[at++], whole[node][(i * 5 + j) * 6 + k]);
    }
    /* Neither another name nor another kind of leaf, nor another seed, has the same elements. */
    Fe other[120];
    FieldTensor t = tensor_of(F32, &all, other);
    cr_assert(field_leaf(&graph, &graph.nodes.at[0], 10, &t, why, sizeof why));
    for (int i = 0; i < 120; i++) {
        for (int j = 0; j < i; j++)
            cr_assert_neq(whole[0][i], whole[0][j]);
        cr_assert(whole[0][i] != whole[1][i] && whole[0][i] != whole[2][i] && whole[0][i] != other[i]);
        cr_assert_eq(whole[3][i], fe_integer(i - 60));
        cr_assert_eq(fe_mul(whole[4][i], 4), 1);
    }
    FieldTensor integers = tensor_of(I32, &all, other);
    cr_assert(field_leaf(&graph, &graph.nodes.at[2], 9, &integers, why, sizeof why));
    for (int i = 0; i < 120; i++)
        cr_assert(fe_signed(other[i]) >= -8 && fe_signed(other[i]) < 8);
    const Node fresh = {.op = OP_read, .version = 1, .name = "w"};
    cr_assert_not(field_leaf(&graph, &fresh, 9, &t, why, sizeof why));
    arena_finish(&arena);
}
