/* Random numbers and layouts for property tests: the same on every machine. */
#pragma once
#include "ir/layout.h"
#include "tests/random.h"

static inline int random_below(uint64_t *seed, int n) {
    return (int)(random_next(seed) % (uint64_t)n);
}

/* A mixed radix of nranks in random order, major first; digits may be products of primes. Returns their number. */
static inline int random_mesh(uint64_t *seed, int nranks, Digit *digits) {
    int32_t sizes[32];
    int n = 0;
    for (int rest = nranks; rest > 1;) {
        int size = 2 + random_below(seed, rest - 1);
        while (rest % size != 0)
            size--;
        if (size == 1) size = rest;
        sizes[n++] = size;
        rest /= size;
    }
    mesh_digits(sizes, n, 1, digits);
    return n;
}

/* Puts each digit, in random order, into a random one of the first nlists lists, or with chance 1 of 3 into none. */
static inline void random_assign(uint64_t *seed, Digit *digits, int n, Layout *layout, int nlists) {
    for (int i = n - 1; i > 0; i--) {
        int j = random_below(seed, i + 1);
        Digit swap = digits[i];
        digits[i] = digits[j];
        digits[j] = swap;
    }
    for (int i = 0; i < n; i++)
        if (nlists > 0 && random_below(seed, 3)) layout_append(layout, random_below(seed, nlists), digits[i]);
}
