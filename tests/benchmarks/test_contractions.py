"""``python -m benchmarks contractions``: its products, its peers, turns and tables of peers that are made up, a run."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from benchmarks.machine import wait_for_rest
from benchmarks.memory import limits
from benchmarks.memory.limits import Limits
from benchmarks.peers import peer_names
from benchmarks.process import PeerMissing, WorkerError
from benchmarks.products import measuring
from benchmarks.products.measuring import Measurement, Plan, Timing, count_weights, distance
from benchmarks.products.product import Product
from benchmarks.products.rotation import Rotation
from benchmarks.products.shapes import FLOAT32, PRODUCTS, QUICK
from benchmarks.suites import contractions
from benchmarks.tree import load_tree
from benchmarks.worker import Server

FRAMEWORKS = ["dyn", "jax", "onednn", "onnxruntime", "openblas", "torch"]


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    contractions.add_arguments(parser)
    return parser.parse_args(words)


# ---- products --------------------------------------------------------------------------------------------------------


def test_the_products() -> None:
    assert len(FLOAT32) == 60
    assert {product.dtype for product in FLOAT32.values()} == {"float32"}
    assert {min(product.rows, product.depth) for product in FLOAT32.values()} >= {1, 2, 4, 8, 16, 37, 2048}
    assert max(product.rows for product in FLOAT32.values()) == 4096
    assert all(name == product.name for name, product in PRODUCTS.items())
    assert set(QUICK) <= set(PRODUCTS)
    # A narrow product has its float32 beside it.
    assert all(product.in_float32().name in PRODUCTS for product in PRODUCTS.values())
    kinds = {product.kind for product in PRODUCTS.values()}
    assert kinds == {PRODUCTS[name].kind for name in QUICK} | {
        "bfloat16, few rows, captured", "float16, few rows, captured", "int8, few rows", "int8, few rows, captured",
        "int8, many rows, captured", "int8 weights, scales by columns, many rows",
        "int8 weights, scales by columns, many rows, captured", "int8 weights, scales by groups, few rows, captured",
        "int8 weights, scales by groups, many rows", "int8 weights, scales by groups, many rows, captured",
    }  # fmt: skip


def test_the_arithmetic_of_a_product() -> None:
    product = Product(4, 256, 32, dtype="bfloat16", transposed_right=True, captured=True)
    assert product.name == "bfloat16 4x256x32 w.T captured"
    assert product.kind == "bfloat16, few rows, captured"
    assert (product.flops, product.weight_bytes) == (2 * 4 * 256 * 32, 2 * 256 * 32)
    assert product.nbytes == 2 * (256 * 32 + 4 * 256 + 4 * 32)
    batched = Product(4, 8, 16, 3)
    assert batched.name == "float32 3 of 4x8x16"
    assert batched.nbytes == 4 * 3 * (4 * 8 + 8 * 16 + 4 * 16)
    assert Product(64, 256, 32, dtype="int8").nbytes == 64 * 256 + 256 * 32 + 4 * 64 * 32
    columns, groups = (Product(64, 256, 32, scales=scales) for scales in ("columns", "groups"))
    assert columns.name == "int8*columns 64x256x32"
    assert (columns.weight_bytes, groups.weight_bytes) == (256 * 32 + 4 * 32, 256 * 32 + 4 * 2 * 32)
    assert columns.in_float32() == Product(64, 256, 32)
    assert Product(8, 8, 8, transposed_left=True).kind == "float32, gradients"


def test_few_rows_take_weights_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "cache_sizes", lambda: {"L3": 1 << 20})
    assert count_weights(Product(8, 256, 256)) == 8  # of 256 KiB each, twice 1 MiB
    assert count_weights(Product(9, 256, 256)) == 1
    assert count_weights(Product(1, 1024, 2048)) == 2
    assert count_weights(Product(1, 8, 8)) == 64


def test_weights_differ() -> None:
    tree = Product(2, 8, 16, dtype="bfloat16").make(3)
    assert [float(weight.flat[0]) for weight in tree["weights"]] == [0, 1, 2]
    assert tree["x"].dtype == tree["weights"][0].dtype == "bfloat16"


def test_distances() -> None:
    assert distance(np.array([[1.0, 4.0]]), np.array([[2.0, 4.0]])) == 0.25
    assert distance(np.array([1.0]), np.array([[1.0]])) == np.inf
    assert np.isnan(distance(np.array([np.nan]), np.array([1.0])))


SMALL = [
    Product(1, 128, 24),
    Product(1, 128, 24, transposed_right=True),
    Product(5, 128, 24, captured=True),
    Product(9, 128, 24, transposed_right=True, captured=True),
    Product(3, 16, 7, 4),
    Product(9, 16, 7, 4, transposed_right=True),
    Product(24, 5, 40, transposed_left=True),
    Product(2, 128, 24, dtype="bfloat16"),
    Product(2, 128, 24, dtype="bfloat16", transposed_right=True, captured=True),
    Product(2, 128, 24, dtype="float16"),
    Product(16, 128, 24, dtype="int8"),
    Product(16, 128, 24, dtype="int8", captured=True),
    *[Product(2, 256, 24, scales=s, captured=c) for s in ("columns", "groups") for c in (False, True)],
    Product(1, 256, 24, scales="columns", captured=True),
]
#: What a library has no product for; float16 oneDNN has on some processors.
LACKS: dict[str, Callable[[Product], bool]] = {
    "onnxruntime": lambda product: product.dtype == "bfloat16",
    "openblas": lambda product: product.dtype != "float32" or bool(product.scales),
    "onednn": lambda product: product.dtype in ("float16", "bfloat16") or bool(product.scales),
}


def test_names_of_peers() -> None:
    assert peer_names("product") == FRAMEWORKS


@pytest.fixture
def pytorch_as_it_was(require_module: Callable[[str], ModuleType]) -> Iterator[None]:
    """What a peer sets in a process of its own is set back in that of the tests."""
    torch = require_module("torch")
    threads, gradients = torch.get_num_threads(), torch.is_grad_enabled()
    yield
    torch.set_num_threads(threads)
    torch.set_grad_enabled(gradients)


@pytest.mark.usefixtures("pytorch_as_it_was")
@pytest.mark.parametrize(
    "framework",
    [name if name in ("dyn", "jax", "torch") else pytest.param(name, marks=pytest.mark.bench) for name in FRAMEWORKS],
)
def test_a_peer_agrees_with_float64(framework: str, require_module: Callable[[str], ModuleType]) -> None:
    """With each of its weights, in turn."""
    peer_class = require_module(f"benchmarks.peers.{framework}_product").Peer
    versions = ""
    for product in SMALL:
        tree = product.make(2)
        second = {**tree, "weights": tree["weights"][1:]}
        try:
            peer: Rotation = peer_class(asdict(product), tree, 1)
        except NotImplementedError:
            assert LACKS[framework](product)
            continue
        assert len(peer) == 2
        for wanted in (tree, second, tree):
            error = distance(peer.to_numpy(peer()), product.reference(wanted))
            assert error <= product.tolerance, (product.name, error)
        assert peer.compiled() == (0, 0.0)
        versions = peer.versions()
    assert versions


# ---- turns and tables ------------------------------------------------------------------------------------------------


MISSING = "ModuleNotFoundError: No module named 'scipy_openblas32'"


class MadeUp:
    """A worker whose products take a time that is known, or are wrong, or missing."""

    #: Who was asked for a burst, in order.
    bursts: list[str]

    def __init__(self, seconds: dict[str, float], framework: str) -> None:
        self.seconds, self.framework = seconds, framework

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        if do == "load":
            if self.framework == "openblas":
                raise PeerMissing("openblas failed", f"{MISSING}\nand more")
            self.product, self.tree = Product(**request["config"]), load_tree(Path(request["params"]))
            if self.framework == "onednn" and self.product.scales:
                raise WorkerError("onednn failed", "NotImplementedError: it has no scales")
            return {"versions": f"{self.framework} 1.0"}
        if do == "run":
            wrong = 1.0 if self.framework == "torch" and self.product.transposed_right else 0.0
            np.save(request["output"], self.product.reference(self.tree) + wrong)
            return {}
        if do == "settle":
            return {}
        assert do == "burst"
        self.bursts.append(self.framework)
        seconds = self.seconds[self.framework] * (0.9 if self.product.dtype == "bfloat16" else 1.0)
        return {"seconds": seconds, "cpu_seconds": seconds / 2}

    def __enter__(self) -> MadeUp:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


def made_up(
    products: Sequence[Product], seconds: dict[str, float], threads: Sequence[int] = (1,), *, cpu_time: bool = False
) -> Measurement:
    MadeUp.bursts = []
    plan = Plan(products, list(seconds), rounds=3, cpu_time=cpu_time)
    measurement = Measurement(plan, lambda framework, cpus: MadeUp(seconds, framework))
    for count in threads:
        measurement.run(count)
    return measurement


TIMES = {"dyn": 2e-6, "jax": 4e-6, "onednn": 1e-6, "openblas": 1e-7, "torch": 1e-6}
FEW, WIDE, MANY, SCALED = (
    Product(2, 128, 32, dtype="bfloat16"), Product(2, 128, 32), Product(16, 128, 32, transposed_right=True),
    Product(2, 128, 32, scales="columns"),
)  # fmt: skip
LIMITS = Limits({}, {("beyond", 1): 20.0, ("beyond", 2): 40.0}, {("float32", 1): 100.0, ("float32", 2): 200.0})


def test_peers_take_turns() -> None:
    measurement = made_up([WIDE], TIMES)
    assert MadeUp.bursts == [
        "dyn", "jax", "onednn", "torch", "jax", "onednn", "torch", "dyn", "onednn", "torch", "dyn", "jax",
    ]  # fmt: skip
    assert measurement.missing == {"openblas": MISSING}
    (timing,) = measurement.timings
    assert timing.seconds == {who: [TIMES[who]] * 3 for who in ("dyn", "jax", "onednn", "torch")}
    assert timing.errors == dict.fromkeys(timing.seconds, 0.0)


def test_ratios_rates_and_shares() -> None:
    few = Timing(FEW, 1, seconds={"dyn": [9e-6, 1e-6, 2e-6], "jax": [3e-6]})
    assert few.ratio == pytest.approx(1.5)
    assert few.rate("dyn") == pytest.approx(FEW.nbytes / 2e-6 / 1e9)
    assert few.share(LIMITS) == pytest.approx(FEW.nbytes / 2e-6 / 20e9)
    many = Timing(MANY, 2, seconds={"dyn": [4e-6]}, cpu_seconds={"dyn": [8e-6]})
    assert many.ratio is None
    assert many.share(LIMITS) == pytest.approx(MANY.flops / 4e-6 / 200e9)
    assert replace(many, by_cpu_time=True).medians == {"dyn": 8e-6}
    assert Timing(MANY, 2, seconds={"jax": [1.0]}).ratio is None
    assert many.rate("jax") is None


def test_the_report() -> None:
    measurement = made_up([FEW, WIDE, MANY, SCALED], TIMES, (2, 1))
    report = contractions.report(measurement, LIMITS, options(), 0.0)
    machine, narrow, *_, means, lost = report.tables
    assert machine.rows == (
        ("read from memory, GB/s", "40.0", "20.0"), ("multiply-adds of float32, GFLOP/s", "200", "100"),
    )  # fmt: skip
    assert [table.title for table in report.tables[1:-2]] == [
        f"{kind}, {threads}"
        for kind in (
            "bfloat16, few rows",
            "float32, few rows",
            "float32, many rows",
            "int8 weights, scales by columns, few rows",
        )
        for threads in ("2 threads", "1 thread")
    ]
    assert narrow.header == (
        "GB/s", "dyn", "jax", "onednn", "torch", "best other / dyn", "of the limit", "dyn, × its float32",
    )  # fmt: skip
    assert narrow.rows == (("bfloat16 2x128x32", "4.9", "2.5", "9.8", "9.8", "0.50", "0.12", "1.11"),)
    many, scaled = report.tables[6], report.tables[8]
    assert many.rows == (("float32 16x128x32 w.T", "65.5", "32.8", "131.1", "–", "0.50", "0.66"),)
    assert scaled.rows[0][3] == "–"
    assert means.header == (
        "class, threads", "rows", "best other", "least", "jax", "onednn", "torch", "of the limit", "× float32",
    )  # fmt: skip
    assert means.rows[0] == ("bfloat16, few rows, 2 t", "1", "0.50", "0.50", "2.00", "0.50", "0.50", "0.12", "1.11")
    assert means.rows[4] == ("float32, many rows, 2 t", "1", "0.50", "0.50", "2.00", "0.50", "–", "0.33", "–")
    assert lost.title == "Rows below 0.97"
    assert lost.rows[0] == ("bfloat16 2x128x32, 2 t", "0.50", "1.8", "0.9", "onednn")
    assert len(lost.rows) == 8
    data = json.loads(report.json())
    assert data["limits"] == {"2": {"read": 40.0, "gflops": 200.0}, "1": {"read": 20.0, "gflops": 100.0}}
    assert data["rows"][0]["ratio"] == pytest.approx(0.5)
    assert data["rows"][0]["seconds"]["dyn"] == pytest.approx([1.8e-6] * 3)


def test_what_was_left_out_is_said() -> None:
    """So is a machine that was busy: processes that are made up compute for half of their time."""
    measurement = made_up([WIDE, MANY, SCALED], TIMES, (2, 1), cpu_time=True)
    notes = contractions.report(measurement, LIMITS, options(), 0.0).notes
    assert notes[1:3] == (
        "With one thread, times are those on the CPU, the machine's too.",
        "The machine was busy: with one thread, peers computed for 50% of their time. Times by the clock tell little "
        "then, those of two threads least.",
    )
    assert notes[-3:] == (
        f"Not installed: openblas ({MISSING}).",
        "Left out: torch, the result is wrong, by 2.0e-02: float32 16x128x32 w.T, 2 t and 1 more.",
        "Left out: onednn, it has no scales: int8*columns 2x128x32, 2 t and 1 more.",
    )


def test_two_runs(tmp_path: Path) -> None:
    paths: list[str] = []
    for number, own in enumerate((2e-6, 1.5e-6, 0.5e-6)):
        others = {"jax": 1e-6 if number else 1.9e-6, "torch": 1e-9}
        measurement = made_up([WIDE, FEW, SCALED], {"dyn": own, **others})
        measurement.timings[2].seconds["dyn"] = [1e-6] if number == 1 else [9.0]
        path = tmp_path / f"{number}.json"
        path.write_text(contractions.report(measurement, LIMITS, options(), 1.0).json(), encoding="utf-8")
        paths.append(str(path))
    report = contractions.run(options("--peers", "jax", "--compare", *paths[:2]))
    assert report.tables[0].title == "Rows below 0.97 in two runs"
    assert report.tables[0].rows == (
        ("float32 2x128x32, 1 t", "0.95", "0.67"), ("bfloat16 2x128x32, 1 t", "0.95", "0.67"),
    )  # fmt: skip
    assert report.notes[0] == "3 rows in both runs; 2 lost in both, 1 in one alone, which do not count."
    assert contractions.run(options("--peers", "jax", "--compare", paths[0], paths[2])).tables[0].rows == (
        ("int8*columns 2x128x32, 1 t", "0.00", "0.00"),
    )
    assert len(contractions.run(options("--compare", *paths[:2])).tables[0].rows) == 3  # PyTorch is quicker
    other = {"machine": "another", "load": 0.0, "rows": json.loads(Path(paths[0]).read_text(encoding="utf-8"))["rows"]}
    first = json.loads(Path(paths[0]).read_text(encoding="utf-8"))
    assert contractions.compare(first, other, ["dyn", "jax"]).notes[-1] == "The machines differ."
    with pytest.raises(ValueError) as nothing:
        contractions.compare(first, {**other, "rows": []}, ["dyn", "jax"])
    assert str(nothing.value) == "the two runs have no row in common."


# ---- processes -------------------------------------------------------------------------------------------------------


def test_bursts_of_a_server() -> None:
    """All weights are called with until nothing is compiled behind the calls; a burst goes on where the last ended."""
    server, asked = Server(), list[int]()
    server.peer = Rotation([lambda at=at: asked.append(at) for at in range(3)], "none")
    assert server.settle() == {}
    assert asked == [0, 1, 2] * 3
    answer = server.burst(0.0)
    assert asked[9:] == [0, 1]  # one before the burst, and one in it
    assert answer.keys() == {"seconds", "cpu_seconds"}
    assert answer["seconds"] > 0


def test_who_is_at_rest_is_not_waited_for() -> None:
    wait_for_rest(0.5)
    wait_for_rest(0.0)


def test_a_small_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """dyn in a process of its own."""
    small = {"L1": 8 << 10, "L2": 32 << 10, "L3": 64 << 10}
    monkeypatch.setattr(limits, "cache_sizes", lambda: small)
    monkeypatch.setattr("dyn.profiling.limits.cache_sizes", lambda: small)
    monkeypatch.setattr(measuring, "cache_sizes", lambda: small)
    monkeypatch.setattr("dyn.profiling.limits._SECONDS", 1e-4)
    products = {product.name: product for product in (WIDE, FEW)}
    monkeypatch.setattr(contractions, "PRODUCTS", products)
    words = (
        "--peers",
        "",
        "--threads",
        "1",
        "--rounds",
        "2",
        "--burst-ms",
        "0.01",
        "--only",
        "*2x128x32",
        "--cpu-time",
    )
    report = contractions.run(options(*words))
    rows = json.loads(report.json())["rows"]
    assert [row["name"] for row in rows] == list(products)
    for row in rows:
        assert len(row["seconds"]["dyn"]) == len(row["cpu_seconds"]["dyn"]) == 2
        assert not row["failed"]
        assert row["errors"]["dyn"] <= products[row["name"]].tolerance
        assert row["ratio"] is None
        assert row["share"] > 0
    assert report.tables[-1].rows == ()
    assert "dyn 0." in report.notes[0]


def test_rows_are_chosen_by_patterns() -> None:
    def names(only: str, *, quick: bool = False) -> list[str]:
        return [product.name for product in contractions.choose_products(only, quick=quick)]

    assert names("") == list(PRODUCTS)
    assert names("", quick=True) == [name for name in PRODUCTS if name in QUICK]
    assert names("float32 1024x1024x1024") == ["float32 1024x1024x1024"]
    assert names("int8 512x*, float16 8x* w.T") == [
        "float16 8x4096x4096 w.T", "float16 8x768x3072 w.T", "int8 512x768x3072", "int8 512x768x3072 captured",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--only", "float32 1*, complex"), "no row is 'complex'; there are rows as float32 1x768x3072, float32 "
         "4x768x3072 w.T, float32 8x4096x4096."),
        (("--peers", "mkl"), "there is no peer 'mkl' for product; there are dyn, jax, onednn, onnxruntime, openblas, "
         "torch."),
        (("--rounds", "0"), "--rounds must be at least 1, and so must each of --threads; --burst-ms must be more "
         "than 0."),
    ],
)  # fmt: skip
def test_bad_options(words: tuple[str, ...], text: str) -> None:
    with pytest.raises(ValueError) as wrong:
        contractions.run(options(*words))
    assert str(wrong.value) == text
