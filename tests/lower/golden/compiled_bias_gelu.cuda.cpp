// loop multiply, short rows: n <= 16
#ifndef DYN_MOD
#define DYN_MOD
static __device__ __forceinline__ long long dyn_mod(long long a, long long b) {  // a divisor of 0 counts as 1
    if (b == 0 || b == -1) return 0;
    const long long rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
#endif
#ifndef DYN_IMIN
#define DYN_IMIN
static __device__ __forceinline__ long long dyn_imin(long long a, long long b) { return a < b ? a : b; }
#endif
// loop multiply, short rows
extern "C" __global__ void __launch_bounds__(256) bias_gelu_0(
    const float* __restrict__ b0,
    const float* __restrict__ b1,
    float* __restrict__ b2,
    long long d0,
    long long d1,
    long long d2) {
    for (long long t = blockIdx.x; t < d0; t += gridDim.x) {
        const long long g0 = t;
        for (long long i0 = threadIdx.x; i0 < dyn_imin(1024, -1024 * g0 + d1); i0 += 256) {
            const float v0 = b0[1024 * g0 + i0];
            const float v1 = b1[dyn_mod(1024 * g0 + i0, d2)];
            const float v2 = v0 + v1;
            const float v3 = v2 * 0.70710677f;
            const float v4 = erff(v3);
            const float v5 = 1.0f + v4;
            const float v6 = 0.5f * v5;
            const float v7 = v2 * v6;
            b2[1024 * g0 + i0] = v7;
        }
    }
}

// loop multiply: 
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
#ifndef DYN_IMIN
#define DYN_IMIN
static __device__ __forceinline__ long long dyn_imin(long long a, long long b) { return a < b ? a : b; }
#endif
// loop multiply
extern "C" __global__ void __launch_bounds__(256) bias_gelu_1(
    const float* __restrict__ b0,
    const float* __restrict__ b1,
    float* __restrict__ b2,
    long long d0,
    long long d1,
    long long d2,
    long long d3,
    long long d4) {
    for (long long t = blockIdx.x; t < d0 * d1; t += gridDim.x) {
        const long long g1 = t % d1;
        const long long g0 = t / d1;
        const long long n0 = dyn_imin(8, -8 * g0 + d2);
        const int l0 = threadIdx.x % 32;
        for (long long t0 = 0; t0 < n0; t0 += 8) {
            const bool a0 = t0 + threadIdx.x / 32 < n0;
            const long long t1 = a0 ? t0 + threadIdx.x / 32 : n0 - 1;
            for (long long i0 = a0 ? l0 : ((dyn_imin(512, -512 * g1 + d3) + 3) >> 2); i0 < ((dyn_imin(512, -512 * g1 + d3) + 3) >> 2); i0 += 32) {
                const long long n1 = dyn_imin(4, -4 * i0 + dyn_imin(512, -512 * g1 + d3));
                if (n1 == 4) {
                    dyn_pack<float, 4> p0;
                    dyn_read(p0, b0 + (g0 * d4 + t1 * d3 + 512 * g1 + 4 * i0));
                    dyn_pack<float, 4> p1;
                    dyn_read(p1, b1 + (512 * g1 + 4 * i0));
                    dyn_pack<float, 4> p2;
                    #pragma unroll
                    for (int u0 = 0; u0 < 4; ++u0) {
                        const float v0 = p0.v[u0];
                        const float v1 = p1.v[u0];
                        const float v2 = v0 + v1;
                        const float v3 = v2 * 0.70710677f;
                        const float v4 = erff(v3);
                        const float v5 = 1.0f + v4;
                        const float v6 = 0.5f * v5;
                        const float v7 = v2 * v6;
                        p2.v[u0] = v7;
                    }
                    dyn_write(b2 + (g0 * d4 + t1 * d3 + 512 * g1 + 4 * i0), p2);
                }
                else {
                    #pragma unroll 1
                    for (long long j0 = 0; j0 < dyn_imin(4, -4 * i0 + dyn_imin(512, -512 * g1 + d3)); ++j0) {
                        const float v8 = b0[g0 * d4 + t1 * d3 + 512 * g1 + 4 * i0 + j0];
                        const float v9 = b1[512 * g1 + 4 * i0 + j0];
                        const float v10 = v8 + v9;
                        const float v11 = v10 * 0.70710677f;
                        const float v12 = erff(v11);
                        const float v13 = 1.0f + v12;
                        const float v14 = 0.5f * v13;
                        const float v15 = v10 * v14;
                        b2[g0 * d4 + t1 * d3 + 512 * g1 + 4 * i0 + j0] = v15;
                    }
                }
            }
        }
    }
}
