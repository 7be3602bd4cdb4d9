/* vector_types: CUDA's small vectors, as structs with the alignment that their loads need. */
#ifndef STANDIN_VECTOR_TYPES_H
#define STANDIN_VECTOR_TYPES_H

#define STANDIN_ALIGNED(n) __attribute__((aligned(n)))

typedef struct STANDIN_ALIGNED(2) char2 { signed char x, y; } char2;
typedef struct STANDIN_ALIGNED(4) char4 { signed char x, y, z, w; } char4;
typedef struct STANDIN_ALIGNED(2) uchar2 { unsigned char x, y; } uchar2;
typedef struct STANDIN_ALIGNED(4) uchar4 { unsigned char x, y, z, w; } uchar4;
typedef struct STANDIN_ALIGNED(8) int2 { int x, y; } int2;
typedef struct int3 { int x, y, z; } int3;
typedef struct STANDIN_ALIGNED(16) int4 { int x, y, z, w; } int4;
typedef struct STANDIN_ALIGNED(8) uint2 { unsigned int x, y; } uint2;
typedef struct uint3 { unsigned int x, y, z; } uint3;
typedef struct STANDIN_ALIGNED(16) uint4 { unsigned int x, y, z, w; } uint4;
typedef struct STANDIN_ALIGNED(16) longlong2 { long long x, y; } longlong2;
typedef struct STANDIN_ALIGNED(16) ulonglong2 { unsigned long long x, y; } ulonglong2;
typedef struct STANDIN_ALIGNED(8) float2 { float x, y; } float2;
typedef struct float3 { float x, y, z; } float3;
typedef struct STANDIN_ALIGNED(16) float4 { float x, y, z, w; } float4;
typedef struct STANDIN_ALIGNED(16) double2 { double x, y; } double2;

typedef struct dim3 {
    unsigned int x, y, z;
#ifdef __cplusplus
    constexpr dim3(unsigned int vx = 1, unsigned int vy = 1, unsigned int vz = 1) : x(vx), y(vy), z(vz) {}
#endif
} dim3;

#endif
