// loop multiply
extern "C" __global__ void __launch_bounds__(256) bias_gelu(
    const float* __restrict__ b0,
    const float* __restrict__ b1,
    float* __restrict__ b2,
    long long d0,
    long long d1) {
    for (long long t = blockIdx.x; t < d0; t += gridDim.x) {
        const long long g0 = t;
        for (long long i0 = threadIdx.x; i0 < d1; i0 += 256) {
            const float v0 = b0[g0 * d1 + i0];
            const float v1 = b1[i0];
            const float v2 = v0 + v1;
            const float v3 = v2 * 0.70710677f;
            const float v4 = erff(v3);
            const float v5 = 1.0f + v4;
            const float v6 = 0.5f * v5;
            const float v7 = v2 * v6;
            b2[g0 * d1 + i0] = v7;
        }
    }
}
