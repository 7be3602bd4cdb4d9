/* random: generators that give the same numbers everywhere. */
#include <string.h>
#ifdef PRUN_VECTORS
#include <immintrin.h>
#endif

#include "ir/map.h"
#include "runtime/data/data.h"
#include "runtime/data/normal.h"
#include "runtime/data/sampler.h"

/* ---------------------------------------------------------------- MT19937 (Matsumoto and Nishimura 1998, init_genrand) */

enum { MT_WORDS = 624, MT_SHIFT = 397 };

void mt19937_seed(Mt19937 *mt, uint32_t seed) {
    mt->word[0] = seed;
    for (uint32_t i = 1; i < MT_WORDS; i++)
        mt->word[i] = 1812433253u * (mt->word[i - 1] ^ mt->word[i - 1] >> 30) + i;
    mt->next = MT_WORDS;
}

static void mt19937_refill(Mt19937 *mt) {
    for (int i = 0; i < MT_WORDS; i++) {
        uint32_t y = (mt->word[i] & 0x80000000u) | (mt->word[(i + 1) % MT_WORDS] & 0x7fffffffu);
        mt->word[i] = mt->word[(i + MT_SHIFT) % MT_WORDS] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    mt->next = 0;
}

uint32_t mt19937_word(Mt19937 *mt) {
    if (mt->next == MT_WORDS) mt19937_refill(mt);
    uint32_t y = mt->word[mt->next++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

double mt19937_double(Mt19937 *mt) {
    uint32_t a = mt19937_word(mt) >> 5, b = mt19937_word(mt) >> 6;
    return (a * 67108864.0 + b) / 9007199254740992.0;
}

/* ---------------------------------------------------------------- Philox */

static void philox(uint64_t counter, uint64_t key, uint64_t out[2]) {
    uint32_t x[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0}, k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)x[0] * 0xD2511F53u, b = (uint64_t)x[2] * 0xCD9E8D57u;
        uint32_t next[4] = {(uint32_t)(b >> 32) ^ x[1] ^ k[0], (uint32_t)b, (uint32_t)(a >> 32) ^ x[3] ^ k[1], (uint32_t)a};
        memcpy(x, next, sizeof x);
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    out[0] = (uint64_t)x[1] << 32 | x[0];
    out[1] = (uint64_t)x[3] << 32 | x[2];
}

uint64_t random_key(uint64_t seed, const char *name) {
    return hash_bytes(name, strlen(name)) ^ (seed + 0x9E3779B97F4A7C15u) * 0xBF58476D1CE4E5B9u;
}

static double unit(uint64_t word) {
    return (double)(word >> 11) * 0x1p-53;
}

void random_uniform_pair(uint64_t key, uint64_t pair, double low, double high, double out[2]) {
    uint64_t word[2];
    philox(pair, key, word);
    out[0] = low + (high - low) * unit(word[0]);
    out[1] = low + (high - low) * unit(word[1]);
}

/* ---------------------------------------------------------------- many numbers */

enum { LANES = 16 }; /* Philox blocks that are computed together */
typedef void UniformLanes(uint64_t key, uint64_t first, double out[2 * LANES]);

static void uniform_base(uint64_t key, uint64_t first, double out[2 * LANES]) {
    for (int l = 0; l < LANES; l++)
        random_uniform_pair(key, first + (uint64_t)l, 0, 1, out + 2 * l);
}

#ifdef PRUN_VECTORS
#define AVX2 __attribute__((target("avx2")))

/* unit() of four words: their halves become the last digits of 2^84 and 2^52, since AVX2 cannot convert 64-bit integers. */
AVX2 static inline __m256d unit_avx2(__m256i word) {
    const __m256i high = _mm256_or_si256(_mm256_srli_epi64(word, 43), _mm256_set1_epi64x(0x4530000000000000));
    const __m256i low = _mm256_blend_epi32(_mm256_srli_epi64(word, 11), _mm256_set1_epi64x(0x4330000000000000), 0xaa);
    const __m256d sum = _mm256_add_pd(_mm256_sub_pd(_mm256_castsi256_pd(high), _mm256_set1_pd(0x1p84)),
                                      _mm256_sub_pd(_mm256_castsi256_pd(low), _mm256_set1_pd(0x1p52)));
    return _mm256_mul_pd(sum, _mm256_set1_pd(0x1p-53));
}

/* philox() of four blocks a vector: each 64-bit lane holds a 32-bit word, and above it bits that nothing reads. */
AVX2 static void uniform_avx2(uint64_t key, uint64_t first, double out[2 * LANES]) {
    enum { VECTORS = LANES / 4 };
    const __m256i a = _mm256_set1_epi64x(0xD2511F53), b = _mm256_set1_epi64x(0xCD9E8D57);
    __m256i x[VECTORS][4];
    for (int v = 0; v < VECTORS; v++) {
        x[v][0] = _mm256_add_epi64(_mm256_set1_epi64x((int64_t)first + 4 * v), _mm256_set_epi64x(3, 2, 1, 0));
        x[v][1] = _mm256_srli_epi64(x[v][0], 32);
        x[v][2] = x[v][3] = _mm256_setzero_si256();
    }
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        const __m256i key0 = _mm256_set1_epi64x(k0), key1 = _mm256_set1_epi64x(k1);
        for (int v = 0; v < VECTORS; v++) {
            const __m256i p = _mm256_mul_epu32(x[v][0], a), q = _mm256_mul_epu32(x[v][2], b);
            x[v][0] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(q, 32), x[v][1]), key0);
            x[v][1] = q;
            x[v][2] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p, 32), x[v][3]), key1);
            x[v][3] = p;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int v = 0; v < VECTORS; v++) {
        const __m256d even = unit_avx2(_mm256_blend_epi32(x[v][0], _mm256_slli_epi64(x[v][1], 32), 0xaa));
        const __m256d odd = unit_avx2(_mm256_blend_epi32(x[v][2], _mm256_slli_epi64(x[v][3], 32), 0xaa));
        const __m256d begin = _mm256_unpacklo_pd(even, odd), end = _mm256_unpackhi_pd(even, odd);
        _mm256_storeu_pd(out + 8 * v, _mm256_permute2f128_pd(begin, end, 0x20));
        _mm256_storeu_pd(out + 8 * v + 4, _mm256_permute2f128_pd(begin, end, 0x31));
    }
}
#endif

/* Transforms a block of uniform numbers into the wanted distribution. */
typedef void OfUniform(const double *uniform, int pairs, double *out);

static void numbers(uint64_t key, uint64_t first, int64_t n, OfUniform *of, double *out) {
    UniformLanes *lanes = uniform_base;
#ifdef PRUN_VECTORS
    if (__builtin_cpu_supports("avx2")) lanes = uniform_avx2;
#endif
    double block[2 * LANES];
    while (n > 0) {
        const int skipped = (int)(first % 2);
        const int64_t more = n < 2 * LANES - skipped ? n : 2 * LANES - skipped;
        lanes(key, first / 2, block);
        if (of) of(block, LANES, block);
        memcpy(out, block + skipped, (size_t)more * sizeof *out);
        out += more;
        first += (uint64_t)more;
        n -= more;
    }
}

void random_uniforms(uint64_t key, uint64_t first, int64_t n, double *out) {
    numbers(key, first, n, NULL, out);
}

void random_normals(uint64_t key, uint64_t first, int64_t n, double *out) {
    numbers(key, first, n, normal_of_uniform, out);
}
