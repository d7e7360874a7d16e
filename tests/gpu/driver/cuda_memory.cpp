// CUDA's driver: memory, streams and events.
#include <cstring>

#include "cuda_front.h"

using namespace gpu;

// ---- memory ----------------------------------------------------------------------------------------------------------

GPU_EXPORT CUresult cuMemGetInfo(size_t* free, size_t* total) {
    ENTER(cuMemGetInfo);
    HERE;
    *total = d.options.memory, *free = d.options.memory - device->used;
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuMemAlloc(CUdeviceptr* address, size_t size) {
    ENTER(cuMemAlloc);
    HERE;
    uint64_t at;
    if (const Status status = d.allocate(device, size, Kind::device, nullptr, at)) return say(status);
    *address = at;
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuMemFree(CUdeviceptr address) {
    ENTER(cuMemFree);
    HERE;
    return address == 0 ? CUDA_SUCCESS : say(d.release(address, nullptr, false));
}

GPU_EXPORT CUresult cuMemAllocAsync(CUdeviceptr* address, size_t size, CUstream stream) {
    ENTER(cuMemAllocAsync);
    HERE;
    const auto queue = d.stream(*device, number(stream));
    NEED(queue != nullptr, invalid_handle);
    uint64_t at;
    if (const Status status = d.allocate(device, size, Kind::pool, queue.get(), at)) return say(status);
    *address = at;
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
    ENTER(cuMemFreeAsync);
    HERE;
    const auto queue = d.stream(*device, number(stream));
    NEED(queue != nullptr, invalid_handle);
    return address == 0 ? CUDA_SUCCESS : say(d.release(address, queue.get(), false));
}

static CUresult pinned(void** address, size_t size) {
    uint64_t at;
    if (const Status status = driver().allocate(nullptr, size, Kind::pinned, nullptr, at)) return say(status);
    *address = (void*)at;
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuMemHostAlloc(void** address, size_t size, unsigned) {
    ENTER(cuMemHostAlloc);
    HERE;
    return pinned(address, size);
}

GPU_EXPORT CUresult cuMemAllocHost(void** address, size_t size) {
    ENTER(cuMemAllocHost);
    HERE;
    return pinned(address, size);
}

GPU_EXPORT CUresult cuMemFreeHost(void* address) {
    ENTER(cuMemFreeHost);
    HERE;
    return say(d.release((uint64_t)address, nullptr, true));
}

GPU_EXPORT CUresult cuMemHostGetDevicePointer(CUdeviceptr* address, void* host, unsigned) {
    ENTER(cuMemHostGetDevicePointer);
    HERE;
    NEED(d.in_heap((uint64_t)host), invalid_value);
    *address = (uint64_t)host;
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuMemHostRegister(void* host, size_t size, unsigned) {
    ENTER(cuMemHostRegister);
    HERE;
    NEED(host != nullptr && size != 0, invalid_value);
    NEED(d.registered.emplace((uint64_t)host, size).second, invalid_value);
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuMemHostUnregister(void* host) {
    ENTER(cuMemHostUnregister);
    HERE;
    NEED(d.registered.erase((uint64_t)host) == 1, invalid_value);
    return CUDA_SUCCESS;
}

static Status attribute_of(Driver& d, void* data, CUpointer_attribute attribute, uint64_t address) {
    const Allocation* memory = d.in_heap(address) ? d.within(address) : nullptr;
    if (memory == nullptr || memory->freed || address >= memory->address + memory->size) return invalid_value;
    const int device = memory->device == nullptr ? 0 : memory->device->index;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: *(CUcontext*)data = context_of(device); break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned*)data = memory->kind == Kind::pinned ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(CUdeviceptr*)data = address; break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (memory->kind != Kind::pinned) return invalid_value;
        *(void**)data = (void*)address;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int*)data = device; break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned*)data = 0; break;
    case CU_POINTER_ATTRIBUTE_MAPPED: *(unsigned*)data = 1; break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: *(unsigned long long*)data = memory->id; break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr*)data = memory->address; break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t*)data = memory->size; break;
    default: return not_supported;
    }
    return ok;
}

GPU_EXPORT CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
    ENTER(cuPointerGetAttribute);
    HERE;
    return say(attribute_of(d, data, attribute, address));
}

GPU_EXPORT CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data,
                                           CUdeviceptr address) {
    ENTER(cuPointerGetAttributes);
    HERE;
    for (unsigned i = 0; i < count; ++i) { // what is not known of a pointer is 0 here, and no error
        const bool narrow = attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ||
                            attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ||
                            attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED || attributes[i] == CU_POINTER_ATTRIBUTE_MAPPED;
        if (attribute_of(d, data[i], attributes[i], address) != ok) std::memset(data[i], 0, narrow ? 4 : 8);
        if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL && d.within(address) == nullptr) *(int*)data[i] = -2;
    }
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* size, CUdeviceptr address) {
    ENTER(cuMemGetAddressRange);
    HERE;
    const Allocation* memory = d.in_heap(address) ? d.within(address) : nullptr;
    if (memory == nullptr || memory->freed) return CUDA_ERROR_NOT_FOUND;
    if (base != nullptr) *base = memory->address;
    if (size != nullptr) *size = memory->size;
    return CUDA_SUCCESS;
}

// ---- pools: each device has one ------------------------------------------------------------------------------------

static constexpr uint64_t first_pool = 0x200000000000;
static Device* device_of(Driver& d, CUmemoryPool pool) {
    const uint64_t at = number(pool) - first_pool;
    return at % 16 == 0 && at / 16 < d.devices.size() ? d.devices[at / 16].get() : nullptr;
}

GPU_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
    ENTER(cuDeviceGetDefaultMemPool);
    NEED(device >= 0 && device < (int)d.devices.size(), invalid_device);
    *pool = as_handle<CUmemoryPool>(first_pool + 16 * (unsigned)device);
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) { return cuDeviceGetDefaultMemPool(pool, device); }

GPU_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
    ENTER(cuMemPoolSetAttribute);
    Device* device = device_of(d, pool);
    NEED(device != nullptr, invalid_value);
    if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) device->pool_threshold = *(uint64_t*)value;
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
    ENTER(cuMemPoolGetAttribute);
    const Device* device = device_of(d, pool);
    NEED(device != nullptr, invalid_value);
    switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: *(uint64_t*)value = device->pool_threshold; break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        *(uint64_t*)value = device->used;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: case CU_MEMPOOL_ATTR_USED_MEM_HIGH: *(uint64_t*)value = device->peak; break;
    default: *(int*)value = 1;
    }
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t) {
    ENTER(cuMemPoolTrimTo);
    NEED(device_of(d, pool) != nullptr, invalid_value);
    return CUDA_SUCCESS;
}

// ---- copies ----------------------------------------------------------------------------------------------------------

#define COPY(name, to_type, from_type)                                                                            \
    GPU_EXPORT CUresult name(to_type to, from_type from, size_t size) {                                           \
        ENTER(name);                                                                                              \
        HERE;                                                                                                     \
        return say(d.copy(*device, (uint64_t)to, (uint64_t)from, size, 0, true));                                 \
    }
#define COPY_ASYNC(name, to_type, from_type)                                                                      \
    GPU_EXPORT CUresult name(to_type to, from_type from, size_t size, CUstream stream) {                          \
        ENTER(name);                                                                                              \
        HERE;                                                                                                     \
        return say(d.copy(*device, (uint64_t)to, (uint64_t)from, size, number(stream), false));                   \
    }
COPY(cuMemcpy, CUdeviceptr, CUdeviceptr)
COPY(cuMemcpyHtoD_v2, CUdeviceptr, const void*)
COPY(cuMemcpyDtoH_v2, void*, CUdeviceptr)
COPY(cuMemcpyDtoD_v2, CUdeviceptr, CUdeviceptr)
COPY_ASYNC(cuMemcpyAsync, CUdeviceptr, CUdeviceptr)
COPY_ASYNC(cuMemcpyHtoDAsync_v2, CUdeviceptr, const void*)
COPY_ASYNC(cuMemcpyDtoHAsync_v2, void*, CUdeviceptr)
COPY_ASYNC(cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr)

GPU_EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t size, CUstream stream) {
    ENTER(cuMemcpyPeerAsync);
    HERE;
    return say(d.copy(*device, to, from, size, number(stream), false));
}

#define FILL(name, type)                                                                                          \
    GPU_EXPORT CUresult name##_v2(CUdeviceptr to, type value, size_t count) {                                     \
        ENTER(name);                                                                                              \
        HERE;                                                                                                     \
        return say(d.fill(*device, to, value, sizeof(type), count, 0, true));                                     \
    }                                                                                                             \
    GPU_EXPORT CUresult name##Async(CUdeviceptr to, type value, size_t count, CUstream stream) {                  \
        ENTER(name##Async);                                                                                       \
        HERE;                                                                                                     \
        return say(d.fill(*device, to, value, sizeof(type), count, number(stream), false));                       \
    }
FILL(cuMemsetD8, unsigned char)
FILL(cuMemsetD16, unsigned short)
FILL(cuMemsetD32, unsigned)

// ---- streams ---------------------------------------------------------------------------------------------------------

static CUresult create(Driver& d, CUstream* stream, unsigned flags, int priority) {
    HERE;
    NEED(flags <= CU_STREAM_NON_BLOCKING, invalid_value);
    *stream = as_handle<CUstream>(d.create_stream(*device, flags != CU_STREAM_NON_BLOCKING, priority));
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
    ENTER(cuStreamCreate);
    return create(d, stream, flags, 0);
}

GPU_EXPORT CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
    ENTER(cuStreamCreateWithPriority);
    return create(d, stream, flags, priority);
}

#define STREAM                                                                                                    \
    HERE;                                                                                                         \
    const auto queue = d.stream(*device, number(stream));                                                         \
    NEED(queue != nullptr, invalid_handle)

GPU_EXPORT CUresult cuStreamDestroy(CUstream stream) {
    ENTER(cuStreamDestroy);
    HERE;
    return say(d.destroy_stream(number(stream)));
}

GPU_EXPORT CUresult cuStreamSynchronize(CUstream stream) {
    ENTER(cuStreamSynchronize);
    STREAM;
    return say(d.finish(*queue));
}

GPU_EXPORT CUresult cuStreamQuery(CUstream stream) {
    ENTER(cuStreamQuery);
    STREAM;
    return say(d.query(*device, d.mark(*queue)));
}

GPU_EXPORT CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
    ENTER(cuStreamGetCtx);
    STREAM;
    *context = context_of(device->index);
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuStreamGetFlags(CUstream stream, unsigned* flags) {
    ENTER(cuStreamGetFlags);
    STREAM;
    *flags = queue->blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING;
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuStreamGetPriority(CUstream stream, int* priority) {
    ENTER(cuStreamGetPriority);
    STREAM;
    *priority = queue->priority;
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
    ENTER(cuStreamIsCapturing);
    STREAM;
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
    ENTER(cuStreamWaitEvent);
    STREAM;
    return say(d.wait_event(*queue, number(event)));
}

// ---- events ----------------------------------------------------------------------------------------------------------

GPU_EXPORT CUresult cuEventCreate(CUevent* event, unsigned flags) {
    ENTER(cuEventCreate);
    HERE;
    *event = as_handle<CUevent>(d.create_event(*device, (flags & CU_EVENT_DISABLE_TIMING) == 0));
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuEventDestroy(CUevent event) {
    ENTER(cuEventDestroy);
    HERE;
    return say(d.destroy_event(number(event)));
}

GPU_EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
    ENTER(cuEventRecord);
    STREAM;
    return say(d.record_event(queue, number(event)));
}

GPU_EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned) { return cuEventRecord(event, stream); }

GPU_EXPORT CUresult cuEventSynchronize(CUevent event) {
    ENTER(cuEventSynchronize);
    const auto found = d.events.find(number(event));
    NEED(found != d.events.end(), invalid_handle);
    return found->second->recorded ? say(d.finish(*found->second->device, found->second->mark)) : CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuEventQuery(CUevent event) {
    ENTER(cuEventQuery);
    const auto found = d.events.find(number(event));
    NEED(found != d.events.end(), invalid_handle);
    return found->second->recorded ? say(d.query(*found->second->device, found->second->mark)) : CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
    ENTER(cuEventElapsedTime);
    return say(d.elapsed(number(start), number(end), *milliseconds));
}
#undef cuEventElapsedTime
GPU_EXPORT CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
    return cuEventElapsedTime_v2(milliseconds, start, end);
}
