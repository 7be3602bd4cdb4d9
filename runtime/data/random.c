/* random: generators that give the same numbers everywhere. */
#include <math.h>
#include <string.h>

#include "ir/map.h"
#include "runtime/data/data.h"
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

void random_normal_pair(uint64_t key, uint64_t pair, double std, double out[2]) {
    uint64_t word[2];
    philox(pair, key, word);
    double radius = std * sqrt(-2 * log(1 - unit(word[0]))), angle = 6.283185307179586 * unit(word[1]);
    out[0] = radius * cos(angle);
    out[1] = radius * sin(angle);
}

void random_uniform_pair(uint64_t key, uint64_t pair, double low, double high, double out[2]) {
    uint64_t word[2];
    philox(pair, key, word);
    out[0] = low + (high - low) * unit(word[0]);
    out[1] = low + (high - low) * unit(word[1]);
}
