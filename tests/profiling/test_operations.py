"""Operations in profiles, and the share of the machine's limit that kernels reach, whatever the machine is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import config
from dyn.profiling import limits
from dyn.profiling.averages import HOST
from tests.profiling.test_profile import floats, profiled


def test_operations_are_those_of_cost_analysis() -> None:
    f = dyn.jit(lambda x, w: dnp.tanh(x @ w))
    f(floats(2, 3), floats(3, 4))
    with dyn.profile() as prof:
        f(floats(20, 30), floats(30, 40))
        f(floats(5, 0), floats(0, 7))
    cost = f.lower(dyn.ShapeDtypeStruct(("m", "k"), "float32"), dyn.ShapeDtypeStruct(("k", "n"), "float32")).compile()
    for launch, (m, k, n) in zip(prof.events().launches, ((20, 30, 40), (5, 0, 7)), strict=True):
        assert launch.operations == {"float32": 2 * m * k * n}
        assert launch.flops == cost.cost_analysis({"m": m, "k": k, "n": n})["flops"]
        assert launch.nbytes == (4 * (m * k + k * n + m * n))
    first = prof.events().launches[0]
    assert first.gflops == 2 * 20 * 30 * 40 / first.duration_ns
    row = next(row for row in prof.key_averages() if row.kernel != HOST)
    assert row.flops == 2 * 20 * 30 * 40
    assert row.gflops == row.flops / row.total_ns


def test_loops_in_pieces_count_the_elements_that_there_are() -> None:
    # 9,000 places are two pieces of 8,192 at most: a table that is larger is read at 9,000.
    f = dyn.jit(lambda x, at: x[at])
    x, at = floats(1 << 16), np.arange(9000, dtype=np.int64)
    f(x, at)
    with dyn.profile() as prof:
        f(x, at)
    assert [launch.nbytes for launch in prof.events().launches] == [9000 * (8 + 4 + 4)]


def test_each_dtype_is_counted_apart() -> None:
    f = dyn.jit(lambda x, y: (x * 2 + 1, y * y))
    x, y = floats(5), floats(5).astype("f8")
    f(x, y)
    with dyn.profile() as prof:
        f(x, y)
    found: dict[str, int] = {}
    for launch in prof.events().launches:
        assert launch.operations is not None
        for name, count in launch.operations.items():
            found[name] = found.get(name, 0) + count
    assert found == {"float32": 10, "float64": 5}


def test_of_launches_in_parts_the_first_has_the_operations() -> None:
    f = dyn.jit(dnp.sum)
    x = floats(300_000)
    with config.override(variants="all"):
        f(x)
    with dyn.profile() as prof:
        f(x)
    launches = prof.events().launches
    assert [launch.kernel.variant for launch in launches] == ["reduce, parts", "reduce, parts joined"]
    assert [launch.flops for launch in launches] == [300_000, None]
    assert prof.key_averages().table(sort_by="gflops").count("reduce, parts") == 2


def test_a_row_is_held_against_what_the_machine_needs_longer_for(monkeypatch: pytest.MonkeyPatch) -> None:
    prof = profiled()
    row = next(row for row in prof.key_averages() if row.kernel != HOST)
    asked: list[tuple[str, int]] = []

    def bandwidth(level: str, threads: int) -> float:
        asked.append((level, threads))
        return 2.0

    peaks = {"float32": 1e9, "float64": 1e9}
    monkeypatch.setattr(limits, "bandwidth_limit", bandwidth)
    monkeypatch.setattr(limits, "flops_limit", lambda element, threads: peaks[element])
    assert row.nbytes is not None
    assert row.share_of_limit == pytest.approx(row.nbytes / 2 / row.total_ns)
    with config.override(num_threads=1):
        assert row.share_of_limit is not None
    assert set(asked) == {("L1", limits.all_threads()), ("L1", 1)}
    peaks["float32"] = 0.5
    assert row.flops is not None
    assert row.share_of_limit == pytest.approx(row.flops / 0.5 / row.total_ns)
    assert f"{100 * row.share_of_limit:.0f}%" in prof.key_averages().table()
    host = next(row for row in prof.key_averages() if row.kernel == HOST)
    assert host.share_of_limit is None


def test_operations_of_eight_bytes_are_held_against_those_of_float64() -> None:
    limit = {"float32": 10.0, "float64": 5.0}.__getitem__
    operations = {"float32": 100, "bfloat16": 10, "int8": 10, "float64": 10, "int64": 5, "bool": 0}
    assert limits.computing_ns(operations, limit) == 120 / 10 + 15 / 5
    assert limits.computing_ns({}, limit) == 0


def test_nothing_is_measured_before_a_table_is_made() -> None:
    code = (
        "import sys, numpy as np, dyn\n"
        "f = dyn.jit(lambda x: x * 2)\n"
        "with dyn.profile() as prof: f(np.ones(8, 'f4'))\n"
        "rows = prof.key_averages()\n"
        "print('dyn.profiling.limits' in sys.modules, rows[0].flops)\n"
    )
    root = Path(__file__).parents[2]
    found = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert found.stdout in ("False 8\n", "False None\n")  # the host program may have taken longer


def test_limits_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_SECONDS", 1e-4)
    for level in ("L1", "L2"):
        assert limits.bandwidth("read", limits.bytes_to_measure(level, 1, 0), 1, 1) > 0
    assert all(limits.gflops(element, threads, 1) > 0 for element in ("float32", "float64") for threads in (1, 2))
