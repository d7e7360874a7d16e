#include <hip/hip_runtime.h>
#ifndef DYN_MAX
#define DYN_MAX
template <class T> static __device__ __forceinline__ T dyn_max(T a, T b) {  // NaN wins, and -0 is less than +0
    return a > b || a != a ? a : b > a || b != b ? b : signbit(a) ? b : a;
}
#endif
// stitch reduce_exponential_divide
extern "C" __global__ void __launch_bounds__(256) softmax(
    const float* __restrict__ b0,
    float* __restrict__ b1,
    long long d0,
    long long d1) {
    alignas(16) extern __shared__ unsigned char dyn_shared[];
    float* const f0 = (float*)dyn_shared;
    float* const f1 = (float*)(dyn_shared + 16);
    float* const s0 = (float*)(dyn_shared + 32);
    for (long long t = blockIdx.x; t < d1; t += gridDim.x) {
        const long long g0 = t;
        float r0 = (-__int_as_float(0x7f800000));
        for (long long i0 = threadIdx.x; i0 < d0; i0 += 256) {
            const float v0 = b0[g0 * d0 + i0];
            r0 = dyn_max(r0, v0);
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
        float r1 = 0.0f;
        for (long long i1 = threadIdx.x; i1 < d0; i1 += 256) {
            const float v1 = b0[g0 * d0 + i1];
            const float v2 = v1 - r0;
            const float v3 = expf(v2);
            s0[i1] = v3;
            r1 = r1 + v3;
        }
        for (int m = 32; m > 0; m /= 2) {
            const float other_r1 = __shfl_xor(r1, m);
            r1 = r1 + other_r1;
        }
        if (threadIdx.x % 64 == 0) f1[threadIdx.x / 64] = r1;
        __syncthreads();
        r1 = f1[0];
        for (int w = 1; w < 4; ++w) {
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
