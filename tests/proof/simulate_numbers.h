/* Numbers of the simulation, modulo 2^31 - 1: poison stays poison. */
#pragma once
#include "tests/proof/simulate.h"

static inline uint32_t plus(uint32_t a, uint32_t b) {
    if (a == SIM_POISON || b == SIM_POISON) return SIM_POISON;
    return (uint32_t)(((uint64_t)a + b) % SIM_PRIME);
}

static inline uint32_t negative(uint32_t a) {
    return a == SIM_POISON ? SIM_POISON : (SIM_PRIME - a) % SIM_PRIME;
}

static inline uint32_t times(uint32_t a, uint32_t b) {
    if (a == SIM_POISON || b == SIM_POISON) return SIM_POISON;
    return (uint32_t)((uint64_t)a * b % SIM_PRIME);
}

static inline uint32_t power(uint32_t a, uint64_t exponent) {
    uint32_t result = 1;
    for (; exponent; exponent >>= 1, a = times(a, a))
        if (exponent & 1) result = times(result, a);
    return result;
}

static inline uint32_t inverse(uint32_t a) { /* of 0: 0 */
    return a == SIM_POISON ? SIM_POISON : power(a, SIM_PRIME - 2);
}

static inline uint32_t integer(int64_t number) {
    int64_t rest = number % (int64_t)SIM_PRIME;
    return (uint32_t)(rest < 0 ? rest + (int64_t)SIM_PRIME : rest);
}

static inline uint32_t any_function(uint64_t key, uint32_t a) {
    return a == SIM_POISON ? SIM_POISON : (uint32_t)(simulate_mix(a ^ simulate_mix(key) << 32) % SIM_PRIME);
}

static inline bool fault(char *why, size_t n, const char *text) {
    snprintf(why, n, "%s", text);
    return false;
}

static inline bool is_whole(const SimTensor *tensor, int dim) {
    return tensor->local.dim[dim] == tensor->global.dim[dim];
}
