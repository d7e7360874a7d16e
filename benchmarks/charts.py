"""``python -m benchmarks report``: draw the charts of docs/performance.md from the tables of the record.

A chart takes its figures from the section that the last run of a benchmark (``--markdown``) was put into, by the names
of its columns, and a machine's name only where the section has it. Tests compare the pictures with the record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.record import Section, number, row, section
from benchmarks.report import Report, Table
from benchmarks.svg import Bar, Ratios, Strip, bars, ratios, strips

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
#: How those that are compared are called in charts, by the heads of their columns.
PEERS = {
    "torch": "PyTorch", "torchcompile": "torch.compile", "inductor": "torch.compile", "jax": "JAX", "jax.jit": "JAX",
    "onnxruntime": "ONNX Runtime", "numpy": "NumPy", "tffunction": "tf.function", "tfxla": "TensorFlow's XLA",
    "keras": "tf.function", "PyTorch": "PyTorch", "OpenBLAS (SciPy's)": "NumPy",
}  # fmt: skip


@dataclass(frozen=True)
class Stream:
    """A table of what a stream of shapes took: where it is, how it is called, and the machine and its threads."""

    page: str
    title: str
    table: str | int
    label: str
    machine: str
    threads: str
    #: The column of dyn, and how many columns after it are others'.
    first: int = 1
    others: int | None = None

    def ratios(self, measured: str) -> Ratios:
        """How many times what dyn took the others took; one that took nothing is left out."""
        place = section(self.page, self.title)
        table = place.table(self.table)
        cells, dyn = row(table, measured), self.first
        end = len(cells) if self.others is None else dyn + 1 + self.others
        pairs = [(PEERS[table.header[at]], cells[at]) for at in range(dyn + 1, end)]
        return Ratios(
            f"{self.label} · {machine(place, self.machine)}, {self.threads}",
            tuple((peer, value / _known(cells[dyn])) for peer, value in pairs if value),
        )


_BERT = "shape_stream: 12-layer BERT over 100 shapes"
_JAX = "jax_stream: JAX programs over 100 shapes"
_OTHER_MACHINE = "shape_stream on another machine, five peers"
_HF = "torch_models: a BERT of Hugging Face over 20 shapes"
_KERAS = "tf_models: a Transformer of Keras over a stream of shapes"
_EPYC, _XEON, _XEON_BY_ITSELF = "AMD EPYC", "Intel Xeon", "Intel(R) Xeon(R)"
STREAMS = (
    Stream("streams", _BERT, "In all", "BERT, 100 shapes", _EPYC, "1 thread"),
    Stream("streams", _OTHER_MACHINE, "In all", "BERT, 40 shapes", _XEON_BY_ITSELF, "1 thread"),
    Stream("streams", "shape_stream on two threads", "In all", "BERT, 16 shapes", _XEON_BY_ITSELF, "2 threads"),
    Stream("streams", _JAX, 0, "JAX encoder, 100 shapes", _XEON, "1 thread", 1, 1),
    Stream("streams", _JAX, 0, "JAX perceptron, 100 shapes", _XEON, "1 thread", 4, 1),
    Stream("streams", _HF, "In all", "Hugging Face BERT, 20 shapes", _EPYC, "2 threads"),
    Stream("streams", _KERAS, "In all", "Keras, 20 shapes", _EPYC, "2 threads"),
)


def machine(place: Section, name: str) -> str:
    """A machine's name for people, which the section has to have.

    Raises:
        ValueError: if the section speaks of no such machine.
    """
    if name not in place.text:
        raise ValueError(f"{place.page}, {place.title!r} has no machine {name!r}.")
    return name.replace("(R)", "")


def stream() -> str:
    table = section("streams", _BERT).table("In all")
    totals, compiling, compiles = (row(table, name) for name in ("first touch, s", "compiling, s", "compiles"))
    rows: list[Bar] = []
    for at, head in enumerate(table.header[1:], 1):
        total, making, count = (_known(cells[at]) for cells in (totals, compiling, compiles))
        text = f"{total:.0f} s" + (f", {count:.0f} compile{'s' * (count != 1)}" if count else "")
        color = "dyn" if head == "dyn" else "other"
        label = {"dyn": "dyn", "torch": "PyTorch, eager", "jax": "jax.jit"}[head]
        rows.append(Bar(label, (("compiling", making), (color, total - making)), text))
    return bars("A 12-layer BERT meets 100 shapes: seconds, each shape once", rows, ["compiling"], 560)


def first_touch() -> str:
    return ratios("Every shape once, compiling included", [s.ratios("first touch, s") for s in STREAMS])


def steady() -> str:
    return ratios("The same shapes again, warm", [s.ratios("steady, s") for s in STREAMS])


def compiling() -> str:
    return ratios("Compiling for all shapes, where others compile", [r for r in _compiling() if r.ratios])


def _compiling() -> Iterable[Ratios]:
    return (s.ratios("compiling, s") for s in STREAMS)


def compile_times() -> str:
    """The last table of the section on BERT, and that on a training step."""
    bert = section("compiling", "Compiling BERT-base")
    tables = [table for table in bert.tables() if table.header[1:] == ("cold", "from disk", "from memory")]
    step = section("compiling", "Compiling a training step").table(0)
    machine(section("compiling", "Compiling a training step"), _XEON)
    rows: list[Bar] = []
    for label, cells in (("BERT-base", row(tables[-1], "all")), ("step of GPT-2", row(step, "gpt_step, 65 kernels"))):
        for way, value in zip(("cold", "from disk", "from memory"), cells[1:], strict=True):
            said = f"{_known(value) / 1000:.2f} s, {way}"
            rows.append(Bar(label if way == "cold" else "", (("dyn", _known(value)),), said))
    return bars("Compiling, tracing included: seconds on an Intel Xeon", rows)


def memory_bound() -> str:
    place = section("memory_bound", "Memory-bound programs, where they stand")
    table = place.table(0)
    programs = [cells for cells in table.rows if cells[0] not in ("geometric mean", "least")]
    rows = [
        Strip(head.replace("2 t", "2 threads").replace("1 t", "1 thread"), "dyn", _numbers(programs, at))
        for at, head in enumerate(table.header[1:], 1)
    ]
    return strips(f"{len(programs)} memory-bound programs: dyn beside the best other, {machine(place, _XEON)}", rows)


def contractions() -> str:
    rows: list[Strip] = []
    place = section("contractions", "Contractions, one thread, float32, GFLOP/s")
    table = place.table(0)
    for at in (3, 2):
        by = {r[0]: (number(r[1]), number(r[at])) for r in table.rows}
        name = {"PyTorch": "PyTorch", "OpenBLAS (SciPy's)": "OpenBLAS"}[table.header[at]]
        rows.append(Strip(f"{name}, AVX-512", PEERS[table.header[at]], _over(by)))
    place = section("contractions", "Contractions on Intel's AVX-512")
    name, table = machine(place, "Cascade Lake"), place.table(1)
    by: dict[str, tuple[float | None, float | None]] = {}
    for at, matrix in ((1, "768×768"), (4, "768×3072"), (7, "3072×768")):
        by |= {f"{cells[0]} × {matrix}": (number(cells[at + 1]), number(cells[at + 2])) for cells in table.rows}
    rows.append(Strip(f"PyTorch, {name}", "PyTorch", _over(by)))
    place = section("contractions", "Linear algebra")
    name, table = machine(place, _XEON), place.table(0)
    for head in ("numpy", "jax"):
        at, dyn = table.header.index(head), table.header.index("dyn")
        by = {cells[0]: (number(cells[at]), number(cells[dyn])) for cells in table.rows}
        rows.append(Strip(f"{PEERS[head]}, LAPACK, {name}", PEERS[head], _over(by)))
    return strips("Contractions, linear algebra, one thread", rows)


def training() -> str:
    place = section("training", "torch_train: a step of training a BERT of Hugging Face")
    name = machine(place, _EPYC)
    rows = [
        Ratios(f"BERT of PyTorch, {r.label} tokens · {name}", r.ratios)
        for r in _ratios_of(place.table("CPU milliseconds a step"), "dyn", ("torch", "inductor"))
    ]
    place = section("streams", _KERAS)
    steps = place.table("CPU milliseconds a step of fit")
    rows += [
        Ratios(f"Keras's fit, {r.label} tokens · {machine(place, _EPYC)}", r.ratios)
        for r in _ratios_of(steps, "dyn", ("keras",))
    ]
    return ratios("A step of training, CPU time, one thread", rows)


def dispatch() -> str:
    place = section("dispatch", "Dispatch: what a warm call costs")
    table = place.table("A warm call, ns")
    names = {
        "numpy": "NumPy", "torch": "PyTorch, eager", "inductor": "torch.compile", "jax.jit": "jax.jit",
        "jax": "JAX, eager",
    }  # fmt: skip
    colors = {"numpy": "NumPy", "torch": "PyTorch", "inductor": "torch.compile", "jax.jit": "JAX", "jax": "JAX"}
    dyn = table.header.index("dyn")
    rows: list[Strip] = []
    for head, name in names.items():
        at = table.header.index(head)
        by = _over({cells[0]: (number(cells[at]), number(cells[dyn])) for cells in table.rows})
        rows.append(Strip(f"{name}, {len(by)} calls", colors[head], by))
    return strips(f"Warm calls of little work, {machine(place, _EPYC)}", rows)


def _ratios_of(table: Table, dyn: str, others: tuple[str, ...]) -> list[Ratios]:
    """A row for each size, but for means."""
    at = table.header.index(dyn)
    return [
        Ratios(
            cells[0],
            tuple(
                (PEERS[head], _known(number(cells[table.header.index(head)])) / _known(number(cells[at])))
                for head in others
            ),
        )
        for cells in table.rows
        if number(cells[at]) is not None
    ]


def _numbers(rows: Iterable[tuple[str, ...]], at: int) -> Mapping[str, float]:
    return {cells[0]: _known(number(cells[at])) for cells in rows}


def _over(by: Mapping[str, tuple[float | None, float | None]]) -> dict[str, float]:
    """The first over the second, where both were measured."""
    return {name: a / b for name, (a, b) in by.items() if a is not None and b is not None}


def _known(value: float | None) -> float:
    if value is None:
        raise ValueError("a figure that a chart shows is no number")
    return value


#: The pictures, by the names of their files, and what draws them.
CHARTS: dict[str, Callable[[], str]] = {
    "stream": stream, "performance_first_touch": first_touch, "performance_steady": steady,
    "performance_memory_bound": memory_bound, "performance_contractions": contractions,
    "performance_training": training, "performance_dispatch": dispatch, "performance_compiling": compiling,
    "performance_compile_times": compile_times,
}  # fmt: skip


def draw() -> Report:
    """Draw all charts into docs/images, and say which changed."""
    rows: list[tuple[str, ...]] = []
    for name, chart in CHARTS.items():
        path, picture = IMAGES / f"{name}.svg", chart()
        old = path.read_text(encoding="utf-8") if path.exists() else None
        if old != picture:
            path.write_text(picture, encoding="utf-8")
        rows.append((path.name, "as it was" if old == picture else "drawn"))
    return Report("Charts of docs/performance.md", (Table("docs/images", ("chart", ""), tuple(rows)),), ())
