/* half: the element types of 16 bits as kernels see them: stored in 16 bits, computed with as float, rounded to nearest when they are stored, ties to even, as
 * ir/half.h has it. Number<T>: what elements of type T are computed with. */
#pragma once

#ifdef __CUDACC__
__device__ __forceinline__ float half_number(uint16_t bits) {
    float number;
    asm("cvt.f32.f16 %0, %1;" : "=f"(number) : "h"(bits));
    return number;
}
__device__ __forceinline__ uint16_t half_bits(float number) {
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(number));
    return bits;
}
__device__ __forceinline__ float brain_number(uint16_t bits) { return __uint_as_float((unsigned)bits << 16); }
__device__ __forceinline__ uint16_t brain_bits(float number) {
    uint16_t bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(number));
    return bits;
}
#else
#include "ir/half.h"
static inline float half_number(uint16_t bits) { return f16_to_f32(bits); }
static inline uint16_t half_bits(float number) { return f16_of_f32(number); }
static inline float brain_number(uint16_t bits) { return bf16_to_f32(bits); }
static inline uint16_t brain_bits(float number) { return bf16_of_f32(number); }
#endif

struct Float16 {
    uint16_t bits;
    Float16() = default;
    __device__ __forceinline__ explicit Float16(float number) : bits(half_bits(number)) {}
    __device__ __forceinline__ explicit Float16(double number) : bits(half_bits((float)number)) {}
    __device__ __forceinline__ operator float() const { return half_number(bits); }
};
struct BFloat16 {
    uint16_t bits;
    BFloat16() = default;
    __device__ __forceinline__ explicit BFloat16(float number) : bits(brain_bits(number)) {}
    __device__ __forceinline__ explicit BFloat16(double number) : bits(brain_bits((float)number)) {}
    __device__ __forceinline__ operator float() const { return brain_number(bits); }
};

template <class T> struct NumberOf {
    typedef T type;
};
template <> struct NumberOf<Float16> {
    typedef float type;
};
template <> struct NumberOf<BFloat16> {
    typedef float type;
};
template <class T> using Number = typename NumberOf<T>::type;

/* Calls a function template with the element type that a dtype of reals names. */
#define WITH_REAL(dtype, T, ...)                                                                                                           \
    switch (dtype) {                                                                                                                       \
    case KERNEL_F64: {                                                                                                                     \
        typedef double T;                                                                                                                  \
        __VA_ARGS__;                                                                                                                       \
    } break;                                                                                                                               \
    case KERNEL_F16: {                                                                                                                     \
        typedef Float16 T;                                                                                                                 \
        __VA_ARGS__;                                                                                                                       \
    } break;                                                                                                                               \
    case KERNEL_BF16: {                                                                                                                    \
        typedef BFloat16 T;                                                                                                                \
        __VA_ARGS__;                                                                                                                       \
    } break;                                                                                                                               \
    default: {                                                                                                                             \
        typedef float T;                                                                                                                   \
        __VA_ARGS__;                                                                                                                       \
    } break;                                                                                                                               \
    }
