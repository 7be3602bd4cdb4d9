/* type: element types, shapes, and products of sizes that are checked for overflow. */
#include "ir/layout.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

const char *const dtype_name[NDTYPES] = {
    [F32] = "f32", [F64] = "f64", [I32] = "i32", [I64] = "i64", [BOOL] = "bool", [F16] = "f16", [BF16] = "bf16"};
const char *const dtype_title[NDTYPES] = {
    [F32] = "Float32", [F64] = "Float64", [I32] = "Int32", [I64] = "Int64", [BOOL] = "Bool", [F16] = "Float16", [BF16] = "BFloat16"};
const int dtype_bytes[NDTYPES] = {[F32] = 4, [F64] = 8, [I32] = 4, [I64] = 8, [BOOL] = 1, [F16] = 2, [BF16] = 2};

bool dtype_parse(const char *name, DType *dtype) {
    for (int i = 0; i < NDTYPES; i++)
        if (strcmp(name, dtype_name[i]) == 0) {
            *dtype = (DType)i;
            return true;
        }
    return false;
}

bool mul_checked(int64_t a, int64_t b, int64_t *product) {
    *product = 0;
    if (a == 0 || b == 0) return true;
    bool overflow;
    if (a > 0)
        overflow = b > 0 ? a > INT64_MAX / b : b < INT64_MIN / a;
    else
        overflow = b > 0 ? a < INT64_MIN / b : b < INT64_MAX / a;
    if (overflow) return false;
    *product = a * b;
    return true;
}

bool shape_count(const Shape *shape, int64_t *elements) {
    *elements = 1;
    for (int i = 0; i < shape->ndim; i++)
        if (shape->dim[i] == 0) {
            *elements = 0;
            return true;
        }
    for (int i = 0; i < shape->ndim; i++)
        if (!mul_checked(*elements, shape->dim[i], elements)) return false;
    return true;
}

int64_t shape_elements(const Shape *shape) {
    int64_t elements;
    bool fits = shape_count(shape, &elements);
    assert(fits);
    (void)fits;
    return elements;
}

bool shape_equal(const Shape *a, const Shape *b) {
    if (a->ndim != b->ndim) return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->dim[i] != b->dim[i]) return false;
    return true;
}

bool type_equal(const TensorType *a, const TensorType *b) {
    return a->dtype == b->dtype && a->hidden == b->hidden && shape_equal(&a->shape, &b->shape);
}

static void dims_print(Text *text, const Shape *shape, bool hidden) {
    text_printf(text, "[");
    for (int i = 0; i < shape->ndim; i++) {
        const char *before = i == 0 ? "" : hidden && i == 1 ? " " : ", ";
        text_printf(text, "%s%" PRId64 "%s", before, shape->dim[i], hidden && i == 0 ? " |" : "");
    }
    text_printf(text, "]");
}

void shape_print(Text *text, const Shape *shape) {
    dims_print(text, shape, false);
}

void type_print(Text *text, const TensorType *type) {
    text_printf(text, "%s", dtype_name[type->dtype]);
    dims_print(text, &type->shape, type->hidden);
}

int64_t gcd64(int64_t a, int64_t b) {
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a < 0 ? -a : a;
}
