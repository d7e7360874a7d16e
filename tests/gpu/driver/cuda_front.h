// What the files share that give the driver CUDA's names, with the types of its own header.
#pragma once
#include <cuda.h>

#include "core.h"

namespace gpu {
inline CUresult say(Status status) { return (CUresult)status; }
template <class T> T as_handle(uint64_t value) { return (T)value; }
template <class T> uint64_t number(T handle) { return (uint64_t)handle; }
CUcontext context_of(int device);
// The device of this thread's context.
Status here(Device*& device);
} // namespace gpu

#define ENTER(name)                                                                                               \
    static gpu::Call call_(#name);                                                                                \
    if (const gpu::Status status_ = call_.enter()) return gpu::say(status_);                                      \
    gpu::Driver& d = gpu::driver();                                                                               \
    const std::lock_guard lock_(d.mutex)
#define HERE                                                                                                      \
    gpu::Device* device;                                                                                          \
    if (const gpu::Status status_ = gpu::here(device)) return gpu::say(status_)
#define NEED(condition, status)                                                                                   \
    if (!(condition)) return gpu::say(gpu::status)
