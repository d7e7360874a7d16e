// A kernel of a module that was compiled with shim.h, as those see it who run it: run.py and the software GPU.
#pragma once
#include <cstddef>
#include <cstdint>

extern "C" {
struct ShimLaunch {
    unsigned grid[3], block[3];
    size_t shared_bytes;
    uint64_t seed;           // 0: the threads run in order, else in an order drawn from it
    const void* const* args; // the address of each argument
    char* error;             // what the launch did wrong, or ""
    size_t error_size;
};
// The symbol shim_kernel_NAME is one of these.
struct ShimKernel {
    void (*run)(const ShimLaunch*);
    unsigned arguments, warp;
    const unsigned* sizes;             // of each argument, in bytes
    const unsigned char* are_pointers; // whether each is one
};
}
