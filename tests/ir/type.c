#include "ir/layout.h"
#include <criterion/criterion.h>

Test(type, names_of_element_types_are_read_back) {
    for (int i = 0; i < NDTYPES; i++) {
        DType dtype = (DType)((i + 1) % NDTYPES);
        cr_assert(dtype_parse(dtype_name[i], &dtype));
        cr_assert_eq((int)dtype, i);
    }
    DType dtype;
    cr_assert_not(dtype_parse("f8", &dtype));
    cr_assert_not(dtype_parse("", &dtype));
    cr_assert_eq(dtype_bytes[F32], 4);
    cr_assert_eq(dtype_bytes[F64], 8);
    cr_assert_eq(dtype_bytes[I32], 4);
}

Test(type, products_are_exact_or_refused) {
    const int64_t values[] = {0,
                              1,
                              -1,
                              2,
                              -2,
                              3,
                              7,
                              -7,
                              1 << 20,
                              (int64_t)1 << 31,
                              (int64_t)1 << 32,
                              -((int64_t)1 << 32),
                              INT64_MAX,
                              INT64_MIN,
                              INT64_MAX / 2,
                              INT64_MIN / 2,
                              INT64_MAX / 3};
    const int n = sizeof values / sizeof *values;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            int64_t product;
            bool ok = mul_checked(values[i], values[j], &product);
            /* long double has 64 bits of mantissa: enough to tell whether the exact product fits, but for the edge itself. */
            long double exact = (long double)values[i] * (long double)values[j];
            bool fits = exact >= -9223372036854775808.0L && exact <= 9223372036854775807.0L;
            cr_assert_eq(ok, fits, "%lld * %lld", (long long)values[i], (long long)values[j]);
            if (ok) cr_assert_eq((long double)product, exact);
        }
}

Test(type, elements_are_counted_or_refused) {
    int64_t n;
    cr_assert(shape_count(&(Shape){.ndim = 0}, &n));
    cr_assert_eq(n, 1);
    cr_assert(shape_count(&(Shape){3, {4, 5, 6}}, &n));
    cr_assert_eq(n, 120);
    cr_assert_not(shape_count(&(Shape){3, {(int64_t)1 << 31, (int64_t)1 << 31, 2}}, &n));
    cr_assert(shape_count(&(Shape){3, {(int64_t)1 << 40, (int64_t)1 << 40, 0}}, &n));
    cr_assert_eq(n, 0);
    cr_assert_eq(shape_elements(&(Shape){2, {7, 3}}), 21);
}

Test(type, equality_looks_at_every_part) {
    TensorType a = {F32, false, {2, {4, 5}}}, b = a;
    b.shape.dim[5] = 99; /* not part of the shape */
    cr_assert(type_equal(&a, &b));
    b.dtype = F64;
    cr_assert_not(type_equal(&a, &b));
    b = a, b.hidden = true;
    cr_assert_not(type_equal(&a, &b));
    b = a, b.shape.dim[1] = 6;
    cr_assert_not(type_equal(&a, &b));
    b = a, b.shape.ndim = 1;
    cr_assert_not(type_equal(&a, &b));
    cr_assert_not(shape_equal(&a.shape, &b.shape));
}

static void check_printed(const TensorType *type, const char *expected) {
    Text text = {0};
    type_print(&text, type);
    cr_assert_str_eq(text.at, expected);
    text_finish(&text);
}

Test(type, prints_as_written_in_programs) {
    check_printed(&(TensorType){F32, false, {2, {16, 32}}}, "f32[16, 32]");
    check_printed(&(TensorType){I32, false, {0, {0}}}, "i32[]");
    check_printed(&(TensorType){F64, true, {3, {8, 16, 32}}}, "f64[8 | 16, 32]");
    check_printed(&(TensorType){F32, true, {1, {8}}}, "f32[8 |]");
    Text text = {0};
    shape_print(&text, &(Shape){3, {1, 2, 3}});
    cr_assert_str_eq(text.at, "[1, 2, 3]");
    text_finish(&text);
}

Test(type, greatest_common_divisor) {
    cr_assert_eq(gcd64(12, 18), 6);
    cr_assert_eq(gcd64(7, 5), 1);
    cr_assert_eq(gcd64(0, 9), 9);
    cr_assert_eq(gcd64(9, 0), 9);
    cr_assert_eq(gcd64(-12, 18), 6);
}
