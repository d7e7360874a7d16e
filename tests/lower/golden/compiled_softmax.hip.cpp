// stitch reduce_exponential_divide, short rows: n <= 32
#include <hip/hip_runtime.h>
#ifndef DYN_MAX
#define DYN_MAX
template <class T> static __device__ __forceinline__ T dyn_max(T a, T b) {  // NaN wins, and -0 is less than +0
    return a > b || a != a ? a : b > a || b != b ? b : signbit(a) ? b : a;
}
#endif
#ifndef DYN_IMIN
#define DYN_IMIN
static __device__ __forceinline__ long long dyn_imin(long long a, long long b) { return a < b ? a : b; }
#endif
// stitch reduce_exponential_divide, short rows
extern "C" __global__ void __launch_bounds__(256) softmax_0(
    const float* __restrict__ b0,
    float* __restrict__ b1,
    long long d0,
    long long d1,
    long long d2,
    long long d3) {
    alignas(16) extern __shared__ unsigned char dyn_shared[];
    float* const s0 = (float*)dyn_shared;
    for (long long t = blockIdx.x; t < d1; t += gridDim.x) {
        const long long g0 = t;
        const long long n0 = dyn_imin(32, -32 * g0 + d2);
        const int l0 = threadIdx.x % 8;
        for (long long t0 = 0; t0 < n0; t0 += 32) {
            const bool a0 = t0 + threadIdx.x / 8 < n0;
            const long long t1 = a0 ? t0 + threadIdx.x / 8 : n0 - 1;
            float r0 = (-__int_as_float(0x7f800000));
            #pragma unroll 16
            for (long long i0 = a0 ? l0 : d3; i0 < d3; i0 += 8) {
                const float v0 = b0[g0 * d0 + t1 * d3 + i0];
                r0 = dyn_max(r0, v0);
            }
            for (int m = 4; m > 0; m /= 2) {
                const float other_r0 = __shfl_xor(r0, m);
                r0 = dyn_max(r0, other_r0);
            }
            double r1 = 0.0;
            for (long long i1 = a0 ? l0 : d3; i1 < d3; i1 += 8) {
                const float v1 = b0[g0 * d0 + t1 * d3 + i1];
                const float v2 = v1 - r0;
                const float v3 = expf(v2);
                s0[t1 * d3 + i1] = v3;
                const double m0 = (double)v3;
                r1 = r1 + m0;
            }
            for (int m = 4; m > 0; m /= 2) {
                const double other_r1 = __shfl_xor(r1, m);
                r1 = r1 + other_r1;
            }
            for (long long i2 = a0 ? l0 : d3; i2 < d3; i2 += 8) {
                const float v4 = s0[t1 * d3 + i2];
                const float v5 = (float)r1;
                const float v6 = v4 / v5;
                b1[g0 * d0 + t1 * d3 + i2] = v6;
            }
        }
    }
}

// stitch reduce_exponential_divide, a warp a row: n <= 512
#include <hip/hip_runtime.h>
#ifndef DYN_PACK
#define DYN_PACK
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) dyn_pack { T v[N]; };
#endif
#ifndef DYN_READ
#define DYN_READ
template <class T, int N> static __device__ __forceinline__ void dyn_read(dyn_pack<T, N>& to, const T* from) {
    if ((unsigned long long)from % alignof(dyn_pack<T, N>) == 0) to = *(const dyn_pack<T, N>*)from;
    else
        for (int i = 0; i < N; ++i) to.v[i] = from[i];
}
#endif
#ifndef DYN_WRITE
#define DYN_WRITE
template <class T, int N> static __device__ __forceinline__ void dyn_write(T* to, const dyn_pack<T, N>& from) {
    if ((unsigned long long)to % alignof(dyn_pack<T, N>) == 0) *(dyn_pack<T, N>*)to = from;
    else
        for (int i = 0; i < N; ++i) to[i] = from.v[i];
}
#endif
#ifndef DYN_MAX
#define DYN_MAX
template <class T> static __device__ __forceinline__ T dyn_max(T a, T b) {  // NaN wins, and -0 is less than +0
    return a > b || a != a ? a : b > a || b != b ? b : signbit(a) ? b : a;
}
#endif
#ifndef DYN_IMIN
#define DYN_IMIN
static __device__ __forceinline__ long long dyn_imin(long long a, long long b) { return a < b ? a : b; }
#endif
// stitch reduce_exponential_divide, a warp a row
extern "C" __global__ void __launch_bounds__(256) softmax_1(
    const float* __restrict__ b0,
    float* __restrict__ b1,
    long long d0,
    long long d1,
    long long d2,
    long long d3,
    long long d4) {
    alignas(16) extern __shared__ unsigned char dyn_shared[];
    float* const s0 = (float*)dyn_shared;
    for (long long t = blockIdx.x; t < d1; t += gridDim.x) {
        const long long g0 = t;
        const long long n0 = dyn_imin(4, -4 * g0 + d2);
        const int l0 = threadIdx.x % 64;
        for (long long t0 = 0; t0 < n0; t0 += 4) {
            const bool a0 = t0 + threadIdx.x / 64 < n0;
            const long long t1 = a0 ? t0 + threadIdx.x / 64 : n0 - 1;
            float r0 = (-__int_as_float(0x7f800000));
            for (long long i0 = a0 ? l0 : d3; i0 < d3; i0 += 64) {
                float r1 = (-__int_as_float(0x7f800000));
                const long long n1 = dyn_imin(4, -4 * i0 + d4);
                if (n1 == 4) {
                    dyn_pack<float, 4> p0;
                    dyn_read(p0, b0 + (g0 * d0 + t1 * d4 + 4 * i0));
                    #pragma unroll
                    for (int u0 = 0; u0 < 4; ++u0) {
                        const float v0 = p0.v[u0];
                        r1 = dyn_max(r1, v0);
                    }
                }
                else {
                    #pragma unroll 1
                    for (long long j0 = 0; j0 < dyn_imin(4, -4 * i0 + d4); ++j0) {
                        const float v1 = b0[g0 * d0 + t1 * d4 + 4 * i0 + j0];
                        r1 = dyn_max(r1, v1);
                    }
                }
                r0 = dyn_max(r0, r1);
            }
            for (int m = 32; m > 0; m /= 2) {
                const float other_r0 = __shfl_xor(r0, m);
                r0 = dyn_max(r0, other_r0);
            }
            double r2 = 0.0;
            for (long long i1 = a0 ? l0 : d3; i1 < d3; i1 += 64) {
                float r3 = 0.0f;
                const long long n2 = dyn_imin(4, -4 * i1 + d4);
                if (n2 == 4) {
                    dyn_pack<float, 4> p1;
                    dyn_read(p1, b0 + (g0 * d0 + t1 * d4 + 4 * i1));
                    dyn_pack<float, 4> p2;
                    #pragma unroll
                    for (int u1 = 0; u1 < 4; ++u1) {
                        const float v2 = p1.v[u1];
                        const float v3 = v2 - r0;
                        const float v4 = expf(v3);
                        p2.v[u1] = v4;
                        r3 = r3 + v4;
                    }
                    dyn_write(s0 + (t1 * d4 + 4 * i1), p2);
                }
                else {
                    #pragma unroll 1
                    for (long long j1 = 0; j1 < dyn_imin(4, -4 * i1 + d4); ++j1) {
                        const float v5 = b0[g0 * d0 + t1 * d4 + 4 * i1 + j1];
                        const float v6 = v5 - r0;
                        const float v7 = expf(v6);
                        s0[t1 * d4 + 4 * i1 + j1] = v7;
                        r3 = r3 + v7;
                    }
                }
                const double m0 = (double)r3;
                r2 = r2 + m0;
            }
            for (int m = 32; m > 0; m /= 2) {
                const double other_r2 = __shfl_xor(r2, m);
                r2 = r2 + other_r2;
            }
            for (long long i2 = a0 ? l0 : d3; i2 < d3; i2 += 64) {
                const long long n3 = dyn_imin(4, -4 * i2 + d4);
                if (n3 == 4) {
                    dyn_pack<float, 4> p3;
                    dyn_read(p3, s0 + (t1 * d4 + 4 * i2));
                    dyn_pack<float, 4> p4;
                    #pragma unroll
                    for (int u2 = 0; u2 < 4; ++u2) {
                        const float v8 = p3.v[u2];
                        const float v9 = (float)r2;
                        const float v10 = v8 / v9;
                        p4.v[u2] = v10;
                    }
                    dyn_write(b1 + (g0 * d0 + t1 * d4 + 4 * i2), p4);
                }
                else {
                    #pragma unroll 1
                    for (long long j2 = 0; j2 < dyn_imin(4, -4 * i2 + d4); ++j2) {
                        const float v11 = s0[t1 * d4 + 4 * i2 + j2];
                        const float v12 = (float)r2;
                        const float v13 = v11 / v12;
                        b1[g0 * d0 + t1 * d4 + 4 * i2 + j2] = v13;
                    }
                }
            }
        }
    }
}

// stitch reduce_exponential_divide, rows in shared memory: n <= 12032
#include <hip/hip_runtime.h>
#ifndef DYN_PACK
#define DYN_PACK
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) dyn_pack { T v[N]; };
#endif
#ifndef DYN_READ
#define DYN_READ
template <class T, int N> static __device__ __forceinline__ void dyn_read(dyn_pack<T, N>& to, const T* from) {
    if ((unsigned long long)from % alignof(dyn_pack<T, N>) == 0) to = *(const dyn_pack<T, N>*)from;
    else
        for (int i = 0; i < N; ++i) to.v[i] = from[i];
}
#endif
#ifndef DYN_WRITE
#define DYN_WRITE
template <class T, int N> static __device__ __forceinline__ void dyn_write(T* to, const dyn_pack<T, N>& from) {
    if ((unsigned long long)to % alignof(dyn_pack<T, N>) == 0) *(dyn_pack<T, N>*)to = from;
    else
        for (int i = 0; i < N; ++i) to[i] = from.v[i];
}
#endif
#ifndef DYN_MAX
#define DYN_MAX
template <class T> static __device__ __forceinline__ T dyn_max(T a, T b) {  // NaN wins, and -0 is less than +0
    return a > b || a != a ? a : b > a || b != b ? b : signbit(a) ? b : a;
}
#endif
#ifndef DYN_IMIN
#define DYN_IMIN
static __device__ __forceinline__ long long dyn_imin(long long a, long long b) { return a < b ? a : b; }
#endif
// stitch reduce_exponential_divide, rows in shared memory
extern "C" __global__ void __launch_bounds__(256) softmax_2(
    const float* __restrict__ b0,
    float* __restrict__ b1,
    long long d0,
    long long d1,
    long long d2) {
    alignas(16) extern __shared__ unsigned char dyn_shared[];
    float* const f0 = (float*)dyn_shared;
    double* const f1 = (double*)(dyn_shared + 16);
    float* const s0 = (float*)(dyn_shared + 48);
    for (long long t = blockIdx.x; t < d1; t += gridDim.x) {
        const long long g0 = t;
        float r0 = (-__int_as_float(0x7f800000));
        for (long long i0 = threadIdx.x; i0 < d2; i0 += 256) {
            float r1 = (-__int_as_float(0x7f800000));
            const long long n0 = dyn_imin(4, -4 * i0 + d0);
            if (n0 == 4) {
                dyn_pack<float, 4> p0;
                dyn_read(p0, b0 + (g0 * d0 + 4 * i0));
                #pragma unroll
                for (int u0 = 0; u0 < 4; ++u0) {
                    const float v0 = p0.v[u0];
                    r1 = dyn_max(r1, v0);
                }
            }
            else {
                #pragma unroll 1
                for (long long j0 = 0; j0 < dyn_imin(4, -4 * i0 + d0); ++j0) {
                    const float v1 = b0[g0 * d0 + 4 * i0 + j0];
                    r1 = dyn_max(r1, v1);
                }
            }
            r0 = dyn_max(r0, r1);
        }
        for (int m = 32; m > 0; m /= 2) {
            const float other_r0 = __shfl_xor(r0, m);
            r0 = dyn_max(r0, other_r0);
        }
        if (threadIdx.x % 64 == 0) f0[threadIdx.x / 64] = r0;
        __syncthreads();
        r0 = f0[0];
        for (int w = 1; w < 4; ++w) {
            const float other_r0 = f0[w];
            r0 = dyn_max(r0, other_r0);
        }
        double r2 = 0.0;
        for (long long i1 = threadIdx.x; i1 < d2; i1 += 256) {
            float r3 = 0.0f;
            const long long n1 = dyn_imin(4, -4 * i1 + d0);
            if (n1 == 4) {
                dyn_pack<float, 4> p1;
                dyn_read(p1, b0 + (g0 * d0 + 4 * i1));
                dyn_pack<float, 4> p2;
                #pragma unroll
                for (int u1 = 0; u1 < 4; ++u1) {
                    const float v2 = p1.v[u1];
                    const float v3 = v2 - r0;
                    const float v4 = expf(v3);
                    p2.v[u1] = v4;
                    r3 = r3 + v4;
                }
                dyn_write(s0 + (4 * i1), p2);
            }
            else {
                #pragma unroll 1
                for (long long j1 = 0; j1 < dyn_imin(4, -4 * i1 + d0); ++j1) {
                    const float v5 = b0[g0 * d0 + 4 * i1 + j1];
                    const float v6 = v5 - r0;
                    const float v7 = expf(v6);
                    s0[4 * i1 + j1] = v7;
                    r3 = r3 + v7;
                }
            }
            const double m0 = (double)r3;
            r2 = r2 + m0;
        }
        for (int m = 32; m > 0; m /= 2) {
            const double other_r2 = __shfl_xor(r2, m);
            r2 = r2 + other_r2;
        }
        if (threadIdx.x % 64 == 0) f1[threadIdx.x / 64] = r2;
        __syncthreads();
        r2 = f1[0];
        for (int w = 1; w < 4; ++w) {
            const double other_r2 = f1[w];
            r2 = r2 + other_r2;
        }
        for (long long i2 = threadIdx.x; i2 < d2; i2 += 256) {
            const long long n2 = dyn_imin(4, -4 * i2 + d0);
            if (n2 == 4) {
                dyn_pack<float, 4> p3;
                dyn_read(p3, s0 + (4 * i2));
                dyn_pack<float, 4> p4;
                #pragma unroll
                for (int u2 = 0; u2 < 4; ++u2) {
                    const float v8 = p3.v[u2];
                    const float v9 = (float)r2;
                    const float v10 = v8 / v9;
                    p4.v[u2] = v10;
                }
                dyn_write(b1 + (g0 * d0 + 4 * i2), p4);
            }
            else {
                #pragma unroll 1
                for (long long j2 = 0; j2 < dyn_imin(4, -4 * i2 + d0); ++j2) {
                    const float v11 = s0[4 * i2 + j2];
                    const float v12 = (float)r2;
                    const float v13 = v11 / v12;
                    b1[g0 * d0 + 4 * i2 + j2] = v13;
                }
            }
        }
    }
}

// stitch reduce_exponential_divide: 
#include <hip/hip_runtime.h>
#ifndef DYN_PACK
#define DYN_PACK
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) dyn_pack { T v[N]; };
#endif
#ifndef DYN_READ
#define DYN_READ
template <class T, int N> static __device__ __forceinline__ void dyn_read(dyn_pack<T, N>& to, const T* from) {
    if ((unsigned long long)from % alignof(dyn_pack<T, N>) == 0) to = *(const dyn_pack<T, N>*)from;
    else
        for (int i = 0; i < N; ++i) to.v[i] = from[i];
}
#endif
#ifndef DYN_WRITE
#define DYN_WRITE
template <class T, int N> static __device__ __forceinline__ void dyn_write(T* to, const dyn_pack<T, N>& from) {
    if ((unsigned long long)to % alignof(dyn_pack<T, N>) == 0) *(dyn_pack<T, N>*)to = from;
    else
        for (int i = 0; i < N; ++i) to[i] = from.v[i];
}
#endif
#ifndef DYN_MAX
#define DYN_MAX
template <class T> static __device__ __forceinline__ T dyn_max(T a, T b) {  // NaN wins, and -0 is less than +0
    return a > b || a != a ? a : b > a || b != b ? b : signbit(a) ? b : a;
}
#endif
#ifndef DYN_IMIN
#define DYN_IMIN
static __device__ __forceinline__ long long dyn_imin(long long a, long long b) { return a < b ? a : b; }
#endif
// stitch reduce_exponential_divide
extern "C" __global__ void __launch_bounds__(256) softmax_3(
    const float* __restrict__ b0,
    float* __restrict__ b1,
    long long d0,
    long long d1,
    long long d2) {
    alignas(16) extern __shared__ unsigned char dyn_shared[];
    float* const f0 = (float*)dyn_shared;
    double* const f1 = (double*)(dyn_shared + 16);
    for (long long t = blockIdx.x; t < d0; t += gridDim.x) {
        const long long g0 = t;
        float r0 = (-__int_as_float(0x7f800000));
        for (long long i0 = threadIdx.x; i0 < d1; i0 += 256) {
            float r1 = (-__int_as_float(0x7f800000));
            const long long n0 = dyn_imin(4, -4 * i0 + d2);
            if (n0 == 4) {
                dyn_pack<float, 4> p0;
                dyn_read(p0, b0 + (g0 * d2 + 4 * i0));
                #pragma unroll
                for (int u0 = 0; u0 < 4; ++u0) {
                    const float v0 = p0.v[u0];
                    r1 = dyn_max(r1, v0);
                }
            }
            else {
                #pragma unroll 1
                for (long long j0 = 0; j0 < dyn_imin(4, -4 * i0 + d2); ++j0) {
                    const float v1 = b0[g0 * d2 + 4 * i0 + j0];
                    r1 = dyn_max(r1, v1);
                }
            }
            r0 = dyn_max(r0, r1);
        }
        for (int m = 32; m > 0; m /= 2) {
            const float other_r0 = __shfl_xor(r0, m);
            r0 = dyn_max(r0, other_r0);
        }
        if (threadIdx.x % 64 == 0) f0[threadIdx.x / 64] = r0;
        __syncthreads();
        r0 = f0[0];
        for (int w = 1; w < 4; ++w) {
            const float other_r0 = f0[w];
            r0 = dyn_max(r0, other_r0);
        }
        double r2 = 0.0;
        for (long long i1 = threadIdx.x; i1 < d1; i1 += 256) {
            float r3 = 0.0f;
            const long long n1 = dyn_imin(4, -4 * i1 + d2);
            if (n1 == 4) {
                dyn_pack<float, 4> p1;
                dyn_read(p1, b0 + (g0 * d2 + 4 * i1));
                #pragma unroll
                for (int u1 = 0; u1 < 4; ++u1) {
                    const float v2 = p1.v[u1];
                    const float v3 = v2 - r0;
                    const float v4 = expf(v3);
                    r3 = r3 + v4;
                }
            }
            else {
                #pragma unroll 1
                for (long long j1 = 0; j1 < dyn_imin(4, -4 * i1 + d2); ++j1) {
                    const float v5 = b0[g0 * d2 + 4 * i1 + j1];
                    const float v6 = v5 - r0;
                    const float v7 = expf(v6);
                    r3 = r3 + v7;
                }
            }
            const double m0 = (double)r3;
            r2 = r2 + m0;
        }
        for (int m = 32; m > 0; m /= 2) {
            const double other_r2 = __shfl_xor(r2, m);
            r2 = r2 + other_r2;
        }
        if (threadIdx.x % 64 == 0) f1[threadIdx.x / 64] = r2;
        __syncthreads();
        r2 = f1[0];
        for (int w = 1; w < 4; ++w) {
            const double other_r2 = f1[w];
            r2 = r2 + other_r2;
        }
        for (long long i2 = threadIdx.x; i2 < d1; i2 += 256) {
            const long long n2 = dyn_imin(4, -4 * i2 + d2);
            if (n2 == 4) {
                dyn_pack<float, 4> p2;
                dyn_read(p2, b0 + (g0 * d2 + 4 * i2));
                dyn_pack<float, 4> p3;
                #pragma unroll
                for (int u2 = 0; u2 < 4; ++u2) {
                    const float v8 = p2.v[u2];
                    const float v9 = v8 - r0;
                    const float v10 = expf(v9);
                    const float v11 = (float)r2;
                    const float v12 = v10 / v11;
                    p3.v[u2] = v12;
                }
                dyn_write(b1 + (g0 * d2 + 4 * i2), p3);
            }
            else {
                #pragma unroll 1
                for (long long j2 = 0; j2 < dyn_imin(4, -4 * i2 + d2); ++j2) {
                    const float v13 = b0[g0 * d2 + 4 * i2 + j2];
                    const float v14 = v13 - r0;
                    const float v15 = expf(v14);
                    const float v16 = (float)r2;
                    const float v17 = v15 / v16;
                    b1[g0 * d2 + 4 * i2 + j2] = v17;
                }
            }
        }
    }
}

// reduce_exponential_divide, parts: 
#include <hip/hip_runtime.h>
#ifndef DYN_MAX
#define DYN_MAX
template <class T> static __device__ __forceinline__ T dyn_max(T a, T b) {  // NaN wins, and -0 is less than +0
    return a > b || a != a ? a : b > a || b != b ? b : signbit(a) ? b : a;
}
#endif
#ifndef DYN_IMIN
#define DYN_IMIN
static __device__ __forceinline__ long long dyn_imin(long long a, long long b) { return a < b ? a : b; }
#endif
// reduce_exponential_divide, parts
extern "C" __global__ void __launch_bounds__(256) softmax_4(
    const float* __restrict__ b0,
    float* __restrict__ b1,
    long long d0,
    long long d1,
    long long d2) {
    alignas(16) extern __shared__ unsigned char dyn_shared[];
    float* const f0 = (float*)dyn_shared;
    for (long long t = blockIdx.x; t < d0 * d1; t += gridDim.x) {
        const long long g1 = t % d1;
        const long long g0 = t / d1;
        float r0 = (-__int_as_float(0x7f800000));
        #pragma unroll 16
        for (long long i0 = threadIdx.x; i0 < dyn_imin(16384, -16384 * g1 + d2); i0 += 256) {
            const float v0 = b0[g0 * d2 + 16384 * g1 + i0];
            r0 = dyn_max(r0, v0);
        }
        for (int m = 32; m > 0; m /= 2) {
            const float other_r0 = __shfl_xor(r0, m);
            r0 = dyn_max(r0, other_r0);
        }
        __syncthreads();
        if (threadIdx.x % 64 == 0) f0[threadIdx.x / 64] = r0;
        __syncthreads();
        r0 = f0[0];
        for (int w = 1; w < 4; ++w) {
            const float other_r0 = f0[w];
            r0 = dyn_max(r0, other_r0);
        }
        if (threadIdx.x == 0) {
            b1[g0 * d1 + g1] = r0;
        }
    }
}

// reduce_exponential_divide, parts joined: 
#include <hip/hip_runtime.h>
#ifndef DYN_MAX
#define DYN_MAX
template <class T> static __device__ __forceinline__ T dyn_max(T a, T b) {  // NaN wins, and -0 is less than +0
    return a > b || a != a ? a : b > a || b != b ? b : signbit(a) ? b : a;
}
#endif
// reduce_exponential_divide, parts joined
extern "C" __global__ void __launch_bounds__(256) softmax_5(
    const float* __restrict__ b0,
    float* __restrict__ b1,
    long long d0,
    long long d1) {
    alignas(16) extern __shared__ unsigned char dyn_shared[];
    float* const f0 = (float*)dyn_shared;
    for (long long t = blockIdx.x; t < d0; t += gridDim.x) {
        const long long g0 = t;
        float r0 = (-__int_as_float(0x7f800000));
        #pragma unroll 16
        for (long long i0 = threadIdx.x; i0 < d1; i0 += 256) {
            const float v0 = b0[g0 * d1 + i0];
            r0 = dyn_max(r0, v0);
        }
        for (int m = 32; m > 0; m /= 2) {
            const float other_r0 = __shfl_xor(r0, m);
            r0 = dyn_max(r0, other_r0);
        }
        __syncthreads();
        if (threadIdx.x % 64 == 0) f0[threadIdx.x / 64] = r0;
        __syncthreads();
        r0 = f0[0];
        for (int w = 1; w < 4; ++w) {
            const float other_r0 = f0[w];
            r0 = dyn_max(r0, other_r0);
        }
        if (threadIdx.x == 0) {
            b1[g0] = r0;
        }
    }
}

// reduce_exponential_divide, parts: 
#include <hip/hip_runtime.h>
#ifndef DYN_IMIN
#define DYN_IMIN
static __device__ __forceinline__ long long dyn_imin(long long a, long long b) { return a < b ? a : b; }
#endif
// reduce_exponential_divide, parts
extern "C" __global__ void __launch_bounds__(256) softmax_6(
    const float* __restrict__ b0,
    float* __restrict__ b1,
    const float* __restrict__ b2,
    double* __restrict__ b3,
    long long d0,
    long long d1,
    long long d2) {
    alignas(16) extern __shared__ unsigned char dyn_shared[];
    double* const f0 = (double*)dyn_shared;
    for (long long t = blockIdx.x; t < d0 * d1; t += gridDim.x) {
        const long long g1 = t % d1;
        const long long g0 = t / d1;
        double r0 = 0.0;
        for (long long i0 = threadIdx.x; i0 < dyn_imin(16384, -16384 * g1 + d2); i0 += 256) {
            const float v0 = b0[g0 * d2 + 16384 * g1 + i0];
            const float v1 = b2[g0];
            const float v2 = v0 - v1;
            const float v3 = expf(v2);
            b1[g0 * d2 + 16384 * g1 + i0] = v3;
            const double m0 = (double)v3;
            r0 = r0 + m0;
        }
        for (int m = 32; m > 0; m /= 2) {
            const double other_r0 = __shfl_xor(r0, m);
            r0 = r0 + other_r0;
        }
        __syncthreads();
        if (threadIdx.x % 64 == 0) f0[threadIdx.x / 64] = r0;
        __syncthreads();
        r0 = f0[0];
        for (int w = 1; w < 4; ++w) {
            const double other_r0 = f0[w];
            r0 = r0 + other_r0;
        }
        if (threadIdx.x == 0) {
            b3[g0 * d1 + g1] = r0;
        }
    }
}

// reduce_exponential_divide, parts joined: 
#include <hip/hip_runtime.h>
// reduce_exponential_divide, parts joined
extern "C" __global__ void __launch_bounds__(256) softmax_7(
    const double* __restrict__ b0,
    double* __restrict__ b1,
    long long d0,
    long long d1) {
    alignas(16) extern __shared__ unsigned char dyn_shared[];
    double* const f0 = (double*)dyn_shared;
    for (long long t = blockIdx.x; t < d0; t += gridDim.x) {
        const long long g0 = t;
        double r0 = 0.0;
        #pragma unroll 16
        for (long long i0 = threadIdx.x; i0 < d1; i0 += 256) {
            const double v0 = b0[g0 * d1 + i0];
            r0 = r0 + v0;
        }
        for (int m = 32; m > 0; m /= 2) {
            const double other_r0 = __shfl_xor(r0, m);
            r0 = r0 + other_r0;
        }
        __syncthreads();
        if (threadIdx.x % 64 == 0) f0[threadIdx.x / 64] = r0;
        __syncthreads();
        r0 = f0[0];
        for (int w = 1; w < 4; ++w) {
            const double other_r0 = f0[w];
            r0 = r0 + other_r0;
        }
        if (threadIdx.x == 0) {
            b1[g0] = r0;
        }
    }
}

// reduce_exponential_divide, parts: 
#include <hip/hip_runtime.h>
#ifndef DYN_IMIN
#define DYN_IMIN
static __device__ __forceinline__ long long dyn_imin(long long a, long long b) { return a < b ? a : b; }
#endif
// reduce_exponential_divide, parts
extern "C" __global__ void __launch_bounds__(256) softmax_8(
    const float* __restrict__ b0,
    const double* __restrict__ b1,
    float* __restrict__ b2,
    long long d0,
    long long d1,
    long long d2) {
    for (long long t = blockIdx.x; t < d0 * d1; t += gridDim.x) {
        const long long g1 = t % d1;
        const long long g0 = t / d1;
        for (long long i0 = threadIdx.x; i0 < dyn_imin(16384, -16384 * g1 + d2); i0 += 256) {
            const float v0 = b0[g0 * d2 + 16384 * g1 + i0];
            const double v1 = b1[g0];
            const float v2 = (float)v1;
            const float v3 = v0 / v2;
            b2[g0 * d2 + 16384 * g1 + i0] = v3;
        }
    }
}
