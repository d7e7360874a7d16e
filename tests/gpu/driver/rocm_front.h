// What the files share that give the driver HIP's names, with the types of its own header.
#pragma once
#include <hip/hip_runtime_api.h>

#include "core.h"

namespace gpu {
hipError_t say(Status status); // remembers errors, for hipGetLastError
template <class T> T as_handle(uint64_t value) { return (T)value; }
template <class T> uint64_t number(T handle) { return (uint64_t)handle; }
// Initialises the driver, and gives this thread's device, whose context comes with its first use.
Status here(Device*& device);
} // namespace gpu

#define ENTER(name)                                                                                               \
    static gpu::Call call_(#name);                                                                                \
    gpu::Driver& d = gpu::driver();                                                                               \
    if (const gpu::Status status_ = d.init()) return gpu::say(status_);                                           \
    if (const gpu::Status status_ = call_.enter()) return gpu::say(status_);                                      \
    const std::lock_guard lock_(d.mutex)
#define HERE                                                                                                      \
    gpu::Device* device;                                                                                          \
    if (const gpu::Status status_ = gpu::here(device)) return gpu::say(status_)
#define NEED(condition, status)                                                                                   \
    if (!(condition)) return gpu::say(gpu::status)
#define DEVICE(number) NEED((number) >= 0 && (number) < (int)d.devices.size(), invalid_device)
