"""The vendors of GPU drivers: the names of their functions, and the numbers in which their interfaces differ."""

from __future__ import annotations

from collections.abc import Mapping

from dyn.frozen import record


@record()
class Vendor:
    """A vendor's driver interface.

    ``names`` has the vendor's name of each function that dyn, its tests or its benchmarks call. ``multiprocessors`` and
    ``grid`` are the numbers of the device attributes of that meaning, ``shared`` that of the shared memory that a block
    may have on request, or None where it need not be asked for. ``dlpack`` are DLPack's codes of the device and of its
    pinned host memory, ``default_stream`` the number by which DLPack knows the default stream.
    """

    family: str
    title: str
    libraries: tuple[str, ...]
    names: Mapping[str, str]
    multiprocessors: int
    grid: int
    shared: int | None
    dlpack: int
    pinned: int
    default_stream: int
    remedy: str
    toolkit: str


_CUDA_NAMES = {
    "init": "cuInit",
    "version": "cuDriverGetVersion",
    "count": "cuDeviceGetCount",
    "device": "cuDeviceGet",
    "device_name": "cuDeviceGetName",
    "device_memory": "cuDeviceTotalMem_v2",
    "attribute": "cuDeviceGetAttribute",
    "retain": "cuDevicePrimaryCtxRetain",
    "get_current": "cuCtxGetCurrent",
    "set_current": "cuCtxSetCurrent",
    "load_module": "cuModuleLoadData",
    "get_function": "cuModuleGetFunction",
    "set_function": "cuFuncSetAttribute",
    "occupancy": "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "launch": "cuLaunchKernel",
    "alloc": "cuMemAllocAsync",
    "free": "cuMemFreeAsync",
    "to_host": "cuMemcpyDtoHAsync_v2",
    "to_device": "cuMemcpyHtoDAsync_v2",
    "on_device": "cuMemcpyDtoDAsync_v2",
    "pinned": "cuMemHostAlloc",
    "free_pinned": "cuMemFreeHost",
    "synchronize": "cuStreamSynchronize",
    "synchronize_all": "cuCtxSynchronize",
    "create_event": "cuEventCreate",
    "record_event": "cuEventRecord",
    "wait_for_event": "cuEventSynchronize",
    "elapsed": "cuEventElapsedTime",
    "wait_event": "cuStreamWaitEvent",
    "destroy_event": "cuEventDestroy_v2",
    "create_stream": "cuStreamCreate",
    "destroy_stream": "cuStreamDestroy_v2",
    "pool": "cuDeviceGetDefaultMemPool",
    "set_pool": "cuMemPoolSetAttribute",
    "error_name": "cuGetErrorName",
}
#: AMD's has no contexts to speak of: a thread's current device is a number.
_HIP_NAMES = {
    "init": "hipInit",
    "version": "hipDriverGetVersion",
    "count": "hipGetDeviceCount",
    "device": "hipDeviceGet",
    "device_name": "hipDeviceGetName",
    "device_memory": "hipDeviceTotalMem",
    "attribute": "hipDeviceGetAttribute",
    "get_current": "hipGetDevice",
    "set_current": "hipSetDevice",
    "load_module": "hipModuleLoadData",
    "get_function": "hipModuleGetFunction",
    "set_function": "hipFuncSetAttribute",
    "occupancy": "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor",
    "launch": "hipModuleLaunchKernel",
    "alloc": "hipMallocAsync",
    "free": "hipFreeAsync",
    "to_host": "hipMemcpyDtoHAsync",
    "to_device": "hipMemcpyHtoDAsync",
    "on_device": "hipMemcpyDtoDAsync",
    "pinned": "hipHostMalloc",
    "free_pinned": "hipHostFree",
    "synchronize": "hipStreamSynchronize",
    "synchronize_all": "hipDeviceSynchronize",
    "create_event": "hipEventCreateWithFlags",
    "record_event": "hipEventRecord",
    "wait_for_event": "hipEventSynchronize",
    "elapsed": "hipEventElapsedTime",
    "wait_event": "hipStreamWaitEvent",
    "destroy_event": "hipEventDestroy",
    "create_stream": "hipStreamCreateWithFlags",
    "destroy_stream": "hipStreamDestroy",
    "pool": "hipDeviceGetDefaultMemPool",
    "set_pool": "hipMemPoolSetAttribute",
    "error_name": "hipGetErrorName",
}

CUDA = Vendor(
    family="cuda", title="NVIDIA's driver", libraries=("libcuda.so.1",), names=_CUDA_NAMES, multiprocessors=16, grid=5,
    shared=97, dlpack=2, pinned=3, default_stream=1,
    remedy="install NVIDIA's driver (libcuda.so.1), or run on a machine with a GPU; compiling needs neither.",
    toolkit="CUDA",
)  # fmt: skip
ROCM = Vendor(
    family="rocm", title="AMD's HIP runtime", libraries=(*[f"libamdhip64.so.{n}" for n in (7, 6, 5)], "libamdhip64.so"),
    names=_HIP_NAMES, multiprocessors=63, grid=29, shared=None, dlpack=10, pinned=11, default_stream=0,
    remedy="install ROCm (libamdhip64.so), or run on a machine with an AMD GPU; compiling needs neither.",
    toolkit="HIP",
)  # fmt: skip

#: By the family of targets.
VENDORS: Mapping[str, Vendor] = {vendor.family: vendor for vendor in (CUDA, ROCM)}
