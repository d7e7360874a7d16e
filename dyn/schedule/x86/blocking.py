"""Cache blocking of contractions: one row a family of processors, chosen by the target's name.

The names are LLVM's. Nothing here is timed while compiling, and nothing of it shows in a result: every element takes
its multiply-adds in the order of the reduced dimension, wherever that is cut.
"""

from __future__ import annotations

from dyn.frozen import record
from dyn.schedule.target import Target


@record()
class CacheBlocking:
    """Cache blocking for a family of processors.

    ``low_tiles`` says that its second-level cache feeds tiles of four rows, six vectors a step. ``panels`` packed
    panels take turns at a tile of rows, and ``depth`` steps of the reduced dimension are packed at once (0: as many as
    fit). ``unroll`` steps are one iteration of the micro-kernel, and a packed panel is asked for ``ahead`` steps before
    it is read. One GRID iteration takes ``rows`` rows, in whole tiles: so many that packing for each costs little.
    """

    low_tiles: bool = True
    panels: int = 1
    depth: int = 0
    unroll: int = 1
    ahead: int = 0
    rows: int = 256


#: For what is not packed, but read where it lies.
IN_PLACE = CacheBlocking()
#: Measured on Zen 5, whose second-level cache gives 64 bytes a cycle and keeps up with all that is asked of it.
_FIRST = CacheBlocking()
#: Measured on Cascade Lake. Its second-level cache gives half of that, less while it is filled, so tiles are high, and
#: the panels together with the rows at hand leave room in 1 MiB for what streams by. A panel's rows are asked for by
#: hand, for its prefetchers start late; pages are walked slowly, so panels are packed side by side.
_INTEL_512 = CacheBlocking(low_tiles=False, panels=2, depth=768, unroll=2, ahead=8, rows=528)

_INTEL_512_NAMES = frozenset({
    "skylake-avx512", "cascadelake", "cooperlake", "cannonlake", "icelake-client", "icelake-server", "rocketlake",
    "tigerlake", "sapphirerapids", "emeraldrapids", "graniterapids", "graniterapids-d", "diamondrapids",
})  # fmt: skip


def blocking(target: Target) -> CacheBlocking:
    """The blocking of a target; a processor of no known name gets the one for most."""
    return _INTEL_512 if target.vector_bytes == 64 and target.arch in _INTEL_512_NAMES else _FIRST
