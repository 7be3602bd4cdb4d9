/* print: see print.h. */
#include "runtime/print.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool reads_back(const char *text, double number, bool single) {
    return single ? strtof(text, NULL) == (float)number : strtod(text, NULL) == number;
}

/* The shortest decimal digits (no point) that read back as number, and the exponent of ten of the first. single: as an f32. A decimal of up to DBL_DIG digits survives
 * conversion to a double and back, so the first try finds all shorter ones, with zeros at the end; subnormal numbers have fewer digits. */
static int shortest_digits(double number, bool single, char digits[32], int *exponent) {
    char text[NUMBER_MAX];
    const int sure = number < (single ? (double)FLT_MIN : DBL_MIN) ? 1 : single ? FLT_DIG : DBL_DIG;
    for (int precision = sure - 1; precision < 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, number);
        if (precision == 16 || reads_back(text, number, single)) break;
    }
    char *e = strchr(text, 'e');
    *exponent = atoi(e + 1);
    int n = 0;
    for (const char *at = text; at < e; at++)
        if (*at != '.') digits[n++] = *at;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    digits[n] = '\0';
    return n;
}

static void print_number(char text[NUMBER_MAX], double number, bool single) {
    if (!isfinite(number)) {
        snprintf(text, NUMBER_MAX, "%s", isnan(number) ? "nan" : number < 0 ? "-inf" : "inf");
        return;
    }
    char digits[32];
    const char *sign = signbit(number) ? "-" : "";
    int exponent, n = shortest_digits(fabs(number), single, digits, &exponent);
    if (exponent < -4 || exponent >= 16)
        snprintf(text, NUMBER_MAX, "%s%c%s%se%c%02d", sign, digits[0], n > 1 ? "." : "", digits + 1, exponent < 0 ? '-' : '+',
                 abs(exponent));
    else if (exponent < 0)
        snprintf(text, NUMBER_MAX, "%s0.%.*s%s", sign, -exponent - 1, "000", digits);
    else if (n <= exponent + 1)
        snprintf(text, NUMBER_MAX, "%s%s%.*s.0", sign, digits, exponent + 1 - n, "000000000000000");
    else
        snprintf(text, NUMBER_MAX, "%s%.*s.%s", sign, exponent + 1, digits, digits + exponent + 1);
}

void number_print(char text[NUMBER_MAX], double number) {
    print_number(text, number, false);
}

enum { MANY_ELEMENTS = 1000, EDGE = 3 };

static void print_element(Text *text, DType dtype, bool full, double element) {
    char number[NUMBER_MAX];
    if (full && dtype_is_float(dtype)) {
        print_number(number, element, dtype == F32);
        text_printf(text, "%s", number);
    } else {
        text_printf(text, dtype_is_float(dtype) ? "%.4f" : "%.0f", element);
    }
}

static void print_dimension(Text *text, const Shape *shape, int d, bool many, bool full, DType dtype, const double *data) {
    if (d == shape->ndim) {
        print_element(text, dtype, full, *data);
        return;
    }
    int64_t size = shape->dim[d], each = 1;
    for (int k = d + 1; k < shape->ndim; k++)
        each *= shape->dim[k];
    text_append(text, "[", 1);
    for (int64_t i = 0; i < size; i++) {
        if (i > 0) text_append(text, ", ", 2);
        if (many && size > 2 * EDGE && i == EDGE) {
            text_append(text, "..., ", 5);
            i = size - EDGE;
        }
        print_dimension(text, shape, d + 1, many, full, dtype, data + i * each);
    }
    text_append(text, "]", 1);
}

void tensor_print(Text *text, const Shape *shape, DType dtype, const double *data, bool full) {
    print_dimension(text, shape, 0, !full && shape_elements(shape) > MANY_ELEMENTS, full, dtype, data);
}
