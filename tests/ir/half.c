#include "ir/half.h"
#include <criterion/criterion.h>
#include <math.h>

/* What the bits mean, from the definition of binary formats. */
static double value_of(unsigned bits, int fraction_bits, int bias) {
    const int exponent_bits = 15 - fraction_bits, most = (1 << exponent_bits) - 1;
    const int exponent = (int)(bits >> fraction_bits) & most, fraction = (int)(bits & ((1u << fraction_bits) - 1));
    const double size = exponent == most ? (fraction ? NAN : INFINITY)
                        : exponent == 0  ? ldexp(fraction, 1 - bias - fraction_bits)
                                         : ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
    return bits >> 15 ? -size : size;
}

typedef struct Format {
    const char *name;
    int fraction_bits, bias;
    float (*widen)(uint16_t half);
    uint16_t (*narrow)(float value);
} Format;
static const Format formats[] = {{"f16", 10, 15, f16_to_f32, f16_of_f32}, {"bf16", 7, 127, bf16_to_f32, bf16_of_f32}};

static bool same(double a, double b) {
    return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b);
}

Test(half, every_half_is_the_number_that_its_bits_mean_and_comes_back) {
    for (size_t f = 0; f < 2; f++)
        for (unsigned bits = 0; bits < 65536; bits++) {
            const double value = value_of(bits, formats[f].fraction_bits, formats[f].bias);
            const float wide = formats[f].widen((uint16_t)bits);
            cr_assert(same(wide, value), "%s %04x: %g, not %g", formats[f].name, bits, (double)wide, value);
            const uint16_t back = formats[f].narrow(wide);
            cr_assert(isnan(value) ? isnan(formats[f].widen(back)) : back == bits, "%s %04x: comes back as %04x", formats[f].name, bits,
                      back);
        }
}

/* Between neighbours, and half way: to the nearer, of a tie to the even one. */
Test(half, numbers_between_two_halves_round_to_the_nearer) {
    for (size_t f = 0; f < 2; f++) {
        const unsigned infinity = 0x7fffu >> formats[f].fraction_bits << formats[f].fraction_bits;
        for (unsigned low = 0; low < infinity; low++) {
            /* Beyond the largest number, its neighbour would be the next power of two. */
            const double below = value_of(low, formats[f].fraction_bits, formats[f].bias);
            const double step = low + 1 < infinity ? value_of(low + 1, formats[f].fraction_bits, formats[f].bias) - below
                                                   : below - value_of(low - 1, formats[f].fraction_bits, formats[f].bias);
            const float tie = (float)(below + step / 2), less = nextafterf(tie, 0), more = nextafterf(tie, INFINITY);
            const unsigned even = low % 2 ? low + 1 : low;
            for (int negative = 0; negative < 2; negative++) {
                const unsigned sign = negative ? 0x8000 : 0;
                const float by = negative ? -1 : 1;
                if (isinf(tie)) continue;
                cr_assert_eq(formats[f].narrow(by * tie), even | sign, "%s: tie above %04x", formats[f].name, low);
                if (less > (float)below)
                    cr_assert_eq(formats[f].narrow(by * less), low | sign, "%s: below the tie above %04x", formats[f].name, low);
                cr_assert_eq(formats[f].narrow(by * more), (low + 1) | sign, "%s: above the tie above %04x", formats[f].name, low);
            }
        }
        cr_assert_eq(formats[f].narrow(3e38f * 2), infinity);
        cr_assert(isnan(formats[f].widen(formats[f].narrow(NAN))));
    }
}
