"""Options that several benchmarks have, declared once."""

from __future__ import annotations

import argparse
from collections.abc import Collection


def add_stream_options(
    parser: argparse.ArgumentParser, *, threads: int = 1, shapes: int = 100, layers: int = 12,
    hidden: int | None = None, peers: str | None = None, seeds: str = "shapes and tokens", steps: int = 3,
) -> None:  # fmt: skip
    """Declare the options of a benchmark that serves a stream of shapes, with its own defaults: ``--threads``,
    ``--shapes``, ``--layers``, ``--seed``, ``--repeats``, and ``--peers`` and ``--hidden`` where it has them."""
    if peers is not None:
        parser.add_argument("--peers", default=peers, help="whom to run beside dyn (default: %(default)s)")
    parser.add_argument(
        "--threads", type=int, default=threads, help="threads and CPUs of each peer (default: %(default)s)"
    )
    parser.add_argument("--shapes", type=int, default=shapes, help="number of shapes (default: %(default)s)")
    parser.add_argument("--layers", type=int, default=layers, help="layers of the model (default: %(default)s)")
    if hidden is not None:
        parser.add_argument(
            "--hidden", type=int, default=hidden, help="features; BERT-base has 768 (default: %(default)s)"
        )
    parser.add_argument("--seed", type=int, default=0, help=f"of {seeds} (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=steps, help="warm runs of each shape (default: %(default)s)")


def check_stream_options(arguments: argparse.Namespace) -> None:
    """Raise ValueError for numbers that make no benchmark."""
    if arguments.repeats < 1 or arguments.shapes < 1:
        raise ValueError("--repeats and --shapes must be at least 1.")


def words(text: str) -> list[str]:
    """The words of an option that takes several, with commas between."""
    return [word.strip() for word in text.split(",") if word.strip()]


def check_words(*options: tuple[str, list[str], Collection[str]]) -> None:
    """Raise ValueError for the first word that an option does not know: of each what it names, the words, the known."""
    for what, given, known in options:
        for name in given:
            if name not in known:
                raise ValueError(f"there is no {what} {name!r}; there are {', '.join(known)}.")
