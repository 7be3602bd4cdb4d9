/* Initial values: functions of seed, name and global index alone; files. */
#include "runtime/state.h"
#include "tests/shape.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static Box whole(const Shape *shape) {
    Box box = {.ndim = shape->ndim};
    memcpy(box.end, shape->dim, sizeof box.end);
    return box;
}

static double *fill(const Graph *graph, const State *state, const Box *box) {
    Error error;
    double *data = malloc(((size_t)box_elements(box) + 1) * sizeof *data);
    cr_assert(state_initial(graph, state, box, NULL, data, &error), "%s", error.text);
    return data;
}

Test(state, a_box_is_that_part_of_the_whole) {
    Graph graph = {.settings.seed = 3};
    const Init inits[] = {
        {.kind = INIT_NORMAL, .a = 0.01}, {.kind = INIT_UNIFORM, .a = -1, .b = 2}, {.kind = INIT_ONES}, {.kind = INIT_ZEROS}};
    for (int k = 0; k < 4; k++) {
        State state = {.name = "w", .trainable = true, .type = {F64, false, SHAPE(7, 5, 3)}, .init = inits[k]};
        Box all = whole(&state.type.shape);
        double *values = fill(&graph, &state, &all);
        for (int from = 0; from < 7; from++)
            for (int left = 0; left < 5; left++) {
                Box box = {.ndim = 3, .begin = {from, left, 1}, .end = {7, 5, 3}};
                double *part = fill(&graph, &state, &box);
                int n = 0;
                for (int i = from; i < 7; i++)
                    for (int j = left; j < 5; j++)
                        for (int l = 1; l < 3; l++)
                            cr_assert_eq(part[n++], values[(i * 5 + j) * 3 + l]);
                free(part);
            }
        free(values);
    }
}

Test(state, values_depend_on_seed_and_name) {
    State w = {.name = "w", .trainable = true, .type = {F64, false, SHAPE(4)}, .init = {.kind = INIT_NORMAL, .a = 1}}, v = w;
    v.name = "v";
    Graph zero = {0}, one = {.settings.seed = 1};
    Box box = whole(&w.type.shape);
    double *a = fill(&zero, &w, &box), *b = fill(&zero, &v, &box), *c = fill(&one, &w, &box);
    cr_assert_neq(a[0], b[0]);
    cr_assert_neq(a[0], c[0]);
    free(a), free(b), free(c);
}

Test(state, normal_has_its_moments_and_uniform_its_range) {
    enum { N = 200000 };
    Graph graph = {0};
    State state = {.name = "w", .trainable = true, .type = {F64, false, SHAPE(N)}, .init = {.kind = INIT_NORMAL, .a = 2}};
    Box box = whole(&state.type.shape);
    double *x = fill(&graph, &state, &box), mean = 0, square = 0, fourth = 0, neighbours = 0;
    for (int i = 0; i < N; i++) {
        double z = x[i] / 2;
        mean += z / N, square += z * z / N, fourth += z * z * z * z / N;
        if (i > 0) neighbours += z * x[i - 1] / 2 / N;
    }
    cr_assert_float_eq(mean, 0, 0.01); /* 4 standard errors */
    cr_assert_float_eq(square, 1, 0.013);
    cr_assert_float_eq(fourth, 3, 0.09);
    cr_assert_float_eq(neighbours, 0, 0.01);
    free(x);
    state.init = (Init){.kind = INIT_UNIFORM, .a = -3, .b = 5};
    x = fill(&graph, &state, &box);
    double low = 5, high = -3;
    for (int i = 0; i < N; i++)
        low = fmin(low, x[i]), high = fmax(high, x[i]);
    cr_assert(low >= -3 && low < -2.99 && high < 5 && high > 4.99);
    free(x);
}

Test(state, f32_is_the_rounded_double) {
    Graph graph = {0};
    State state = {.name = "w", .trainable = true, .type = {F64, false, SHAPE(9)}, .init = {.kind = INIT_NORMAL, .a = 0.01}};
    Box box = whole(&state.type.shape);
    double *wide = fill(&graph, &state, &box);
    state.type.dtype = F32;
    float *narrow = (float *)(void *)fill(&graph, &state, &box);
    for (int i = 0; i < 9; i++)
        cr_assert_eq(narrow[i], (float)wide[i]);
    free(wide), free(narrow);
}

static void write_npy(const char *path, const char *descr, const char *shape, const void *data, size_t bytes) {
    char header[128];
    int n = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape);
    FILE *file = fopen(path, "wb");
    fwrite("\x93NUMPY\x01\x00", 1, 8, file);
    fputc((n + 1) & 255, file);
    fputc((n + 1) >> 8, file);
    fprintf(file, "%s\n", header);
    fwrite(data, 1, bytes, file);
    fclose(file);
}

Test(state, a_file_gives_its_elements_and_must_have_the_shape) {
    char directory[] = "/tmp/state-XXXXXX", path[64];
    cr_assert(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/w.npy", directory);
    const double values[6] = {1, 2, 3, 4, 5, 6};
    write_npy(path, "<f8", "(2, 3)", values, sizeof values);
    Graph graph = {0};
    Error error;
    State state = {.name = "w", .trainable = true, .type = {F32, false, SHAPE(2, 3)}, .init = {.kind = INIT_FILE, .file = "weights/w.npy"}};
    Box box = {.ndim = 2, .begin = {0, 1}, .end = {2, 3}};
    float part[4];
    cr_assert(state_initial(&graph, &state, &box, directory, part, &error), "%s", error.text); /* by its name, beside the plan */
    cr_assert(part[0] == 2 && part[1] == 3 && part[2] == 5 && part[3] == 6);
    state.type.shape = SHAPE(3, 2);
    cr_assert_not(state_initial(&graph, &state, &box, directory, part, &error));
    cr_assert_eq(error.code, EXIT_ENVIRONMENT);
    cr_assert_str_eq(error.text, "parameter w: the shape in weights/w.npy is [2, 3], the parameter is [3, 2]");
    state.init.file = "missing.npy";
    cr_assert_not(state_initial(&graph, &state, &box, directory, part, &error));
    cr_assert_eq(error.code, EXIT_ENVIRONMENT);
    unlink(path);
    rmdir(directory);
}

Test(npy, reads_the_three_types_and_refuses_the_rest) {
    char path[] = "/tmp/npy-XXXXXX";
    close(mkstemp(path));
    Arena arena;
    Shape shape;
    DType dtype;
    double *data;
    Error error;
    arena_init(&arena);
    const float f[2] = {0.5f, -1};
    write_npy(path, "<f4", "(2,)", f, sizeof f);
    cr_assert(npy_read(path, &arena, &shape, &dtype, &data, &error), "%s", error.text);
    cr_assert(dtype == F32 && shape.ndim == 1 && shape.dim[0] == 2 && data[0] == 0.5 && data[1] == -1);
    const int32_t i[1] = {-7};
    write_npy(path, "<i4", "()", i, sizeof i);
    cr_assert(npy_read(path, &arena, &shape, &dtype, &data, &error), "%s", error.text);
    cr_assert(dtype == I32 && shape.ndim == 0 && data[0] == -7);
    write_npy(path, "<c8", "(1,)", f, 8);
    cr_assert_not(npy_read(path, &arena, &shape, &dtype, &data, &error));
    write_npy(path, "<f4", "(3,)", f, sizeof f);
    cr_assert_not(npy_read(path, &arena, &shape, &dtype, &data, &error));
    cr_assert(strstr(error.text, "holds 8 bytes of elements, its shape needs 12"));
    write_npy(path, "<f4", "(99999999999, 99999999999)", f, sizeof f);
    cr_assert_not(npy_read(path, &arena, &shape, &dtype, &data, &error));
    FILE *file = fopen(path, "wb");
    fputs("\x93NUMPY\x01", file);
    fclose(file);
    cr_assert_not(npy_read(path, &arena, &shape, &dtype, &data, &error));
    unlink(path);
    arena_finish(&arena);
}
