// CUDA's driver: initialisation, devices, contexts, modules and launches.
//
// Symbols are those of the real library. Where cuda.h renames a function (cuMemAlloc is cuMemAlloc_v2) only the new
// name is there: the old one means another function, with addresses of 32 bits.
#include <dlfcn.h>

#include <algorithm>
#include <cstring>

#include "cuda_front.h"

using namespace gpu;

namespace gpu {
static const Limits cuda_limits{48 << 10, 227 << 10, 0x90};
const Limits& limits_of_this_library() { return cuda_limits; }

static thread_local std::vector<int> contexts;
static constexpr uint64_t first_context = 0x100000000000;

CUcontext context_of(int device) { return device < 0 ? nullptr : as_handle<CUcontext>(first_context + 16 * (unsigned)device); }
static int device_of(CUcontext context) {
    const uint64_t at = number(context) - first_context;
    return at % 16 == 0 && at / 16 < driver().devices.size() ? (int)(at / 16) : -1;
}
Status here(Device*& device) {
    return contexts.empty() ? invalid_context : driver().usable(contexts.back(), device);
}
} // namespace gpu

// ---- the driver ------------------------------------------------------------------------------------------------------

GPU_EXPORT CUresult cuInit(unsigned flags) {
    static Call call("cuInit");
    if (const Status status = call.enter(false)) return say(status);
    return flags != 0 ? CUDA_ERROR_INVALID_VALUE : say(driver().init());
}

GPU_EXPORT CUresult cuDriverGetVersion(int* version) {
    static Call call("cuDriverGetVersion");
    if (const Status status = call.enter(false)) return say(status);
    *version = 13000;
    return CUDA_SUCCESS;
}

static const std::pair<CUresult, const char*> names[] = {
#define NAMED(name) {name, #name}
    NAMED(CUDA_SUCCESS), NAMED(CUDA_ERROR_INVALID_VALUE), NAMED(CUDA_ERROR_OUT_OF_MEMORY),
    NAMED(CUDA_ERROR_NOT_INITIALIZED), NAMED(CUDA_ERROR_NO_DEVICE), NAMED(CUDA_ERROR_INVALID_DEVICE),
    NAMED(CUDA_ERROR_INVALID_IMAGE), NAMED(CUDA_ERROR_INVALID_CONTEXT), NAMED(CUDA_ERROR_INVALID_HANDLE),
    NAMED(CUDA_ERROR_NOT_FOUND), NAMED(CUDA_ERROR_NOT_READY), NAMED(CUDA_ERROR_ILLEGAL_ADDRESS),
    NAMED(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES), NAMED(CUDA_ERROR_LAUNCH_TIMEOUT), NAMED(CUDA_ERROR_LAUNCH_FAILED),
    NAMED(CUDA_ERROR_NOT_PERMITTED), NAMED(CUDA_ERROR_NOT_SUPPORTED), NAMED(CUDA_ERROR_UNKNOWN),
    NAMED(CUDA_ERROR_NO_BINARY_FOR_GPU), NAMED(CUDA_ERROR_CONTEXT_IS_DESTROYED),
#undef NAMED
};

GPU_EXPORT CUresult cuGetErrorName(CUresult error, const char** name) {
    for (const auto& [value, text] : names)
        if (value == error) return *name = text, CUDA_SUCCESS;
    return *name = nullptr, CUDA_ERROR_INVALID_VALUE;
}

GPU_EXPORT CUresult cuGetErrorString(CUresult error, const char** text) { return cuGetErrorName(error, text); }

GPU_EXPORT CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t,
                                        CUdriverProcAddressQueryResult* status) {
    static void* const self = [] {
        Dl_info info;
        dladdr((void*)&cuInit, &info);
        return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    }();
    // From these versions on the names mean functions with other parameters.
    static const std::pair<const char*, int> changed[] = {
        {"cuStreamGetCtx", 12050}, {"cuCtxGetDevice", 13000}, {"cuCtxSynchronize", 13000}};
    for (const auto& [name, since] : changed)
        if (version >= since && std::strcmp(symbol, name) == 0) symbol = "";
    *function = dlsym(self, (std::string(symbol) + "_v2").c_str());
    if (*function == nullptr) *function = dlsym(self, symbol);
    if (status != nullptr)
        *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *function == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

#undef cuGetProcAddress
GPU_EXPORT CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
    return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}

// ---- devices ---------------------------------------------------------------------------------------------------------

GPU_EXPORT CUresult cuDeviceGetCount(int* count) {
    ENTER(cuDeviceGetCount);
    *count = (int)d.devices.size();
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuDeviceGet(CUdevice* device, int ordinal) {
    ENTER(cuDeviceGet);
    NEED(ordinal >= 0 && ordinal < (int)d.devices.size(), invalid_device);
    *device = ordinal;
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuDeviceGetName(char* name, int size, CUdevice device) {
    ENTER(cuDeviceGetName);
    NEED(device >= 0 && device < (int)d.devices.size(), invalid_device);
    std::snprintf(name, (size_t)size, "Software GPU");
    return CUDA_SUCCESS;
}

static CUresult uuid_of(CUuuid* uuid, CUdevice device) {
    for (int i = 0; i < 16; ++i) uuid->bytes[i] = (char)(i == 15 ? device : 'g');
    return CUDA_SUCCESS;
}
GPU_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
    ENTER(cuDeviceGetUuid);
    NEED(device >= 0 && device < (int)d.devices.size(), invalid_device);
    return uuid_of(uuid, device);
}
#undef cuDeviceGetUuid
GPU_EXPORT CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) { return cuDeviceGetUuid_v2(uuid, device); }

GPU_EXPORT CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
    ENTER(cuDeviceTotalMem);
    NEED(device >= 0 && device < (int)d.devices.size(), invalid_device);
    *bytes = d.options.memory;
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
    ENTER(cuDeviceGetAttribute);
    NEED(device >= 0 && device < (int)d.devices.size(), invalid_device);
    static const std::map<int, int> known = {
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024}, {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024}, {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7fffffff}, {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535}, {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 48 << 10},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 227 << 10},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 228 << 10},
        {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024}, {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
        {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536}, {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000000},
        {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536}, {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 4},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048}, {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32}, {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1000000},
        {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 512}, {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 1 << 20},
        {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1}, {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
        {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 0}, {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
        {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1}, {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, CU_COMPUTEMODE_DEFAULT}, {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 1},
    };
    const auto found = known.find(attribute);
    *value = found == known.end() ? 0 : found->second;
    if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) *value = (int)d.options.arch >> 4;
    if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) *value = (int)d.options.arch & 15;
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuDeviceCanAccessPeer(int* can, CUdevice, CUdevice) {
    ENTER(cuDeviceCanAccessPeer);
    *can = 0;
    return CUDA_SUCCESS;
}

// ---- contexts --------------------------------------------------------------------------------------------------------

GPU_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
    ENTER(cuDevicePrimaryCtxRetain);
    if (const Status status = d.retain(device)) return say(status);
    *context = context_of(device);
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
    ENTER(cuDevicePrimaryCtxRelease);
    NEED(device >= 0 && device < (int)d.devices.size(), invalid_device);
    NEED(d.devices[device]->retained > 0, invalid_context);
    d.release(*d.devices[device], false);
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice device) {
    ENTER(cuDevicePrimaryCtxReset);
    NEED(device >= 0 && device < (int)d.devices.size(), invalid_device);
    d.release(*d.devices[device], true);
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
    ENTER(cuDevicePrimaryCtxGetState);
    NEED(device >= 0 && device < (int)d.devices.size(), invalid_device);
    *flags = 0, *active = d.devices[device]->retained > 0;
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice, unsigned) {
    ENTER(cuDevicePrimaryCtxSetFlags);
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
    ENTER(cuCtxSetCurrent);
    NEED(context == nullptr || device_of(context) >= 0, invalid_context);
    if (!contexts.empty()) contexts.pop_back();
    if (context != nullptr) contexts.push_back(device_of(context));
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuCtxGetCurrent(CUcontext* context) {
    ENTER(cuCtxGetCurrent);
    *context = context_of(contexts.empty() ? -1 : contexts.back());
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuCtxPushCurrent(CUcontext context) {
    ENTER(cuCtxPushCurrent);
    NEED(device_of(context) >= 0, invalid_context);
    contexts.push_back(device_of(context));
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuCtxPopCurrent(CUcontext* context) {
    ENTER(cuCtxPopCurrent);
    NEED(!contexts.empty(), invalid_context);
    if (context != nullptr) *context = context_of(contexts.back());
    contexts.pop_back();
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuCtxGetDevice(CUdevice* found) {
    ENTER(cuCtxGetDevice);
    NEED(!contexts.empty(), invalid_context);
    *found = contexts.back();
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuCtxSynchronize() {
    ENTER(cuCtxSynchronize);
    HERE;
    return say(d.finish(*device));
}

GPU_EXPORT CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    ENTER(cuCtxGetStreamPriorityRange);
    HERE;
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = -5;
    return CUDA_SUCCESS;
}

// ---- modules and launches ----------------------------------------------------------------------------------------

GPU_EXPORT CUresult cuModuleLoadData(CUmodule* module, const void* image) {
    ENTER(cuModuleLoadData);
    HERE;
    uint64_t handle;
    if (const Status status = d.load(*device, image, handle)) return say(status);
    *module = as_handle<CUmodule>(handle);
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) {
    return cuModuleLoadData(module, image);
}

GPU_EXPORT CUresult cuModuleUnload(CUmodule module) {
    ENTER(cuModuleUnload);
    HERE;
    return say(d.unload(number(module)));
}

GPU_EXPORT CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
    ENTER(cuModuleGetFunction);
    HERE;
    uint64_t handle;
    if (const Status status = d.find(number(module), name, handle)) return say(status);
    *function = as_handle<CUfunction>(handle);
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
    ENTER(cuFuncGetAttribute);
    const auto found = d.functions.find(number(function));
    NEED(found != d.functions.end(), invalid_handle);
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = 32; break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: case CU_FUNC_ATTRIBUTE_PTX_VERSION: *value = 90; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = (int)found->second->dynamic_shared; break;
    default: *value = 0;
    }
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    ENTER(cuFuncSetAttribute);
    const auto found = d.functions.find(number(function));
    NEED(found != d.functions.end(), invalid_handle);
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_SUCCESS;
    NEED(value >= 0 && (size_t)value <= d.limits.shared_opt_in, invalid_value);
    found->second->dynamic_shared = (size_t)value;
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int threads,
                                                                size_t shared) {
    ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessor);
    NEED(d.functions.count(number(function)) != 0, invalid_handle);
    NEED(threads > 0, invalid_value);
    *blocks = d.active_blocks((unsigned)threads, shared);
    return CUDA_SUCCESS;
}

GPU_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                   unsigned bz, unsigned shared, CUstream stream, void** params, void** extra) {
    ENTER(cuLaunchKernel);
    HERE;
    return say(d.launch(*device, number(function), {gx, gy, gz}, {bx, by, bz}, shared, number(stream), params, extra));
}

GPU_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig* c, CUfunction function, void** params, void** extra) {
    ENTER(cuLaunchKernelEx);
    HERE;
    return say(d.launch(*device, number(function), {c->gridDimX, c->gridDimY, c->gridDimZ},
                        {c->blockDimX, c->blockDimY, c->blockDimZ}, c->sharedMemBytes, number(c->hStream), params, extra));
}

GPU_EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
    ENTER(cuLaunchHostFunc);
    HERE;
    return say(d.call_host(*device, number(stream), [function, data] { function(data); }));
}
