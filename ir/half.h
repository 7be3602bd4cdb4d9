/* half: the two 16-bit element types, IEEE 754 binary16 (f16) and the upper half of binary32 (bf16), as bits. Conversion to f32 is exact; from f32 it rounds to nearest, ties to
 * even; overflow gives infinity, and nan stays nan. Without branches, so that compilers can vectorize loops over them. */
#pragma once
#include <stdint.h>
#include <string.h>

static inline uint32_t float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
static inline float bits_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float bf16_to_f32(uint16_t half) {
    return bits_float((uint32_t)half << 16);
}
static inline uint16_t bf16_of_f32(float value) {
    const uint32_t bits = float_bits(value), rounded = bits + 0x7fff + (bits >> 16 & 1);
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? (bits >> 16 | 0x40) : rounded >> 16);
}

/* The exponent bias of f16 is 112 lower. Numbers below 2^-14 are subnormal: their bits are read as a number from 2^-14 on, and an f32 subtraction removes the excess. */
static inline float f16_to_f32(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, size = (uint32_t)(half & 0x7fff) << 13, exponent = size & 0x0f800000;
    const uint32_t normal = size + (112u << 23) + (exponent == 0x0f800000 ? 112u << 23 : 0);
    const float below = bits_float(size + (113u << 23)) - bits_float(113u << 23);
    return bits_float(sign | (exponent == 0 ? float_bits(below) : normal));
}
/* Numbers below 2^-14: adding them to 0.5 in f32 rounds them to multiples of f16's smallest number. */
static inline uint16_t f16_of_f32(float value) {
    const uint32_t bits = float_bits(value), size = bits & 0x7fffffff, sign = bits >> 16 & 0x8000;
    const uint32_t normal = (size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13;
    const uint32_t below = float_bits(bits_float(size < 0x38800000 ? size : 0) + 0.5f) - float_bits(0.5f);
    const uint32_t beyond = size > 0x7f800000 ? 0x7e00 : 0x7c00;
    return (uint16_t)(sign | (size >= 0x47800000 ? beyond : size < 0x38800000 ? below : normal));
}
