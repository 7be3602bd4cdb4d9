/* normal: normally distributed numbers from uniform ones (Box and Muller 1958), in vectors of four. Every processor gets the same bits: IEEE 754 defines how additions, products,
 * divisions and square roots of doubles are rounded, and their order is fixed. Logarithm, sine and cosine are fdlibm's (Sun Microsystems 1993): within 1 ulp. */
#include <math.h>
#include <string.h>

#include "runtime/data/data.h"
#include "runtime/data/normal.h"

enum { WIDTH = 4 };
typedef double Four __attribute__((vector_size(WIDTH * sizeof(double))));
typedef uint64_t Bits __attribute__((vector_size(WIDTH * sizeof(uint64_t))));

#define ALL(x) ((Four){(x), (x), (x), (x)})
#define ALL_BITS(x) ((Bits){(x), (x), (x), (x)})
static const double magic = 0x1.8p52; /* x + magic - magic rounds x, and the last bits of the sum are its integer */

/* log(x) for x in (0, 1]: x = 2^k (1 + f) with 1 + f from sqrt(1/2) to sqrt(2). */
#define LOG(result, x)                                                                                                                     \
    do {                                                                                                                                   \
        const Bits ix_ = (Bits)(x) + (0x3ff0000000000000u - 0x3fe6a09e00000000u);                                                          \
        const Four k_ = (Four)((ix_ >> 52) | 0x4330000000000000u) - (0x1p52 + 1023);                                                       \
        const Four f_ = (Four)((ix_ & 0x000fffffffffffffu) + 0x3fe6a09e00000000u) - 1;                                                     \
        const Four s_ = f_ / (2 + f_), z_ = s_ * s_, w_ = z_ * z_, half_ = 0.5 * f_ * f_;                                                  \
        const Four even_ = w_ * (3.999999999940941908e-01 + w_ * (2.222219843214978396e-01 + w_ * 1.531383769920937332e-01));              \
        const Four odd_ = z_ * (6.666666666666735130e-01 +                                                                                 \
                                w_ * (2.857142874366239149e-01 + w_ * (1.818357216161805012e-01 + w_ * 1.479819860511658591e-01)));        \
        (result) = k_ * 6.93147180369123816490e-01 - ((half_ - (s_ * (half_ + (odd_ + even_)) + k_ * 1.90821492927058770002e-10)) - f_);   \
    } while (0)

/* Sine and cosine of 2 pi u for u in [0, 1]: by the nearest quarter turn, and the rest, up to an eighth. */
#define TURN(sine, cosine, u)                                                                                                              \
    do {                                                                                                                                   \
        const Four sum_ = 4 * (u) + magic, y_ = (4 * (u) - (sum_ - magic)) * 1.57079632679489661923, z_ = y_ * y_;                         \
        const Four tail_ =                                                                                                                 \
            8.33333333332248946124e-03 +                                                                                                   \
            z_ * (-1.98412698298579493134e-04 +                                                                                            \
                  z_ * (2.75573137070700676789e-06 + z_ * (-2.50507602534068634195e-08 + z_ * 1.58969099521155010221e-10)));               \
        const Four s_ = y_ + z_ * y_ * (-1.66666666666666324348e-01 + z_ * tail_);                                                         \
        const Four rest_ =                                                                                                                 \
            z_ * (4.16666666666666019037e-02 +                                                                                             \
                  z_ * (-1.38888888888741095749e-03 +                                                                                      \
                        z_ * (2.48015872894767294178e-05 + z_ * (-2.75573143513906633035e-07 +                                             \
                                                                 z_ * (2.08757232129817482790e-09 + z_ * -1.13596475577881948265e-11))))); \
        const Four half_ = 0.5 * z_, w_ = 1 - half_, c_ = w_ + (((1 - w_) - half_) + z_ * rest_);                                          \
        const Bits quarter_ = (Bits)sum_, swapped_ = -(quarter_ & 1), s_bits_ = (Bits)s_, c_bits_ = (Bits)c_;                              \
        (sine) = (Four)(((c_bits_ & swapped_) | (s_bits_ & ~swapped_)) ^ (quarter_ & 2) << 62);                                            \
        (cosine) = (Four)(((s_bits_ & swapped_) | (c_bits_ & ~swapped_)) ^ ((quarter_ + 1) & 2) << 62);                                    \
    } while (0)

static inline __attribute__((always_inline)) void normals(const double *uniform, int pairs, double *out) {
    for (int p = 0; p < pairs; p += WIDTH, uniform += 2 * WIDTH, out += 2 * WIDTH) {
        Four distance, turn, log_of, radius, sine, cosine;
        for (int l = 0; l < WIDTH; l++) {
            distance[l] = 1 - uniform[2 * l];
            turn[l] = uniform[2 * l + 1];
        }
        LOG(log_of, distance);
        for (int l = 0; l < WIDTH; l++)
            radius[l] = __builtin_sqrt(-2 * log_of[l]);
        TURN(sine, cosine, turn);
        cosine *= radius;
        sine *= radius;
        for (int l = 0; l < WIDTH; l++) {
            out[2 * l] = cosine[l];
            out[2 * l + 1] = sine[l];
        }
    }
}

static void normals_base(const double *uniform, int pairs, double *out) {
    normals(uniform, pairs, out);
}

#ifdef PRUN_VECTORS
__attribute__((target("avx2"))) static void normals_avx2(const double *uniform, int pairs, double *out) {
    normals(uniform, pairs, out);
}
#endif

void normal_of_uniform(const double *uniform, int pairs, double *out) {
#ifdef PRUN_VECTORS
    if (__builtin_cpu_supports("avx2")) {
        normals_avx2(uniform, pairs, out);
        return;
    }
#endif
    normals_base(uniform, pairs, out);
}
