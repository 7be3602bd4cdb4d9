/* numpy's generator and how inputs are filled from it; per_rank. */
#include "runtime/data/data.h"
#include "runtime/data/sampler.h"
#include "tests/shape.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static Box whole(const Shape *shape) {
    Box box = {.ndim = shape->ndim};
    memcpy(box.end, shape->dim, sizeof box.end);
    return box;
}

/* numpy.random.RandomState(seed).random_sample(); CPython draws the same from the same state. */
Test(data, mt19937_draws_numpys_doubles) {
    Mt19937 mt;
    mt19937_seed(&mt, 1);
    cr_assert_eq(mt19937_double(&mt), 0.417022004702574);
    cr_assert_eq(mt19937_double(&mt), 0.7203244934421581);
    cr_assert_eq(mt19937_double(&mt), 0.00011437481734488664);
    cr_assert_eq(mt19937_double(&mt), 0.30233257263183977);
    mt19937_seed(&mt, 2);
    cr_assert_eq(mt19937_double(&mt), 0.43599490214200376);
    for (int i = 0; i < 2000; i++)
        mt19937_double(&mt); /* over several refills */
    mt19937_seed(&mt, 5489);
    for (int i = 0; i < 4999; i++)
        mt19937_double(&mt);
    cr_assert_eq(mt19937_double(&mt), 0.28196043491448763);
}

/* From any place of any block, also over a carry into the counter's upper half. */
Test(data, many_uniform_numbers_are_those_of_the_pairs) {
    enum { MOST = 100 };
    double many[MOST], pair[2];
    for (uint64_t k = 0; k < 400; k++) {
        const uint64_t key = k * 0x9876543210abcdefu, first = (k % 2 << 33) - k % 4 * 18 + k * 1000003;
        const int64_t n = 1 + (int64_t)k % MOST;
        random_uniforms(key, first, n, many);
        for (int64_t i = 0; i < n; i++) {
            random_uniform_pair(key, (first + (uint64_t)i) / 2, 0, 1, pair);
            cr_assert_eq(many[i], pair[(first + (uint64_t)i) % 2], "key %lu, first %lu, number %ld", (unsigned long)key,
                         (unsigned long)first, (long)i);
        }
    }
}

/* Box and Muller's transformation by the C library, which has an angle of up to 2 pi with the error of its last place. */
Test(data, normal_numbers_are_those_of_uniform_pairs) {
    enum { MOST = 100 };
    double many[MOST], pair[2];
    for (uint64_t k = 0; k < 4000; k++) {
        const uint64_t key = k * 0x9876543210abcdefu, first = k * 1000003;
        const int64_t n = 1 + (int64_t)k % MOST;
        random_normals(key, first, n, many);
        for (int64_t i = 0; i < n; i++) {
            random_uniform_pair(key, (first + (uint64_t)i) / 2, 0, 1, pair);
            const double radius = sqrt(-2 * log(1 - pair[0])), angle = 6.283185307179586 * pair[1];
            const double right = radius * ((first + (uint64_t)i) % 2 ? sin(angle) : cos(angle));
            cr_assert(fabs(many[i] - right) <= 8e-16 * radius, "key %lu, number %ld: %.17g, not %.17g", (unsigned long)key,
                      (long)(first + (uint64_t)i), many[i], right);
        }
    }
}

Test(data, inputs_are_drawn_in_order_of_declaration_and_rows_repeat) {
    Arena arena;
    Graph graph;
    Error error;
    arena_init(&arena);
    graph_init(&graph, &arena);
    graph_add_input(&graph, (Input){.name = "x", .type = {F32, false, SHAPE(16, 32)}});
    graph_add_input(&graph, (Input){.name = "label", .type = {F64, false, SHAPE(16, 16)}});
    graph.settings.data = DATA_NUMPY_RAND;
    graph.settings.data_seed = 1;
    graph.settings.data_rows = 2;
    DataSource *data = data_open(&graph, NULL, NULL, 1, false, &error);
    cr_assert(data, "%s", error.text);
    float x[16][32];
    double label[16][16];
    Box x_box = whole(&graph.inputs.at[0].type.shape), label_box = whole(&graph.inputs.at[1].type.shape);
    cr_assert(data_fill(data, data_take(data, 0, 0, &x_box), 1, 1, x, &error));
    cr_assert(data_fill(data, data_take(data, 0, 1, &label_box), 1, 1, label, &error));
    Mt19937 mt;
    mt19937_seed(&mt, 1);
    for (int i = 0; i < 64; i++)
        cr_assert_eq(x[i / 32][i % 32], (float)mt19937_double(&mt));
    for (int i = 0; i < 32; i++)
        cr_assert_eq(label[i / 16][i % 16], mt19937_double(&mt));
    cr_assert_float_eq(label[0][0], 0.04995346, 1e-8);
    for (int row = 2; row < 16; row++) {
        cr_assert_arr_eq(x[row], x[row % 2], sizeof x[row]);
        cr_assert_arr_eq(label[row], label[row % 2], sizeof label[row]);
    }
    /* A rank's box is that part of it. */
    float part[3][5];
    Box box = {.ndim = 2, .begin = {5, 7}, .end = {8, 12}};
    cr_assert(data_fill(data, data_take(data, 0, 0, &box), 1, 1, part, &error));
    for (int i = 0; i < 3; i++)
        cr_assert_arr_eq(part[i], &x[5 + i][7], sizeof part[i]);
    data_close(data);
    arena_finish(&arena);
}

/* All of them, as often as each other, and nothing else. */
Test(data, integers_are_drawn_from_the_range_of_their_index) {
    enum { N = 9000, LEAST = -3, COUNT = 9 };
    for (int kind = DATA_NORMAL; kind <= DATA_UNIFORM; kind++) {
        Arena arena;
        Graph graph;
        Error error;
        static int64_t x[N];
        int seen[COUNT] = {0};
        arena_init(&arena);
        graph_init(&graph, &arena);
        graph_add_input(&graph, (Input){.name = "x", .type = {I64, false, SHAPE(N)}, .index = {LEAST, LEAST + COUNT}});
        graph.settings.data = (DataKind)kind;
        graph.settings.steps = 1;
        DataSource *data = data_open(&graph, NULL, NULL, 1, false, &error);
        cr_assert(data, "%s", error.text);
        Box box = whole(&graph.inputs.at[0].type.shape);
        cr_assert(data_fill(data, data_take(data, 0, 0, &box), 1, 1, x, &error));
        for (int i = 0; i < N; i++) {
            cr_assert(x[i] >= LEAST && x[i] < LEAST + COUNT);
            seen[x[i] - LEAST]++;
        }
        for (int k = 0; k < COUNT; k++)
            cr_assert(seen[k] > N / COUNT / 2 && seen[k] < 2 * N / COUNT);
        data_close(data);
        arena_finish(&arena);
    }
}

Test(data, every_replica_has_the_same_rows) {
    Arena arena;
    Graph graph;
    Error error;
    arena_init(&arena);
    graph_init(&graph, &arena);
    graph_add_input(&graph, (Input){.name = "x", .type = {F64, true, SHAPE(3, 4, 2)}});
    graph.settings.data = DATA_NUMPY_RAND;
    graph.settings.data_seed = 9;
    graph.settings.data_rows = 2;
    DataSource *data = data_open(&graph, NULL, NULL, 1, false, &error);
    double x[3][4][2];
    Box box = whole(&graph.inputs.at[0].type.shape);
    cr_assert(data_fill(data, data_take(data, 0, 0, &box), 1, 1, x, &error));
    for (int r = 1; r < 3; r++)
        cr_assert_arr_eq(x[r], x[0], sizeof x[0]);
    cr_assert_arr_eq(x[0][2], x[0][0], sizeof x[0][0]);
    cr_assert_neq(x[0][1][0], x[0][0][0]);
    cr_expect_eq(data_bytes(&graph), 2 * 2 * sizeof(double)); /* replicas and repeated rows are not kept */
    data_close(data);
    arena_finish(&arena);
}

Test(data, per_rank_gives_each_replica_its_own) {
    const double values[] = {1, 2, 2, 3, 4, 6, 3, 1};
    Arena arena;
    Graph graph;
    Error error;
    arena_init(&arena);
    graph_init(&graph, &arena);
    graph_add_input(&graph, (Input){.name = "x", .type = {F32, true, SHAPE(2, 2, 2)}, .per_rank = values});
    graph.settings.data = DATA_PER_RANK;
    DataSource *data = data_open(&graph, NULL, NULL, 1, false, &error);
    float x[2][2];
    Box second = {.ndim = 3, .begin = {1, 0, 0}, .end = {2, 2, 2}};
    cr_assert(data_fill(data, data_take(data, 0, 0, &second), 1, 1, x, &error));
    const float expected[2][2] = {{4, 6}, {3, 1}};
    cr_assert_arr_eq(x, expected, sizeof x);
    data_close(data);
    graph.inputs.at[0].per_rank = NULL;
    cr_assert_null(data_open(&graph, NULL, NULL, 1, false, &error));
    cr_assert(strstr(error.text, "input x has no data"));
    arena_finish(&arena);
}
