/* cuda_runtime: CUDA C++ as far as kernels.cu goes, for an ordinary C++17 compiler. In C it is cuda_runtime_api.h. A kernel is an ordinary function, called once for
   every thread; LAUNCH queues it with copies of its arguments. What lets threads wait for each other is in
   block.cpp. */
#ifndef STANDIN_CUDA_RUNTIME_H
#define STANDIN_CUDA_RUNTIME_H

#include "cuda_runtime_api.h"

#ifdef __cplusplus

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <cmath>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#define __global__
#define __grid_constant__
#define __device__
#define __host__
#define __constant__ static
#define __shared__ static /* blocks run one after another: one copy serves them all, holding what the block before left there */
#ifndef __forceinline__
#define __forceinline__ inline
#endif
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
static constexpr int warpSize = 32;

/* Queues a kernel: refused launches show in cudaGetLastError, as CUDA's do. */
void standin_launch(const char *name, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream, std::function<void()> kernel);
enum StandinWait { STANDIN_BLOCK, STANDIN_BLOCK_COUNT, STANDIN_BLOCK_AND, STANDIN_BLOCK_OR, STANDIN_WARP, STANDIN_SHUFFLE, STANDIN_BALLOT };
/* Waits until all threads of the block, or of the warp in mask, have come. source: the lane whose value is wanted; the result is that value, or the vote's. */
uint64_t standin_wait(StandinWait wait, unsigned mask, uint64_t value, int source);
[[noreturn]] void standin_trap(const char *why);
int standin_lane(void);
void standin_shuffle_width(int width);

template <class... Parameters, class... Arguments>
void standin_launch_kernel(const char *name, void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream, Arguments &&...arguments) {
    std::tuple<std::remove_const_t<Parameters>...> copies(std::forward<Arguments>(arguments)...);
    static_assert(sizeof copies <= 4096, "CUDA takes at most 4096 bytes of kernel arguments");
    standin_launch(name, grid, block, shared_bytes, stream, [kernel, copies] { std::apply(kernel, copies); });
}
#define LAUNCH(kernel, grid, block, shared_bytes, stream, ...) standin_launch_kernel(#kernel, kernel, grid, block, shared_bytes, stream, __VA_ARGS__)

/* Barriers, votes and shuffles. */
inline void __syncthreads() { standin_wait(STANDIN_BLOCK, 0, 0, 0); }
inline int __syncthreads_count(int predicate) { return (int)standin_wait(STANDIN_BLOCK_COUNT, 0, predicate != 0, 0); }
inline int __syncthreads_and(int predicate) { return (int)standin_wait(STANDIN_BLOCK_AND, 0, predicate != 0, 0); }
inline int __syncthreads_or(int predicate) { return (int)standin_wait(STANDIN_BLOCK_OR, 0, predicate != 0, 0); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { standin_wait(STANDIN_WARP, mask, 0, 0); }
inline unsigned __ballot_sync(unsigned mask, int predicate) { return (unsigned)standin_wait(STANDIN_BALLOT, mask, predicate != 0, 0); }
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }

template <class T> T standin_shuffle(unsigned mask, T value, int source) {
    static_assert(sizeof(T) <= sizeof(uint64_t), "shuffles move at most eight bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = standin_wait(STANDIN_SHUFFLE, mask, bits, source);
    memcpy(&value, &bits, sizeof value);
    return value;
}
template <class T> T __shfl_sync(unsigned mask, T value, int source, int width = warpSize) {
    standin_shuffle_width(width);
    return standin_shuffle(mask, value, (standin_lane() & ~(width - 1)) | (source & (width - 1)));
}
template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
    standin_shuffle_width(width);
    int lane = standin_lane(), source = lane - (int)delta;
    return standin_shuffle(mask, value, source < (lane & ~(width - 1)) ? lane : source);
}
template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
    standin_shuffle_width(width);
    int lane = standin_lane(), source = lane + (int)delta;
    return standin_shuffle(mask, value, source > (lane | (width - 1)) ? lane : source);
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = warpSize) {
    standin_shuffle_width(width);
    int lane = standin_lane(), source = lane ^ lane_mask;
    return standin_shuffle(mask, value, source > (lane | (width - 1)) ? lane : source);
}

/* Tensor cores: sum += a b, of fragments as PTX lays them out for mma.sync.aligned.m16n8k16 (f16, bf16) and m16n8k8 (tf32) .row.col.f32; by all lanes of a warp. */
enum StandinMma { STANDIN_MMA_F16, STANDIN_MMA_BF16, STANDIN_MMA_TF32 };
void standin_mma(StandinMma type, float *sum, const uint32_t *a, const uint32_t *b);
uint32_t standin_tf32(float x); /* cvt.rna.tf32.f32 */
/* ldmatrix.sync.aligned.m8n8.x4 [.trans] .b16: lane 8 i + r brings row r of matrix i, of 8 elements of 16 bits. */
void standin_matrices(bool transposed, uint32_t *to, const void *row);

/* Memory: one thread runs at a time, so that every access is atomic. */
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
template <class T> T __ldg(const T *p) { return *p; }
template <class T> T __ldcs(const T *p) { return *p; }
template <class T> T __ldcg(const T *p) { return *p; }
template <class T> void __stcs(T *p, T value) { *p = value; }
template <class T> void __stcg(T *p, T value) { *p = value; }
template <class T> T standin_exchange(T *p, T value) {
    T old = *p;
    *p = value;
    return old;
}
#define STANDIN_ATOMIC(T)                                                                     \
    inline T atomicAdd(T *p, T v) { return standin_exchange(p, (T)(*p + v)); }                \
    inline T atomicExch(T *p, T v) { return standin_exchange(p, v); }
#define STANDIN_ATOMIC_INT(T)                                                                 \
    STANDIN_ATOMIC(T)                                                                         \
    inline T atomicMax(T *p, T v) { return standin_exchange(p, *p > v ? *p : v); }            \
    inline T atomicMin(T *p, T v) { return standin_exchange(p, *p < v ? *p : v); }            \
    inline T atomicAnd(T *p, T v) { return standin_exchange(p, (T)(*p & v)); }                \
    inline T atomicOr(T *p, T v) { return standin_exchange(p, (T)(*p | v)); }                 \
    inline T atomicXor(T *p, T v) { return standin_exchange(p, (T)(*p ^ v)); }                \
    inline T atomicCAS(T *p, T expected, T v) { return standin_exchange(p, *p == expected ? v : *p); }
STANDIN_ATOMIC_INT(int)
STANDIN_ATOMIC_INT(unsigned int)
STANDIN_ATOMIC_INT(unsigned long long)
STANDIN_ATOMIC(float)
STANDIN_ATOMIC(double)
inline int atomicSub(int *p, int v) { return standin_exchange(p, *p - v); }
inline unsigned atomicSub(unsigned *p, unsigned v) { return standin_exchange(p, *p - v); }
inline unsigned atomicInc(unsigned *p, unsigned v) { return standin_exchange(p, *p >= v ? 0u : *p + 1u); }
inline unsigned atomicDec(unsigned *p, unsigned v) { return standin_exchange(p, *p == 0 || *p > v ? v : *p - 1u); }

/* Vectors. */
inline char4 make_char4(signed char x, signed char y, signed char z, signed char w) { return {x, y, z, w}; }
inline uchar4 make_uchar4(unsigned char x, unsigned char y, unsigned char z, unsigned char w) { return {x, y, z, w}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int3 make_int3(int x, int y, int z) { return {x, y, z}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline longlong2 make_longlong2(long long x, long long y) { return {x, y}; }
inline ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) { return {x, y}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }

/* Arithmetic. */
template <class To, class From> To standin_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "the same number of bits");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
inline int __float_as_int(float x) { return standin_bits<int>(x); }
inline unsigned __float_as_uint(float x) { return standin_bits<unsigned>(x); }
inline float __int_as_float(int x) { return standin_bits<float>(x); }
inline float __uint_as_float(unsigned x) { return standin_bits<float>(x); }
inline long long __double_as_longlong(double x) { return standin_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return standin_bits<double>(x); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline float normcdff(float x) { return 0.5f * erfcf(-x * 0.70710678118654752f); }
inline double normcdf(double x) { return 0.5 * erfc(-x * 0.70710678118654752); }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dsub_rn(double x, double y) { return x - y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline double __ddiv_rn(double x, double y) { return x / y; }
inline double __dsqrt_rn(double x) { return sqrt(x); }
inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)(((unsigned long long)x * y) >> 32); }
inline int __mulhi(int x, int y) { return (int)(((long long)x * y) >> 32); }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    __extension__ typedef unsigned __int128 Wide;
    return (unsigned long long)(((Wide)x * y) >> 64);
}
template <class A, class B> constexpr std::common_type_t<A, B> min(A a, B b) { return (std::common_type_t<A, B>)b < (std::common_type_t<A, B>)a ? b : a; }
template <class A, class B> constexpr std::common_type_t<A, B> max(A a, B b) { return (std::common_type_t<A, B>)a < (std::common_type_t<A, B>)b ? b : a; }
#define __trap() standin_trap("__trap()")

template <class T> cudaError_t cudaMalloc(T **pointer, size_t bytes) { return cudaMalloc((void **)pointer, bytes); }
template <class T> cudaError_t cudaMallocHost(T **pointer, size_t bytes) { return cudaMallocHost((void **)pointer, bytes); }
template <class... P> cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void (*kernel)(P...), int block, size_t shared_bytes) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, (const void *)kernel, block, shared_bytes);
}

#endif

#endif
