// HIP's runtime: memory, streams and events.
#include <cstring>

#include "rocm_front.h"

using namespace gpu;

// ---- memory ----------------------------------------------------------------------------------------------------------

GPU_EXPORT hipError_t hipMemGetInfo(size_t* free, size_t* total) {
    ENTER(hipMemGetInfo);
    HERE;
    *total = d.options.memory, *free = d.options.memory - device->used;
    return hipSuccess;
}

static hipError_t allocate(Device* device, void** address, size_t size, Kind kind, Stream* stream) {
    uint64_t at = 0;
    if (size != 0)
        if (const Status status = driver().allocate(device, size, kind, stream, at)) return say(status);
    *address = (void*)at;
    return hipSuccess;
}

GPU_EXPORT hipError_t hipMalloc(void** address, size_t size) {
    ENTER(hipMalloc);
    HERE;
    return allocate(device, address, size, Kind::device, nullptr);
}

GPU_EXPORT hipError_t hipFree(void* address) {
    ENTER(hipFree);
    HERE;
    return address == nullptr ? hipSuccess : say(d.release((uint64_t)address, nullptr, false));
}

#define STREAM                                                                                                    \
    HERE;                                                                                                         \
    const auto queue = d.stream(*device, number(stream));                                                         \
    NEED(queue != nullptr, invalid_handle)

GPU_EXPORT hipError_t hipMallocAsync(void** address, size_t size, hipStream_t stream) {
    ENTER(hipMallocAsync);
    STREAM;
    return allocate(device, address, size, Kind::pool, queue.get());
}

GPU_EXPORT hipError_t hipFreeAsync(void* address, hipStream_t stream) {
    ENTER(hipFreeAsync);
    STREAM;
    return address == nullptr ? hipSuccess : say(d.release((uint64_t)address, queue.get(), false));
}

GPU_EXPORT hipError_t hipHostMalloc(void** address, size_t size, unsigned) {
    ENTER(hipHostMalloc);
    HERE;
    return allocate(nullptr, address, size, Kind::pinned, nullptr);
}

GPU_EXPORT hipError_t hipHostFree(void* address) {
    ENTER(hipHostFree);
    HERE;
    return address == nullptr ? hipSuccess : say(d.release((uint64_t)address, nullptr, true));
}

GPU_EXPORT hipError_t hipHostGetDevicePointer(void** address, void* host, unsigned) {
    ENTER(hipHostGetDevicePointer);
    HERE;
    NEED(d.in_heap((uint64_t)host), invalid_value);
    *address = host;
    return hipSuccess;
}

GPU_EXPORT hipError_t hipHostRegister(void* host, size_t size, unsigned) {
    ENTER(hipHostRegister);
    HERE;
    NEED(host != nullptr && size != 0, invalid_value);
    NEED(d.registered.emplace((uint64_t)host, size).second, invalid_value);
    return hipSuccess;
}

GPU_EXPORT hipError_t hipHostUnregister(void* host) {
    ENTER(hipHostUnregister);
    HERE;
    NEED(d.registered.erase((uint64_t)host) == 1, invalid_value);
    return hipSuccess;
}

GPU_EXPORT hipError_t hipPointerGetAttributes(hipPointerAttribute_t* found, const void* pointer) {
    ENTER(hipPointerGetAttributes);
    HERE;
    const auto address = (uint64_t)pointer;
    const Allocation* memory = d.in_heap(address) ? d.within(address) : nullptr;
    NEED(memory != nullptr && !memory->freed && address < memory->address + memory->size, invalid_value);
    std::memset((void*)found, 0, sizeof *found);
    found->memoryType = memory->kind == Kind::pinned ? hipMemoryTypeHost : hipMemoryTypeDevice;
    found->device = memory->device == nullptr ? 0 : memory->device->index;
    found->devicePointer = (void*)address;
    found->hostPointer = memory->kind == Kind::pinned ? (void*)address : nullptr;
    return hipSuccess;
}

GPU_EXPORT hipError_t hipMemGetAddressRange(hipDeviceptr_t* base, size_t* size, hipDeviceptr_t address) {
    ENTER(hipMemGetAddressRange);
    HERE;
    const Allocation* memory = d.in_heap((uint64_t)address) ? d.within((uint64_t)address) : nullptr;
    NEED(memory != nullptr && !memory->freed, not_found);
    if (base != nullptr) *base = (hipDeviceptr_t)memory->address;
    if (size != nullptr) *size = memory->size;
    return hipSuccess;
}

// ---- pools: each device has one --------------------------------------------------------------------------------------

static constexpr uint64_t first_pool = 0x200000000000;
static Device* device_of(Driver& d, hipMemPool_t pool) {
    const uint64_t at = number(pool) - first_pool;
    return at % 16 == 0 && at / 16 < d.devices.size() ? d.devices[at / 16].get() : nullptr;
}

GPU_EXPORT hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t* pool, int device) {
    ENTER(hipDeviceGetDefaultMemPool);
    DEVICE(device);
    *pool = as_handle<hipMemPool_t>(first_pool + 16 * (unsigned)device);
    return hipSuccess;
}

GPU_EXPORT hipError_t hipMemPoolSetAttribute(hipMemPool_t pool, hipMemPoolAttr attribute, void* value) {
    ENTER(hipMemPoolSetAttribute);
    Device* device = device_of(d, pool);
    NEED(device != nullptr, invalid_value);
    if (attribute == hipMemPoolAttrReleaseThreshold) device->pool_threshold = *(uint64_t*)value;
    return hipSuccess;
}

GPU_EXPORT hipError_t hipMemPoolGetAttribute(hipMemPool_t pool, hipMemPoolAttr attribute, void* value) {
    ENTER(hipMemPoolGetAttribute);
    const Device* device = device_of(d, pool);
    NEED(device != nullptr, invalid_value);
    switch (attribute) {
    case hipMemPoolAttrReleaseThreshold: *(uint64_t*)value = device->pool_threshold; break;
    case hipMemPoolAttrReservedMemCurrent: case hipMemPoolAttrUsedMemCurrent: *(uint64_t*)value = device->used; break;
    case hipMemPoolAttrReservedMemHigh: case hipMemPoolAttrUsedMemHigh: *(uint64_t*)value = device->peak; break;
    default: *(int*)value = 1;
    }
    return hipSuccess;
}

GPU_EXPORT hipError_t hipMemPoolTrimTo(hipMemPool_t pool, size_t) {
    ENTER(hipMemPoolTrimTo);
    NEED(device_of(d, pool) != nullptr, invalid_value);
    return hipSuccess;
}

// ---- copies ----------------------------------------------------------------------------------------------------------

#define COPY(name, to_type, from_type)                                                                            \
    GPU_EXPORT hipError_t name(to_type to, from_type from, size_t size) {                                         \
        ENTER(name);                                                                                              \
        HERE;                                                                                                     \
        return say(d.copy(*device, (uint64_t)to, (uint64_t)from, size, 0, true));                                 \
    }                                                                                                             \
    GPU_EXPORT hipError_t name##Async(to_type to, from_type from, size_t size, hipStream_t stream) {              \
        ENTER(name##Async);                                                                                       \
        HERE;                                                                                                     \
        return say(d.copy(*device, (uint64_t)to, (uint64_t)from, size, number(stream), false));                   \
    }
COPY(hipMemcpyHtoD, hipDeviceptr_t, void*)
COPY(hipMemcpyDtoH, void*, hipDeviceptr_t)
COPY(hipMemcpyDtoD, hipDeviceptr_t, hipDeviceptr_t)

GPU_EXPORT hipError_t hipMemcpy(void* to, const void* from, size_t size, hipMemcpyKind) {
    ENTER(hipMemcpy);
    HERE;
    return say(d.copy(*device, (uint64_t)to, (uint64_t)from, size, 0, true));
}

GPU_EXPORT hipError_t hipMemcpyAsync(void* to, const void* from, size_t size, hipMemcpyKind, hipStream_t stream) {
    ENTER(hipMemcpyAsync);
    HERE;
    return say(d.copy(*device, (uint64_t)to, (uint64_t)from, size, number(stream), false));
}

GPU_EXPORT hipError_t hipMemcpyPeerAsync(void* to, int, const void* from, int, size_t size, hipStream_t stream) {
    ENTER(hipMemcpyPeerAsync);
    HERE;
    return say(d.copy(*device, (uint64_t)to, (uint64_t)from, size, number(stream), false));
}

#define FILL(name, address, parameter, type)                                                                      \
    GPU_EXPORT hipError_t name(address to, parameter value, size_t count) {                                       \
        ENTER(name);                                                                                              \
        HERE;                                                                                                     \
        return say(d.fill(*device, (uint64_t)to, (type)value, sizeof(type), count, 0, true));                     \
    }                                                                                                             \
    GPU_EXPORT hipError_t name##Async(address to, parameter value, size_t count, hipStream_t stream) {            \
        ENTER(name##Async);                                                                                       \
        HERE;                                                                                                     \
        return say(d.fill(*device, (uint64_t)to, (type)value, sizeof(type), count, number(stream), false));       \
    }
FILL(hipMemset, void*, int, unsigned char)
FILL(hipMemsetD8, hipDeviceptr_t, unsigned char, unsigned char)
FILL(hipMemsetD16, hipDeviceptr_t, unsigned short, unsigned short)
FILL(hipMemsetD32, hipDeviceptr_t, int, unsigned)

// ---- streams ---------------------------------------------------------------------------------------------------------

static hipError_t create(Driver& d, hipStream_t* stream, unsigned flags, int priority) {
    HERE;
    NEED(flags <= hipStreamNonBlocking, invalid_value);
    *stream = as_handle<hipStream_t>(d.create_stream(*device, flags != hipStreamNonBlocking, priority));
    return hipSuccess;
}

GPU_EXPORT hipError_t hipStreamCreate(hipStream_t* stream) {
    ENTER(hipStreamCreate);
    return create(d, stream, 0, 0);
}

GPU_EXPORT hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned flags) {
    ENTER(hipStreamCreateWithFlags);
    return create(d, stream, flags, 0);
}

GPU_EXPORT hipError_t hipStreamCreateWithPriority(hipStream_t* stream, unsigned flags, int priority) {
    ENTER(hipStreamCreateWithPriority);
    return create(d, stream, flags, priority);
}

GPU_EXPORT hipError_t hipStreamDestroy(hipStream_t stream) {
    ENTER(hipStreamDestroy);
    HERE;
    return say(d.destroy_stream(number(stream)));
}

GPU_EXPORT hipError_t hipStreamSynchronize(hipStream_t stream) {
    ENTER(hipStreamSynchronize);
    STREAM;
    return say(d.finish(*queue));
}

GPU_EXPORT hipError_t hipStreamQuery(hipStream_t stream) {
    ENTER(hipStreamQuery);
    STREAM;
    return say(d.query(*device, d.mark(*queue)));
}

GPU_EXPORT hipError_t hipStreamGetFlags(hipStream_t stream, unsigned* flags) {
    ENTER(hipStreamGetFlags);
    STREAM;
    *flags = queue->blocking ? hipStreamDefault : hipStreamNonBlocking;
    return hipSuccess;
}

GPU_EXPORT hipError_t hipStreamGetPriority(hipStream_t stream, int* priority) {
    ENTER(hipStreamGetPriority);
    STREAM;
    *priority = queue->priority;
    return hipSuccess;
}

GPU_EXPORT hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned) {
    ENTER(hipStreamWaitEvent);
    STREAM;
    return say(d.wait_event(*queue, number(event)));
}

// ---- events ----------------------------------------------------------------------------------------------------------

static hipError_t create(Driver& d, hipEvent_t* event, unsigned flags) {
    HERE;
    *event = as_handle<hipEvent_t>(d.create_event(*device, (flags & hipEventDisableTiming) == 0));
    return hipSuccess;
}

GPU_EXPORT hipError_t hipEventCreate(hipEvent_t* event) {
    ENTER(hipEventCreate);
    return create(d, event, 0);
}

GPU_EXPORT hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned flags) {
    ENTER(hipEventCreateWithFlags);
    return create(d, event, flags);
}

GPU_EXPORT hipError_t hipEventDestroy(hipEvent_t event) {
    ENTER(hipEventDestroy);
    HERE;
    return say(d.destroy_event(number(event)));
}

GPU_EXPORT hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
    ENTER(hipEventRecord);
    STREAM;
    return say(d.record_event(queue, number(event)));
}

GPU_EXPORT hipError_t hipEventSynchronize(hipEvent_t event) {
    ENTER(hipEventSynchronize);
    const auto found = d.events.find(number(event));
    NEED(found != d.events.end(), invalid_handle);
    return found->second->recorded ? say(d.finish(*found->second->device, found->second->mark)) : hipSuccess;
}

GPU_EXPORT hipError_t hipEventQuery(hipEvent_t event) {
    ENTER(hipEventQuery);
    const auto found = d.events.find(number(event));
    NEED(found != d.events.end(), invalid_handle);
    return found->second->recorded ? say(d.query(*found->second->device, found->second->mark)) : hipSuccess;
}

GPU_EXPORT hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t start, hipEvent_t end) {
    ENTER(hipEventElapsedTime);
    return say(d.elapsed(number(start), number(end), *milliseconds));
}
