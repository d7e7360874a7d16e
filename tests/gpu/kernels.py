"""Kernels that the tests of the software GPU run, in text that is both CUDA's and HIP's."""

from __future__ import annotations

from tests.gpu import build

TEXT = """
typedef long long size;
extern "C" __global__ void twice(const float* x, float* y, size n) {
    for (size i = blockIdx.x * 64 + threadIdx.x; i < n; i += gridDim.x * 64) y[i] = 2 * x[i];
}
extern "C" __global__ void plus_one(float* y, size n) {
    for (size i = blockIdx.x * 64 + threadIdx.x; i < n; i += gridDim.x * 64) y[i] += 1;
}
extern "C" __global__ void store_at(char* y, size place) { if (threadIdx.x == 0) y[place] = 1; }
extern "C" __global__ void load_at(const char* x, char* y, size place) { if (threadIdx.x == 0) y[0] = x[place]; }
extern "C" __global__ void nothing() {}
extern "C" __global__ void endless(volatile int* y) { while (y[0] != 1) {} }
extern "C" __global__ void divide(int* y, size by) { y[0] = (int)(7 / by); }
extern "C" __global__ void divergent() { if (threadIdx.x < 40) __syncthreads(); }
extern "C" __global__ void first_of_shared(float* y) {
    extern __shared__ unsigned char dyn_shared[];
    if (threadIdx.x == 0) y[0] = ((float*)dyn_shared)[0];
}
extern "C" __global__ void racing(float* y) { y[0] = threadIdx.x; }
extern "C" __global__ void where(size* y) {
    const int block = blockIdx.y * gridDim.x + blockIdx.x, thread = threadIdx.y * blockDim.x + threadIdx.x;
    y[6 * block + thread] = threadIdx.y * 10 + blockIdx.y;
}
"""
WARPS = {"cuda": 32, "hip32": 32, "hip64": 64}


def image(warp: int, *, races: bool = False) -> bytes:
    """The module that has them."""
    return build.module(TEXT, warp, races=races)
