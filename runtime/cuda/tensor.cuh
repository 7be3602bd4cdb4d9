/* tensor: products of tiles in shared memory, of a warp, by its tensor cores or by arithmetic of f32. A warp has 16 rows of a result; of them a lane has rows lane / 4 and
 * lane / 4 + 8, and of each 8 columns beside each other the two from 2 (lane % 4) on: number [i][2 h + b] is that of row lane / 4 + 8 h and column 8 i + 2 (lane % 4) + b.
 * So do the instructions lay it out (PTX ISA, matrix fragments for mma.m16n8k16 and mma.m16n8k8).
 *
 * A way to multiply has
 *     Element, element(x)   what tiles hold, made of a tensor's element
 *     PAD, STEP             elements by which rows of a tile are longer than its width, so that lanes read different banks; terms that are added up at once
 *     UNIT, power(x)        power(UNIT x) is exp(x)
 *     Rows<STRIDE, W, KEPT> the warp's 16 rows of a tile of W columns; load(own); KEPT: in registers, so that the tile is free then
 *     scores(sum, rows, other, width)        sum += rows other^T: other 8 N rows, of `width` elements, zeros from there to W
 *     product(sum, weight, other, width)     sum += weight other: weight laid out as a result, other a row for each of its columns */
#pragma once

#ifdef __CUDACC__
__device__ __forceinline__ void mma_halves(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], Float16) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void mma_halves(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], BFloat16) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void mma_tf32(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ uint32_t tf32_of(float x) {
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}
/* Four matrices of 8 rows of 16 bytes in shared memory. Lane 8 i + r says where row r of matrix i begins; of each matrix a lane gets the 4 bytes at row lane / 4, 4 (lane % 4) bytes
 * from its beginning, or, transposed, of elements of 16 bits those of rows 2 (lane % 4) and the next, column lane / 4. */
template <bool TRANSPOSED> __device__ __forceinline__ void load_matrices(uint32_t (&to)[4], const void *row) {
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
    if constexpr (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at));
}
__device__ __forceinline__ float power_of_2(float x) { /* within 2 units in the last place; 0 below 2^-126 */
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}
#else
static inline void mma_halves(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], Float16) { standin_mma(STANDIN_MMA_F16, sum, a, b); }
static inline void mma_halves(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], BFloat16) { standin_mma(STANDIN_MMA_BF16, sum, a, b); }
static inline void mma_tf32(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) { standin_mma(STANDIN_MMA_TF32, sum, a, b); }
static inline uint32_t tf32_of(float x) { return standin_tf32(x); }
template <bool TRANSPOSED> static inline void load_matrices(uint32_t (&to)[4], const void *row) { standin_matrices(TRANSPOSED, to, row); }
static inline float power_of_2(float x) { return exp2f(x); }
#endif

#define LOG2_E 1.44269504f

__device__ __forceinline__ int tile_row() { return threadIdx.x % WARP / 4; }
__device__ __forceinline__ int tile_column() { return threadIdx.x % 4 * 2; }

/* Rows of a tile as fragments: those of matrix 2 i + h of four are rows 8 h and on, the second two 16 bytes further. */
template <class Element, int STRIDE, int W, int STEP, bool KEPT> struct FragmentRows {
    const Element *own; /* this lane's */
    uint32_t kept[KEPT ? W / STEP : 1][4];
    __device__ __forceinline__ void load(const Element *rows) {
        own = rows + threadIdx.x % 16 * STRIDE + threadIdx.x % WARP / 16 * (16 / sizeof(Element));
        if constexpr (KEPT) {
#pragma unroll
            for (int i = 0; i < W / STEP; i++)
                load_matrices<false>(kept[i], own + i * STEP);
        }
    }
    __device__ __forceinline__ void at(int i, uint32_t (&fragment)[4]) const {
        if constexpr (KEPT) {
#pragma unroll
            for (int r = 0; r < 4; r++)
                fragment[r] = kept[i][r];
        } else {
            load_matrices<false>(fragment, own + i * STEP);
        }
    }
};

/* sum += rows other^T by way P. Two times 8 rows of the other tile are read at once; where there are but 8 they are read twice. */
template <class P, int STRIDE, int W, int N, class Rows> __device__ __forceinline__ void fragment_scores(float (&sum)[N][4], const Rows &rows, const typename P::Element *other, int width) {
    const typename P::Element *y = other + (threadIdx.x % 8 + (N > 1 ? threadIdx.x % WARP / 16 * 8 : 0)) * STRIDE + threadIdx.x % 16 / 8 * (16 / sizeof(*other));
#pragma unroll
    for (int k = 0; k < W / P::STEP; k++) {
        if (k * P::STEP >= width) continue;
        uint32_t a[4], b[4];
        rows.at(k, a);
#pragma unroll
        for (int i = 0; i < N; i += 2) {
            load_matrices<false>(b, y + 8 * i * STRIDE + k * P::STEP);
            P::multiply(sum[i], a, {b[0], b[1]});
            if (i + 1 < N) P::multiply(sum[i + 1], a, {b[2], b[3]});
        }
    }
}

/* In f32, each product of a sum rounded with it (fma). */
template <class T> struct ByNumbers {
    typedef float Element;
    enum { PAD = 4, STEP = 4 };
    static constexpr bool KEPT = false;
    static constexpr float UNIT = 1;
    static __device__ __forceinline__ Element element(T x) { return (float)x; }
    static __device__ __forceinline__ float power(float x) { return expf(x); }
    template <int STRIDE, int W, bool> struct Rows {
        const float *own;
        __device__ __forceinline__ void load(const float *rows) { own = rows + tile_row() * STRIDE; }
    };

    template <int STRIDE, int W, int N, class R> static __device__ __forceinline__ void scores(float (&sum)[N][4], const R &rows, const float *other, int width) {
        const float *x = rows.own, *y = other + tile_column() * STRIDE;
#pragma unroll 1
        for (int k = 0; k < width; k += STEP) {
            const float4 x0 = *(const float4 *)(x + k), x1 = *(const float4 *)(x + 8 * STRIDE + k);
#pragma unroll
            for (int i = 0; i < N; i++)
#pragma unroll
                for (int b = 0; b < 2; b++) {
                    const float4 z = *(const float4 *)(y + (8 * i + b) * STRIDE + k);
                    sum[i][b] = fmaf(x0.w, z.w, fmaf(x0.z, z.z, fmaf(x0.y, z.y, fmaf(x0.x, z.x, sum[i][b]))));
                    sum[i][2 + b] = fmaf(x1.w, z.w, fmaf(x1.z, z.z, fmaf(x1.y, z.y, fmaf(x1.x, z.x, sum[i][2 + b]))));
                }
        }
    }

    /* A weight is one lane's; the other three of its rows get it from there. */
    template <int STRIDE, int N, int M> static __device__ __forceinline__ void product(float (&sum)[M][4], const float (&weight)[N][4], const float *other, int width) {
        const float *y = other + tile_column();
        const int first = threadIdx.x % WARP & ~3;
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
            for (int b = 0; b < 2; b++) {
                const uint64_t both = (uint64_t)__float_as_uint(weight[i][2 + b]) << 32 | __float_as_uint(weight[i][b]);
#pragma unroll
                for (int lane = 0; lane < 4; lane++) {
                    const uint64_t theirs = __shfl_sync(0xffffffffu, both, first + lane);
                    const float w0 = __uint_as_float((uint32_t)theirs), w1 = __uint_as_float((uint32_t)(theirs >> 32));
#pragma unroll
                    for (int c = 0; c < M; c++) {
                        if (8 * c >= width) continue;
                        const float2 z = *(const float2 *)(y + (8 * i + 2 * lane + b) * STRIDE + 8 * c);
                        sum[c][0] = fmaf(w0, z.x, sum[c][0]);
                        sum[c][1] = fmaf(w0, z.y, sum[c][1]);
                        sum[c][2] = fmaf(w1, z.x, sum[c][2]);
                        sum[c][3] = fmaf(w1, z.y, sum[c][3]);
                    }
                }
            }
    }
};

/* By tensor cores, f16 or bf16, added up in f32. Weights, which are numbers of f32, are taken as a sum of two of 16 bits: so nothing is rounded but results. */
template <class T> struct ByHalves {
    typedef T Element;
    enum { PAD = 8, STEP = 16 };
    static constexpr bool KEPT = false;
    static constexpr float UNIT = LOG2_E;
    static __device__ __forceinline__ Element element(T x) { return x; }
    static __device__ __forceinline__ float power(float x) { return power_of_2(x); }
    static __device__ __forceinline__ uint32_t pair(T low, T high) { return (uint32_t)high.bits << 16 | low.bits; }
    static __device__ __forceinline__ void multiply(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) { mma_halves(sum, a, b, T()); }
    template <int STRIDE, int W, bool KEPT> using Rows = FragmentRows<T, STRIDE, W, STEP, KEPT>;

    template <int STRIDE, int W, int N, class R> static __device__ __forceinline__ void scores(float (&sum)[N][4], const R &rows, const T *other, int width) {
        fragment_scores<ByHalves, STRIDE, W>(sum, rows, other, width);
    }

    template <int STRIDE, int N, int M> static __device__ __forceinline__ void product(float (&sum)[M][4], const float (&weight)[N][4], const T *other, int width) {
        static_assert(N % 2 == 0 && M % 2 == 0, "16 columns of weights at a time, and of the result");
        const T *y = other + threadIdx.x % 16 * STRIDE + threadIdx.x % WARP / 16 * 8;
#pragma unroll
        for (int i = 0; i < N; i += 2) {
            uint32_t high[4], low[4], b[4];
#pragma unroll
            for (int r = 0; r < 4; r++) {
                const float w0 = weight[i + r / 2][r % 2 * 2], w1 = weight[i + r / 2][r % 2 * 2 + 1];
                const T h0 = T(w0), h1 = T(w1);
                high[r] = pair(h0, h1);
                low[r] = pair(T(w0 - (float)h0), T(w1 - (float)h1));
            }
#pragma unroll
            for (int c = 0; c < M; c += 2) {
                if (8 * c >= width) continue;
                load_matrices<true>(b, y + 8 * i * STRIDE + 8 * c);
                multiply(sum[c], high, {b[0], b[1]});
                multiply(sum[c + 1], high, {b[2], b[3]});
                multiply(sum[c], low, {b[0], b[1]});
                multiply(sum[c + 1], low, {b[2], b[3]});
            }
        }
    }
};

/* By tensor cores, f32 rounded to tf32. */
struct ByTf32 {
    typedef uint32_t Element;
    enum { PAD = 4, STEP = 8 };
    static constexpr bool KEPT = true;
    static constexpr float UNIT = LOG2_E;
    static __device__ __forceinline__ Element element(float x) { return tf32_of(x); }
    static __device__ __forceinline__ float power(float x) { return power_of_2(x); }
    static __device__ __forceinline__ void multiply(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) { mma_tf32(sum, a, b); }
    template <int STRIDE, int W, bool KEPT> using Rows = FragmentRows<uint32_t, STRIDE, W, STEP, KEPT>;

    template <int STRIDE, int W, int N, class R> static __device__ __forceinline__ void scores(float (&sum)[N][4], const R &rows, const uint32_t *other, int width) {
        fragment_scores<ByTf32, STRIDE, W>(sum, rows, other, width);
    }

    /* In which order 8 columns of weights are added up is no matter: a lane's two are taken for those that the instruction wants of it, its number and 4 more. */
    template <int STRIDE, int N, int M> static __device__ __forceinline__ void product(float (&sum)[M][4], const float (&weight)[N][4], const uint32_t *other, int width) {
        const uint32_t *y = other + tile_column() * STRIDE + tile_row();
#pragma unroll
        for (int i = 0; i < N; i++) {
            const uint32_t a[4] = {tf32_of(weight[i][0]), tf32_of(weight[i][2]), tf32_of(weight[i][1]), tf32_of(weight[i][3])};
#pragma unroll
            for (int c = 0; c < M; c++) {
                if (8 * c >= width) continue;
                mma_tf32(sum[c], a, {y[8 * i * STRIDE + 8 * c], y[(8 * i + 1) * STRIDE + 8 * c]});
            }
        }
    }
};
