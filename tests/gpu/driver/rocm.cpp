// HIP's runtime: devices, modules and launches.
#include <cstring>

#include "rocm_front.h"

using namespace gpu;

namespace gpu {
static const Limits rocm_limits{64 << 10, 64 << 10, 0x90a};
const Limits& limits_of_this_library() { return rocm_limits; }

static thread_local int current = 0;
static thread_local hipError_t last = hipSuccess;

hipError_t say(Status status) {
    if (status != ok) last = (hipError_t)status;
    return (hipError_t)status;
}
Status here(Device*& device) {
    Driver& d = driver();
    if (d.devices[current]->retained == 0)
        if (const Status status = d.retain(current)) return status;
    return d.usable(current, device);
}
} // namespace gpu

// ---- the runtime -----------------------------------------------------------------------------------------------------

GPU_EXPORT hipError_t hipInit(unsigned flags) {
    ENTER(hipInit);
    NEED(flags == 0, invalid_value);
    return hipSuccess;
}

static hipError_t version_of(int* version) {
    *version = HIP_VERSION;
    return hipSuccess;
}
GPU_EXPORT hipError_t hipDriverGetVersion(int* version) { return version_of(version); }
GPU_EXPORT hipError_t hipRuntimeGetVersion(int* version) { return version_of(version); }

GPU_EXPORT const char* hipGetErrorName(hipError_t error) {
    switch (error) {
#define NAMED(name)                                                                                               \
    case name: return #name
        NAMED(hipSuccess); NAMED(hipErrorInvalidValue); NAMED(hipErrorOutOfMemory); NAMED(hipErrorNotInitialized);
        NAMED(hipErrorNoDevice); NAMED(hipErrorInvalidDevice); NAMED(hipErrorInvalidImage); NAMED(hipErrorInvalidContext);
        NAMED(hipErrorInvalidHandle); NAMED(hipErrorNotFound); NAMED(hipErrorNotReady); NAMED(hipErrorIllegalAddress);
        NAMED(hipErrorLaunchOutOfResources); NAMED(hipErrorLaunchTimeOut); NAMED(hipErrorLaunchFailure);
        NAMED(hipErrorNotSupported); NAMED(hipErrorNoBinaryForGpu);
#undef NAMED
    default: return "hipErrorUnknown";
    }
}
GPU_EXPORT const char* hipGetErrorString(hipError_t error) { return hipGetErrorName(error); }

GPU_EXPORT hipError_t hipPeekAtLastError() { return last; }
GPU_EXPORT hipError_t hipGetLastError() {
    const hipError_t found = last;
    last = hipSuccess;
    return found;
}

// ---- devices ---------------------------------------------------------------------------------------------------------

GPU_EXPORT hipError_t hipGetDeviceCount(int* count) {
    ENTER(hipGetDeviceCount);
    *count = (int)d.devices.size();
    return hipSuccess;
}

GPU_EXPORT hipError_t hipDeviceGet(hipDevice_t* device, int ordinal) {
    ENTER(hipDeviceGet);
    DEVICE(ordinal);
    *device = ordinal;
    return hipSuccess;
}

GPU_EXPORT hipError_t hipSetDevice(int device) {
    ENTER(hipSetDevice);
    DEVICE(device);
    current = device;
    return hipSuccess;
}

GPU_EXPORT hipError_t hipGetDevice(int* device) {
    ENTER(hipGetDevice);
    *device = current;
    return hipSuccess;
}

GPU_EXPORT hipError_t hipDeviceGetName(char* name, int size, hipDevice_t device) {
    ENTER(hipDeviceGetName);
    DEVICE(device);
    std::snprintf(name, (size_t)size, "Software GPU");
    return hipSuccess;
}

GPU_EXPORT hipError_t hipDeviceGetUuid(hipUUID* uuid, hipDevice_t device) {
    ENTER(hipDeviceGetUuid);
    DEVICE(device);
    for (int i = 0; i < 16; ++i) uuid->bytes[i] = (char)(i == 15 ? device : 'g');
    return hipSuccess;
}

GPU_EXPORT hipError_t hipDeviceTotalMem(size_t* bytes, hipDevice_t device) {
    ENTER(hipDeviceTotalMem);
    DEVICE(device);
    *bytes = d.options.memory;
    return hipSuccess;
}

static int major_of(int arch) { return (arch >> 12) * 10 + (arch >> 8 & 15); } // 10 of gfx1030

GPU_EXPORT hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute, int device) {
    ENTER(hipDeviceGetAttribute);
    DEVICE(device);
    const int arch = (int)d.options.arch;
    switch (attribute) {
    case hipDeviceAttributeMaxThreadsPerBlock: *value = 1024; break;
    case hipDeviceAttributeMaxBlockDimX: case hipDeviceAttributeMaxBlockDimY: *value = 1024; break;
    case hipDeviceAttributeMaxBlockDimZ: *value = 64; break;
    case hipDeviceAttributeMaxGridDimX: *value = 0x7fffffff; break;
    case hipDeviceAttributeMaxGridDimY: case hipDeviceAttributeMaxGridDimZ: *value = 65535; break;
    case hipDeviceAttributeMaxSharedMemoryPerBlock: *value = 64 << 10; break;
    case hipDeviceAttributeMaxSharedMemoryPerMultiprocessor: *value = 64 << 10; break;
    case hipDeviceAttributeWarpSize: *value = d.warp(); break;
    case hipDeviceAttributeMultiprocessorCount: *value = 4; break;
    case hipDeviceAttributeMaxThreadsPerMultiProcessor: *value = 2048; break;
    case hipDeviceAttributeMaxRegistersPerBlock: *value = 65536; break;
    case hipDeviceAttributeClockRate: case hipDeviceAttributeMemoryClockRate: *value = 1000000; break;
    case hipDeviceAttributeMemoryBusWidth: *value = 512; break;
    case hipDeviceAttributeL2CacheSize: *value = 1 << 20; break;
    case hipDeviceAttributeComputeCapabilityMajor: *value = major_of(arch); break;
    case hipDeviceAttributeComputeCapabilityMinor: *value = arch >> 4 & 15; break;
    case hipDeviceAttributeCanMapHostMemory: case hipDeviceAttributeConcurrentKernels: *value = 1; break;
    case hipDeviceAttributePciBusId: *value = 1; break;
    default: *value = 0;
    }
    return hipSuccess;
}

GPU_EXPORT hipError_t hipGetDeviceProperties(hipDeviceProp_t* found, int device) {
    ENTER(hipGetDeviceProperties);
    DEVICE(device);
    std::memset((void*)found, 0, sizeof *found);
    std::snprintf(found->name, sizeof found->name, "Software GPU");
    std::snprintf(found->gcnArchName, sizeof found->gcnArchName, "gfx%x", (unsigned)d.options.arch);
    found->totalGlobalMem = d.options.memory, found->sharedMemPerBlock = 64 << 10, found->warpSize = d.warp();
    found->maxThreadsPerBlock = 1024, found->multiProcessorCount = 4, found->maxThreadsPerMultiProcessor = 2048;
    found->maxThreadsDim[0] = found->maxThreadsDim[1] = 1024, found->maxThreadsDim[2] = 64;
    found->maxGridSize[0] = 0x7fffffff, found->maxGridSize[1] = found->maxGridSize[2] = 65535;
    found->regsPerBlock = 65536, found->major = major_of((int)d.options.arch), found->minor = (int)d.options.arch >> 4 & 15;
    return hipSuccess;
}

GPU_EXPORT hipError_t hipDeviceCanAccessPeer(int* can, int, int) {
    ENTER(hipDeviceCanAccessPeer);
    *can = 0;
    return hipSuccess;
}

GPU_EXPORT hipError_t hipDeviceSynchronize() {
    ENTER(hipDeviceSynchronize);
    HERE;
    return say(d.finish(*device));
}

GPU_EXPORT hipError_t hipDeviceReset() {
    ENTER(hipDeviceReset);
    d.release(*d.devices[current], true);
    return hipSuccess;
}

GPU_EXPORT hipError_t hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
    ENTER(hipDeviceGetStreamPriorityRange);
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = -1;
    return hipSuccess;
}

GPU_EXPORT hipError_t hipDevicePrimaryCtxRetain(hipCtx_t* context, hipDevice_t device) {
    ENTER(hipDevicePrimaryCtxRetain);
    DEVICE(device);
    *context = as_handle<hipCtx_t>(0x100000000000 + 16 * (unsigned)device);
    return say(d.retain(device));
}

GPU_EXPORT hipError_t hipDevicePrimaryCtxRelease(hipDevice_t device) {
    ENTER(hipDevicePrimaryCtxRelease);
    DEVICE(device);
    d.release(*d.devices[device], false);
    return hipSuccess;
}

// ---- modules and launches --------------------------------------------------------------------------------------------

GPU_EXPORT hipError_t hipModuleLoadData(hipModule_t* module, const void* image) {
    ENTER(hipModuleLoadData);
    HERE;
    uint64_t handle;
    if (const Status status = d.load(*device, image, handle)) return say(status);
    *module = as_handle<hipModule_t>(handle);
    return hipSuccess;
}

GPU_EXPORT hipError_t hipModuleLoadDataEx(hipModule_t* module, const void* image, unsigned, hipJitOption*, void**) {
    return hipModuleLoadData(module, image);
}

GPU_EXPORT hipError_t hipModuleUnload(hipModule_t module) {
    ENTER(hipModuleUnload);
    HERE;
    return say(d.unload(number(module)));
}

GPU_EXPORT hipError_t hipModuleGetFunction(hipFunction_t* function, hipModule_t module, const char* name) {
    ENTER(hipModuleGetFunction);
    HERE;
    uint64_t handle;
    if (const Status status = d.find(number(module), name, handle)) return say(status);
    *function = as_handle<hipFunction_t>(handle);
    return hipSuccess;
}

GPU_EXPORT hipError_t hipFuncGetAttribute(int* value, hipFunction_attribute attribute, hipFunction_t function) {
    ENTER(hipFuncGetAttribute);
    const auto found = d.functions.find(number(function));
    NEED(found != d.functions.end(), invalid_handle);
    switch (attribute) {
    case HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
    case HIP_FUNC_ATTRIBUTE_NUM_REGS: *value = 32; break;
    case HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = (int)found->second->dynamic_shared; break;
    default: *value = 0;
    }
    return hipSuccess;
}

GPU_EXPORT hipError_t hipFuncSetAttribute(const void* function, hipFuncAttribute attribute, int value) {
    ENTER(hipFuncSetAttribute);
    const auto found = d.functions.find(number(function));
    NEED(found != d.functions.end(), invalid_handle);
    if (attribute != hipFuncAttributeMaxDynamicSharedMemorySize) return hipSuccess;
    NEED(value >= 0 && (size_t)value <= d.limits.shared_opt_in, invalid_value);
    found->second->dynamic_shared = (size_t)value;
    return hipSuccess;
}

GPU_EXPORT hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, hipFunction_t function, int threads,
                                                                         size_t shared) {
    ENTER(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor);
    NEED(d.functions.count(number(function)) != 0, invalid_handle);
    NEED(threads > 0, invalid_value);
    *blocks = d.active_blocks((unsigned)threads, shared);
    return hipSuccess;
}

GPU_EXPORT hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                            unsigned by, unsigned bz, unsigned shared, hipStream_t stream, void** params,
                                            void** extra) {
    ENTER(hipModuleLaunchKernel);
    HERE;
    return say(d.launch(*device, number(function), {gx, gy, gz}, {bx, by, bz}, shared, number(stream), params, extra));
}

GPU_EXPORT hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void* data) {
    ENTER(hipLaunchHostFunc);
    HERE;
    return say(d.call_host(*device, number(stream), [function, data] { function(data); }));
}

GPU_EXPORT hipError_t hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t function, void* data, unsigned) {
    ENTER(hipStreamAddCallback);
    HERE;
    return say(d.call_host(*device, number(stream), [=] { function(stream, hipSuccess, data); }));
}
