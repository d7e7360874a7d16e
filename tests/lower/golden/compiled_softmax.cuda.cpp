// stitch reduce_exponential_divide, short rows: n <= 32
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
                const float other_r0 = __shfl_xor_sync(0xffffffffu, r0, m);
                r0 = dyn_max(r0, other_r0);
            }
            float r1 = 0.0f;
            for (long long i1 = a0 ? l0 : d3; i1 < d3; i1 += 8) {
                const float v1 = b0[g0 * d0 + t1 * d3 + i1];
                const float v2 = v1 - r0;
                const float v3 = expf(v2);
                s0[t1 * d3 + i1] = v3;
                r1 = r1 + v3;
            }
            for (int m = 4; m > 0; m /= 2) {
                const float other_r1 = __shfl_xor_sync(0xffffffffu, r1, m);
                r1 = r1 + other_r1;
            }
            for (long long i2 = a0 ? l0 : d3; i2 < d3; i2 += 8) {
                const float v4 = s0[t1 * d3 + i2];
                const float v5 = v4 / r1;
                b1[g0 * d0 + t1 * d3 + i2] = v5;
            }
        }
    }
}

// stitch reduce_exponential_divide, a warp a row: n <= 512
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
    long long d3) {
    alignas(16) extern __shared__ unsigned char dyn_shared[];
    float* const s0 = (float*)dyn_shared;
    for (long long t = blockIdx.x; t < d1; t += gridDim.x) {
        const long long g0 = t;
        const long long n0 = dyn_imin(8, -8 * g0 + d2);
        const int l0 = threadIdx.x % 32;
        for (long long t0 = 0; t0 < n0; t0 += 8) {
            const bool a0 = t0 + threadIdx.x / 32 < n0;
            const long long t1 = a0 ? t0 + threadIdx.x / 32 : n0 - 1;
            float r0 = (-__int_as_float(0x7f800000));
            #pragma unroll 16
            for (long long i0 = a0 ? l0 : d3; i0 < d3; i0 += 32) {
                const float v0 = b0[g0 * d0 + t1 * d3 + i0];
                r0 = dyn_max(r0, v0);
            }
            for (int m = 16; m > 0; m /= 2) {
                const float other_r0 = __shfl_xor_sync(0xffffffffu, r0, m);
                r0 = dyn_max(r0, other_r0);
            }
            float r1 = 0.0f;
            for (long long i1 = a0 ? l0 : d3; i1 < d3; i1 += 32) {
                const float v1 = b0[g0 * d0 + t1 * d3 + i1];
                const float v2 = v1 - r0;
                const float v3 = expf(v2);
                s0[t1 * d3 + i1] = v3;
                r1 = r1 + v3;
            }
            for (int m = 16; m > 0; m /= 2) {
                const float other_r1 = __shfl_xor_sync(0xffffffffu, r1, m);
                r1 = r1 + other_r1;
            }
            for (long long i2 = a0 ? l0 : d3; i2 < d3; i2 += 32) {
                const float v4 = s0[t1 * d3 + i2];
                const float v5 = v4 / r1;
                b1[g0 * d0 + t1 * d3 + i2] = v5;
            }
        }
    }
}

// stitch reduce_exponential_divide, rows in shared memory: n <= 12032
#ifndef DYN_MAX
#define DYN_MAX
template <class T> static __device__ __forceinline__ T dyn_max(T a, T b) {  // NaN wins, and -0 is less than +0
    return a > b || a != a ? a : b > a || b != b ? b : signbit(a) ? b : a;
}
#endif
// stitch reduce_exponential_divide, rows in shared memory
extern "C" __global__ void __launch_bounds__(256) softmax_2(
    const float* __restrict__ b0,
    float* __restrict__ b1,
    long long d0,
    long long d1) {
    alignas(16) extern __shared__ unsigned char dyn_shared[];
    float* const f0 = (float*)dyn_shared;
    float* const f1 = (float*)(dyn_shared + 32);
    float* const s0 = (float*)(dyn_shared + 64);
    for (long long t = blockIdx.x; t < d1; t += gridDim.x) {
        const long long g0 = t;
        float r0 = (-__int_as_float(0x7f800000));
        #pragma unroll 16
        for (long long i0 = threadIdx.x; i0 < d0; i0 += 256) {
            const float v0 = b0[g0 * d0 + i0];
            r0 = dyn_max(r0, v0);
        }
        for (int m = 16; m > 0; m /= 2) {
            const float other_r0 = __shfl_xor_sync(0xffffffffu, r0, m);
            r0 = dyn_max(r0, other_r0);
        }
        if (threadIdx.x % 32 == 0) f0[threadIdx.x / 32] = r0;
        __syncthreads();
        r0 = f0[0];
        for (int w = 1; w < 8; ++w) {
            const float other_r0 = f0[w];
            r0 = dyn_max(r0, other_r0);
        }
        float r1 = 0.0f;
        for (long long i1 = threadIdx.x; i1 < d0; i1 += 256) {
            const float v1 = b0[g0 * d0 + i1];
            const float v2 = v1 - r0;
            const float v3 = expf(v2);
            s0[i1] = v3;
            r1 = r1 + v3;
        }
        for (int m = 16; m > 0; m /= 2) {
            const float other_r1 = __shfl_xor_sync(0xffffffffu, r1, m);
            r1 = r1 + other_r1;
        }
        if (threadIdx.x % 32 == 0) f1[threadIdx.x / 32] = r1;
        __syncthreads();
        r1 = f1[0];
        for (int w = 1; w < 8; ++w) {
            const float other_r1 = f1[w];
            r1 = r1 + other_r1;
        }
        for (long long i2 = threadIdx.x; i2 < d0; i2 += 256) {
            const float v4 = s0[i2];
            const float v5 = v4 / r1;
            b1[g0 * d0 + i2] = v5;
        }
    }
}

// stitch reduce_exponential_divide: 
#ifndef DYN_MAX
#define DYN_MAX
template <class T> static __device__ __forceinline__ T dyn_max(T a, T b) {  // NaN wins, and -0 is less than +0
    return a > b || a != a ? a : b > a || b != b ? b : signbit(a) ? b : a;
}
#endif
// stitch reduce_exponential_divide
extern "C" __global__ void __launch_bounds__(256) softmax_3(
    const float* __restrict__ b0,
    float* __restrict__ b1,
    long long d0,
    long long d1) {
    alignas(16) extern __shared__ unsigned char dyn_shared[];
    float* const f0 = (float*)dyn_shared;
    float* const f1 = (float*)(dyn_shared + 32);
    for (long long t = blockIdx.x; t < d0; t += gridDim.x) {
        const long long g0 = t;
        float r0 = (-__int_as_float(0x7f800000));
        #pragma unroll 16
        for (long long i0 = threadIdx.x; i0 < d1; i0 += 256) {
            const float v0 = b0[g0 * d1 + i0];
            r0 = dyn_max(r0, v0);
        }
        for (int m = 16; m > 0; m /= 2) {
            const float other_r0 = __shfl_xor_sync(0xffffffffu, r0, m);
            r0 = dyn_max(r0, other_r0);
        }
        if (threadIdx.x % 32 == 0) f0[threadIdx.x / 32] = r0;
        __syncthreads();
        r0 = f0[0];
        for (int w = 1; w < 8; ++w) {
            const float other_r0 = f0[w];
            r0 = dyn_max(r0, other_r0);
        }
        float r1 = 0.0f;
        #pragma unroll 16
        for (long long i1 = threadIdx.x; i1 < d1; i1 += 256) {
            const float v1 = b0[g0 * d1 + i1];
            const float v2 = v1 - r0;
            const float v3 = expf(v2);
            r1 = r1 + v3;
        }
        for (int m = 16; m > 0; m /= 2) {
            const float other_r1 = __shfl_xor_sync(0xffffffffu, r1, m);
            r1 = r1 + other_r1;
        }
        if (threadIdx.x % 32 == 0) f1[threadIdx.x / 32] = r1;
        __syncthreads();
        r1 = f1[0];
        for (int w = 1; w < 8; ++w) {
            const float other_r1 = f1[w];
            r1 = r1 + other_r1;
        }
        for (long long i2 = threadIdx.x; i2 < d1; i2 += 256) {
            const float v4 = b0[g0 * d1 + i2];
            const float v5 = v4 - r0;
            const float v6 = expf(v5);
            const float v7 = v6 / r1;
            b1[g0 * d1 + i2] = v7;
        }
    }
}

// reduce_exponential_divide, parts: 
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
        for (int m = 16; m > 0; m /= 2) {
            const float other_r0 = __shfl_xor_sync(0xffffffffu, r0, m);
            r0 = dyn_max(r0, other_r0);
        }
        __syncthreads();
        if (threadIdx.x % 32 == 0) f0[threadIdx.x / 32] = r0;
        __syncthreads();
        r0 = f0[0];
        for (int w = 1; w < 8; ++w) {
            const float other_r0 = f0[w];
            r0 = dyn_max(r0, other_r0);
        }
        if (threadIdx.x == 0) {
            b1[g0 * d1 + g1] = r0;
        }
    }
}

// reduce_exponential_divide, parts joined: 
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
        for (int m = 16; m > 0; m /= 2) {
            const float other_r0 = __shfl_xor_sync(0xffffffffu, r0, m);
            r0 = dyn_max(r0, other_r0);
        }
        __syncthreads();
        if (threadIdx.x % 32 == 0) f0[threadIdx.x / 32] = r0;
        __syncthreads();
        r0 = f0[0];
        for (int w = 1; w < 8; ++w) {
            const float other_r0 = f0[w];
            r0 = dyn_max(r0, other_r0);
        }
        if (threadIdx.x == 0) {
            b1[g0] = r0;
        }
    }
}

// reduce_exponential_divide, parts: 
#ifndef DYN_IMIN
#define DYN_IMIN
static __device__ __forceinline__ long long dyn_imin(long long a, long long b) { return a < b ? a : b; }
#endif
// reduce_exponential_divide, parts
extern "C" __global__ void __launch_bounds__(256) softmax_6(
    const float* __restrict__ b0,
    float* __restrict__ b1,
    const float* __restrict__ b2,
    float* __restrict__ b3,
    long long d0,
    long long d1,
    long long d2) {
    alignas(16) extern __shared__ unsigned char dyn_shared[];
    float* const f0 = (float*)dyn_shared;
    for (long long t = blockIdx.x; t < d0 * d1; t += gridDim.x) {
        const long long g1 = t % d1;
        const long long g0 = t / d1;
        float r0 = 0.0f;
        for (long long i0 = threadIdx.x; i0 < dyn_imin(16384, -16384 * g1 + d2); i0 += 256) {
            const float v0 = b0[g0 * d2 + 16384 * g1 + i0];
            const float v1 = b2[g0];
            const float v2 = v0 - v1;
            const float v3 = expf(v2);
            b1[g0 * d2 + 16384 * g1 + i0] = v3;
            r0 = r0 + v3;
        }
        for (int m = 16; m > 0; m /= 2) {
            const float other_r0 = __shfl_xor_sync(0xffffffffu, r0, m);
            r0 = r0 + other_r0;
        }
        __syncthreads();
        if (threadIdx.x % 32 == 0) f0[threadIdx.x / 32] = r0;
        __syncthreads();
        r0 = f0[0];
        for (int w = 1; w < 8; ++w) {
            const float other_r0 = f0[w];
            r0 = r0 + other_r0;
        }
        if (threadIdx.x == 0) {
            b3[g0 * d1 + g1] = r0;
        }
    }
}

// reduce_exponential_divide, parts joined: 
// reduce_exponential_divide, parts joined
extern "C" __global__ void __launch_bounds__(256) softmax_7(
    const float* __restrict__ b0,
    float* __restrict__ b1,
    long long d0,
    long long d1) {
    alignas(16) extern __shared__ unsigned char dyn_shared[];
    float* const f0 = (float*)dyn_shared;
    for (long long t = blockIdx.x; t < d0; t += gridDim.x) {
        const long long g0 = t;
        float r0 = 0.0f;
        #pragma unroll 16
        for (long long i0 = threadIdx.x; i0 < d1; i0 += 256) {
            const float v0 = b0[g0 * d1 + i0];
            r0 = r0 + v0;
        }
        for (int m = 16; m > 0; m /= 2) {
            const float other_r0 = __shfl_xor_sync(0xffffffffu, r0, m);
            r0 = r0 + other_r0;
        }
        __syncthreads();
        if (threadIdx.x % 32 == 0) f0[threadIdx.x / 32] = r0;
        __syncthreads();
        r0 = f0[0];
        for (int w = 1; w < 8; ++w) {
            const float other_r0 = f0[w];
            r0 = r0 + other_r0;
        }
        if (threadIdx.x == 0) {
            b1[g0] = r0;
        }
    }
}

// reduce_exponential_divide, parts: 
#ifndef DYN_IMIN
#define DYN_IMIN
static __device__ __forceinline__ long long dyn_imin(long long a, long long b) { return a < b ? a : b; }
#endif
// reduce_exponential_divide, parts
extern "C" __global__ void __launch_bounds__(256) softmax_8(
    const float* __restrict__ b0,
    const float* __restrict__ b1,
    float* __restrict__ b2,
    long long d0,
    long long d1,
    long long d2) {
    for (long long t = blockIdx.x; t < d0 * d1; t += gridDim.x) {
        const long long g1 = t % d1;
        const long long g0 = t / d1;
        for (long long i0 = threadIdx.x; i0 < dyn_imin(16384, -16384 * g1 + d2); i0 += 256) {
            const float v0 = b0[g0 * d2 + 16384 * g1 + i0];
            const float v1 = b1[g0];
            const float v2 = v0 / v1;
            b2[g0 * d2 + 16384 * g1 + i0] = v2;
        }
    }
}
