"""How products are timed: each peer in a process of its own, all in turn at one product, round by round."""

from __future__ import annotations

import dataclasses
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import choose_cpus
from benchmarks.memory.limits import Limits, cache_sizes
from benchmarks.process import PeerMissing, Worker, WorkerError
from benchmarks.products.product import Product
from benchmarks.tree import save_tree

#: Weights of few rows fill the last level of the caches so many times, and are at least and at most so many.
_CACHES, _LEAST_WEIGHTS, _MOST_WEIGHTS = 2, 2, 64


@dataclass
class Timing:
    """A product with a number of threads: seconds of a call in each round by who makes it, by the clock and on the CPU,
    which of the two counts, how far results were from the product in float64, by its greatest number, and who was left
    out, with the reason."""

    product: Product
    threads: int
    by_cpu_time: bool = False
    seconds: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    cpu_seconds: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    errors: dict[str, float] = field(default_factory=dict[str, float])
    failed: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of_data(cls, data: dict[str, Any], peers: Sequence[str]) -> Timing:
        """A timing as it was recorded, with no others than some peers."""
        seconds, cpu_seconds = (
            {who: data[name][who] for who in peers if who in data[name]} for name in ("seconds", "cpu_seconds")
        )
        return cls(Product(**data["product"]), data["threads"], data["by_cpu_time"], seconds, cpu_seconds)

    @property
    def medians(self) -> dict[str, float]:
        times = self.cpu_seconds if self.by_cpu_time else self.seconds
        return {who: statistics.median(rounds) for who, rounds in times.items()}

    @property
    def ratio(self) -> float | None:
        """The time of the quickest other over dyn's."""
        times = self.medians
        own = times.pop("dyn", None)
        return None if own is None or not times else min(times.values()) / own

    def rate(self, who: str) -> float | None:
        """GB/s of few rows, otherwise GFLOP/s."""
        seconds = self.medians.get(who)
        work = self.product.nbytes if self.product.is_few_rows else self.product.flops
        return None if seconds is None else work / seconds / 1e9

    def share(self, limits: Limits) -> float | None:
        """The part that dyn reaches of the bandwidth of reads from memory, or of multiply-adds of float32."""
        rate = self.rate("dyn")
        limit = (
            limits.read["beyond", self.threads] if self.product.is_few_rows else limits.gflops["float32", self.threads]
        )
        return None if rate is None else rate / limit


def count_weights(product: Product) -> int:
    """How many weights a product takes in turn: of few rows so many that they come from memory."""
    if not product.is_few_rows:
        return 1
    needed = math.ceil(_CACHES * cache_sizes()["L3"] / product.weight_bytes)
    return min(max(needed, _LEAST_WEIGHTS), _MOST_WEIGHTS)


@dataclass(frozen=True)
class Plan:
    """What is timed: products, who makes them, rounds, the seconds of a burst of calls, and whether one thread is timed
    by its CPU time, which others on the machine disturb less, and which tells nothing of two threads."""

    products: Sequence[Product]
    peers: Sequence[str]
    rounds: int
    seconds: float = 0.02
    cpu_time: bool = False


@dataclass
class Measurement:
    """Timings of a plan, versions of the peers, and those of which a package is missing, with its name."""

    plan: Plan
    start: Callable[[str, list[int]], Any] = Worker
    timings: list[Timing] = field(default_factory=list[Timing])
    versions: dict[str, str] = field(default_factory=dict[str, str])
    missing: dict[str, str] = field(default_factory=dict[str, str])

    def run(self, threads: int) -> None:
        """Time all products with so many threads; what each took is told on standard error."""
        cpus, began = choose_cpus(threads), time.perf_counter()
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dyn-bench-")))
            workers = {who: stack.enter_context(self.start(who, cpus)) for who in self.plan.peers}
            for product in self.plan.products:
                timing = Timing(product, threads, self.plan.cpu_time and threads == 1)
                self._time(timing, workers, folder)
                self.timings.append(timing)
                times = " ".join(f"{who} {1e6 * seconds:.1f}" for who, seconds in timing.medians.items())
                bad = " ".join(f"{who}: {why}" for who, why in timing.failed.items())
                passed = time.perf_counter() - began
                print(f"{passed:6.0f} s  {product.name}, {threads} t, µs: {times} {bad}", file=sys.stderr, flush=True)

    def _time(self, timing: Timing, workers: dict[str, Any], folder: Path) -> None:
        product = timing.product
        tree = product.make(count_weights(product))
        path = folder / "arrays.safetensors"
        save_tree(tree, path)
        expected = product.reference(tree)
        # Each loads, and compiles what it compiles, before another is timed.
        ready = [who for who in workers if who not in self.missing]
        ready = [who for who in ready if self._is_right(timing, workers[who], path, expected)]
        for turn in range(self.plan.rounds):
            place = turn % max(len(ready), 1)
            for who in [*ready[place:], *ready[:place]]:
                answer = workers[who].ask("burst", seconds=self.plan.seconds)
                timing.seconds.setdefault(who, []).append(answer["seconds"])
                timing.cpu_seconds.setdefault(who, []).append(answer["cpu_seconds"])

    def _is_right(self, timing: Timing, worker: Any, arrays: Path, expected: np.ndarray) -> bool:
        """Return True if a peer has the product, and its result is right; otherwise note why it is left out."""
        who, output = worker.framework, arrays.with_name("result.npy")
        config = dataclasses.asdict(timing.product)
        try:
            answer = worker.ask(
                "load", framework=who, program="product", config=config, params=str(arrays), threads=timing.threads
            )
            self.versions[who] = answer["versions"]
            worker.ask("run", inputs=None, output=str(output))
            timing.errors[who] = distance(np.load(output), expected)
            if timing.errors[who] <= timing.product.tolerance:
                worker.ask("settle")
                return True
            timing.failed[who] = f"the result is wrong, by {timing.errors[who]:.1e}"
        except PeerMissing as error:
            self.missing[who] = error.reason
        except WorkerError as error:
            timing.failed[who] = error.reason
        return False


def distance(result: np.ndarray, expected: np.ndarray) -> float:
    """The greatest difference, over the greatest number that is expected; infinite where the shapes differ."""
    if result.shape != expected.shape:
        return math.inf
    scale = max(float(np.abs(expected).max(initial=0.0)), 1e-30)
    return float(np.abs(result.astype(np.float64) - expected).max(initial=0.0)) / scale
