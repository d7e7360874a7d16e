"""Backend of programs whose kernels run on a GPU: the GPU's for those, and this machine's for the code around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dyn.backends.base import Binary, Executable, ObjectBackend, Source
from dyn.backends.binaries import Built
from dyn.backends.gpu import PREFIX, GpuBackend, GpuBinary
from dyn.schedule.target import Target


class PlacedBackend:
    """Both backends as one: a source says by ``Source.launch`` whose it is, a key by how it begins."""

    def __init__(self, kernels: GpuBackend, host: ObjectBackend) -> None:
        self._kernels, self._host = kernels, host

    @property
    def target(self) -> Target:
        """The target of the kernels."""
        return self._kernels.target

    @property
    def toolchain(self) -> str:
        return f"{self._kernels.toolchain} {self._host.target!r} {self._host.toolchain}"

    @property
    def ordinal(self) -> int:
        """The number of the device."""
        return self._kernels.ordinal

    def unavailable(self) -> str | None:
        reason = self._host.unavailable()
        return self._kernels.unavailable() if reason is None else reason

    def _of(self, source: Source) -> ObjectBackend:
        return self._host if source.launch is None else self._kernels

    def key(self, source: Source) -> str:
        return self._of(source).key(source)

    def compile(self, source: Source) -> Binary:
        return self._of(source).compile(source)

    def build(self, source: Source) -> Built:
        return self._of(source).build(source)

    def build_all(self, sources: Sequence[Source]) -> list[Built]:
        kernels = [source for source in sources if source.launch is not None]
        others = [source for source in sources if source.launch is None]
        made = dict(zip(kernels, self._kernels.build_all(kernels), strict=True))
        made |= zip(others, self._host.build_all(others), strict=True)
        return [made[source] for source in sources]

    def find_all(self, objects: Sequence[tuple[str, tuple[str, ...]]]) -> list[Built] | None:
        mine = [one for one in objects if one[0].startswith(PREFIX)]
        kernels = self._kernels.find_all(mine)
        others = None if kernels is None else self._host.find_all([one for one in objects if one not in mine])
        if kernels is None or others is None:
            return None
        of_kernels, of_others = iter(kernels), iter(others)
        return [next(of_kernels) if one in mine else next(of_others) for one in objects]

    def load(self, binary: Binary, imports: Mapping[str, int] | None = None) -> Executable:
        return self._loader(binary).load(binary, imports)

    def load_once(self, binary: Binary) -> Executable:
        return self._loader(binary).load_once(binary)

    def _loader(self, binary: Binary) -> ObjectBackend:
        return self._kernels if isinstance(binary, GpuBinary) else self._host

    def assembly(self, source: Source) -> str:
        return self._of(source).assembly(source)
