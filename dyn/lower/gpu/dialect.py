"""Dialects of the C++ that the emitter writes: all that tells CUDA's from HIP's.

Both run the same program on ISPC's model: a block works on one iteration of the GRID loops at a time, and its threads
share the iterations of a LANE loop. A third vendor is a third record here.
"""

from __future__ import annotations

from dyn.errors import UnsupportedOpError
from dyn.frozen import record
from dyn.schedule.target import Target


@record()
class Dialect:
    """The words of one vendor's C++. Fields that are templates name what is filled in."""

    family: str
    #: Headers that every text needs, and the one that converting float16 needs besides.
    includes: tuple[str, ...]
    half_includes: tuple[str, ...]
    #: The lanes of a warp exchange values: ``{value}`` of the lane whose number differs in the bits of ``{mask}``.
    shuffle: str
    #: A float16 lies in memory as ``dyn_f16 {{ unsigned short bits; }}``: ``h`` to float, and the float ``x`` to bits.
    half_to_float: str
    float_to_half: str
    #: No lane of a warp goes on before all have come here, and sees what all had stored by then.
    team_barrier: str
    #: Bounds of a kernel of ``{block}`` threads, of which ``{resident}`` blocks should be on a multiprocessor at once,
    #: ``{warps}`` warps for each of its four schedulers.
    resident_bounds: str
    #: In front of the loop over the steps of a slice that are multiplied.
    unroll_steps: str
    #: Copies of ``N`` bytes to shared memory that go on by themselves, if any: statements that ask for one,
    #: of which only the first ``bytes`` bytes are read and the rest is 0; that end a group of those asked for; and that
    #: wait for all groups of this thread but the last ``N``.
    copy_async: str = ""
    commit_copies: str = ""
    await_copies: str = ""
    #: Code that returns the bfloat16 that a float ``x`` rounds to, or the greater or the lesser of floats ``a`` and
    #: ``b`` of a type ``T``, where a device has an instruction for it; for others C++ follows.
    float_to_bfloat: str = ""
    greater_float: str = ""
    lesser_float: str = ""
    #: The head of a kernel whose launches are bounded by ``{bounds}``, and of a function that kernels call.
    kernel: str = 'extern "C" __global__ void __launch_bounds__({bounds}) {symbol}'
    function: str = "static __device__ __forceinline__"
    #: The block's shared memory, whose size the launch gives.
    shared: str = "alignas(16) extern __shared__ unsigned char {name}[];"
    #: No thread of the block goes on before all have come here, and sees what all had stored by then.
    barrier: str = "__syncthreads();"
    thread: str = "threadIdx.x"
    block: str = "blockIdx.x"
    blocks: str = "gridDim.x"


def _since(number: int, code: str) -> str:
    """Code for NVIDIA's architectures with a number or a higher one; a compiler for hosts leaves it out."""
    return f"#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= {number}0\n{code}#endif\n"


_FLOATS = """\
    if constexpr (sizeof(T) == 4) {{
        T found;
        asm("{}.NaN.f32 %0, %1, %2;" : "=f"(found) : "f"(a), "f"(b));
        return found;
    }}
"""
CUDA = Dialect(
    family="cuda",
    includes=(),  # NVRTC knows the math functions and the built-in variables without a header
    half_includes=("cuda_fp16.h",),
    shuffle="__shfl_xor_sync(0xffffffffu, {value}, {mask})",
    half_to_float="__half2float(__ushort_as_half(h.bits))",
    float_to_half="__half_as_ushort(__float2half_rn(x))",
    team_barrier="__syncwarp();",
    # PTX ISA, "cvt" and "max": both since sm_80; +0 is greater than -0.
    float_to_bfloat=_since(
        80,
        """\
    unsigned short half;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(half) : "f"(x));
    return dyn_bf16{half};
""",
    ),
    greater_float=_since(80, _FLOATS.format("max")),
    lesser_float=_since(80, _FLOATS.format("min")),
    resident_bounds="{block}, {resident}",
    unroll_steps="#pragma unroll",
    # PTX ISA, "Data Movement and Conversion Instructions: cp.async"
    copy_async="""\
    const unsigned at = (unsigned)__cvta_generic_to_shared(to);
    if constexpr (N == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], %2, %3;" ::"r"(at), "l"(from), "n"(N), "r"(bytes)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(at), "l"(from), "n"(N), "r"(bytes)
                     : "memory");""",
    commit_copies='asm volatile("cp.async.commit_group;" ::: "memory");',
    await_copies='asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");',
)

HIP = Dialect(
    family="rocm",
    includes=("hip/hip_runtime.h",),
    half_includes=(),  # _Float16 is a type of the compiler's
    shuffle="__shfl_xor({value}, {mask})",
    half_to_float="(float)__builtin_bit_cast(_Float16, h.bits)",
    float_to_half="__builtin_bit_cast(unsigned short, (_Float16)x)",
    team_barrier='__builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront"); __builtin_amdgcn_wave_barrier();',
    resident_bounds="{block}, {warps}",
    unroll_steps="#pragma unroll 2",  # of more steps the compiler moves all loads to the front, and spills
)

_DIALECTS = {dialect.family: dialect for dialect in (CUDA, HIP)}


def dialect_of(target: Target) -> Dialect:
    """The dialect that a target's toolchain reads."""
    dialect = _DIALECTS.get(target.family)
    if dialect is None:
        raise UnsupportedOpError(
            f"{target} is not a GPU that dyn has a dialect for.",
            remedy="use a target of one of the families " + ", ".join(_DIALECTS) + ".",
        )
    return dialect


def gpu_target(family: str, arch: str) -> Target:
    """The target of an architecture, with the width of its warps: 64 lanes on AMD's gfx9 (GCN, CDNA), else 32.

    ``gpu_target("cuda", "sm_90a")``, ``gpu_target("rocm", "gfx90a")``. RDNA (gfx10 and later) is compiled for wave32.
    """
    wide = family == "rocm" and arch.startswith("gfx9")
    return Target(family, arch, warp=64 if wide else 32)
