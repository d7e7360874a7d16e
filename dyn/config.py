"""dyn's settings: one frozen record, read from the environment in this file alone.

``dyn.config.current()`` is the record in force; ``with dyn.config.override(verify_ir=True): ...`` changes it for the
enclosed code and the current context only.
"""

from __future__ import annotations

import contextlib
import operator
import os
import re
import warnings
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

from dyn.errors import ArgumentError

__all__ = ["Config", "current", "override"]

#: What ``DYN_LOG`` may name.
TOPICS = ("compile", "guards", "cache")
#: What ``DYN_VARIANTS`` may be.
VARIANTS = ("background", "all", "none")


@dataclass(frozen=True, slots=True)
class Config:
    """The settings, each with the environment variable that sets its first value."""

    #: ``DYN_DUMP``: a folder into which the text after each pass of each program is written, with an index; ``""`` for
    #: none.
    dump: str = ""
    #: ``DYN_VERIFY``: whether the verifier runs after every pass.
    verify_ir: bool = False
    #: ``DYN_DEFAULT_FLOAT``: the dtype of creation functions and of Python floats that meet no array.
    default_float: str = "float32"
    #: ``DYN_TARGET_CPU``: an LLVM CPU name to generate x86 code for; ``""`` for this machine's.
    target_cpu: str = ""
    #: ``DYN_DEBUG_NANS``: whether the first NaN that an operation makes is a ``NotFiniteError``. Programs that check
    #: are slow.
    debug_nans: bool = False
    #: ``DYN_DEBUG_INFS``: the same of infinities.
    debug_infs: bool = False
    #: ``DYN_RED_ZONES``: whether programs look, after each kernel and each call of a library or an external function,
    #: for writes beside the intermediate arrays: an ``OverrunError`` says which it was.
    red_zones: bool = False
    #: ``DYN_OPTIMIZE``: whether LLVM takes its time for quick code. Without, kernels compile in a third of the time and
    #: run two to three times slower; results are the same to the last bit.
    optimize: bool = True
    #: ``DYN_BATCH_INVARIANT``: whether a row of a product of matrices has the same bits however many rows there are:
    #: sums of products go in one order, at some cost (the page "Numbers" says where they would not).
    batch_invariant: bool = False
    #: ``DYN_PACK_WEIGHTS``: whether matrices that nothing can change, and that programs close over, are kept once more,
    #: in the order in which products read them best. Sums may go in another order (the page "Numbers").
    pack_weights: bool = True
    #: ``DYN_VARIANTS``: when quicker variants of kernels are compiled which the first call does not need. They are made
    #: in the ``background`` once a call could use one, while calls go on with a more general one; ``all`` with the
    #: first call, which waits for them; or ``none``. Results are the same to the last bit.
    variants: str = "background"
    #: ``DYN_FAST_CALL``: whether warm calls go through the native entry; without, every call is Python's.
    fast_call: bool = True
    #: ``DYN_PYTHON_RUNTIME``: whether calls are made by plain Python in place of the native entry, allocator and thread
    #: pool (``dyn.backends.python_runtime``), which one can set breakpoints in, and which checks what programs ask for
    #: and what they write: a ``RuntimeTableError`` or an ``OverrunError``. Calls are slow; results are the same to the
    #: last bit.
    python_runtime: bool = False
    #: ``DYN_FULL_TRACEBACKS``: whether tracebacks of errors have dyn's own frames, beside those of the user's code.
    full_tracebacks: bool = False
    #: ``DYN_LOG``: topics to log to stderr, with commas between them: ``compile``, ``guards``, ``cache``.
    log: str = ""
    #: ``DYN_PROGRESS``: whether a compile that takes more than five seconds says so while it goes on, by a line on the
    #: terminal or in the notebook that goes away. Nothing is written where standard error is no terminal.
    progress: bool = True
    #: ``DYN_CACHE_DIR``: the folder in which compiled code is kept; None for a folder of the user's, ``""`` or ``"0"``
    #: for none.
    cache_dir: str | None = None
    #: ``DYN_CACHE_SIZE``: the bytes it may grow to, as a number with or without K, M or G.
    cache_size: int = 1 << 30
    #: ``DYN_NUM_THREADS``: how many threads a call may use, its own included; 0 for one for each CPU that this process
    #: may run on when it first compiles something. Results do not depend on it.
    num_threads: int = 0

    def __post_init__(self) -> None:
        for topic in self.topics():
            if topic not in TOPICS:
                raise ArgumentError(
                    f"DYN_LOG={self.log!r}: there is no topic {topic!r}.",
                    remedy=f"name some of {', '.join(TOPICS)}, with commas between them.",
                )
        if self.variants not in VARIANTS:
            raise ArgumentError(
                f"DYN_VARIANTS={self.variants!r}: there is no such way.", remedy=f"name one of {', '.join(VARIANTS)}."
            )
        if self.num_threads < 0:
            raise ArgumentError(
                f"num_threads is {self.num_threads}, which is no number of threads.",
                remedy="give 1 or more, or 0 for one for each CPU.",
            )

    def topics(self) -> tuple[str, ...]:
        """Topics that ``log`` names.

        Returns:
            Their names.
        """
        return tuple(filter(None, map(str.strip, self.log.split(",")))) if self.log else ()

    @property
    def checks_values(self) -> bool:
        """True where operations are checked for what they make."""
        return self.debug_nans or self.debug_infs

    @property
    def calls_natively(self) -> bool:
        """True where warm calls go through the native entry."""
        return self.fast_call and not self.python_runtime

    def key(self) -> tuple[object, ...]:
        """Settings that change generated code.

        Returns:
            Their values, as part of a cache key.
        """
        return _code_settings(self)


#: The settings that change generated code.
CODE_SETTINGS = (
    "default_float", "target_cpu", "optimize", "batch_invariant", "pack_weights", "debug_nans", "debug_infs",
    "red_zones",
)  # fmt: skip
_code_settings = operator.attrgetter(*CODE_SETTINGS)


_VARIABLES = {
    "dump": "DYN_DUMP",
    "verify_ir": "DYN_VERIFY",
    "default_float": "DYN_DEFAULT_FLOAT",
    "target_cpu": "DYN_TARGET_CPU",
    "log": "DYN_LOG",
    "progress": "DYN_PROGRESS",
    "cache_dir": "DYN_CACHE_DIR",
    "cache_size": "DYN_CACHE_SIZE",
    "optimize": "DYN_OPTIMIZE",
    "batch_invariant": "DYN_BATCH_INVARIANT",
    "pack_weights": "DYN_PACK_WEIGHTS",
    "fast_call": "DYN_FAST_CALL",
    "variants": "DYN_VARIANTS",
    "python_runtime": "DYN_PYTHON_RUNTIME",
    "debug_nans": "DYN_DEBUG_NANS",
    "debug_infs": "DYN_DEBUG_INFS",
    "red_zones": "DYN_RED_ZONES",
    "full_tracebacks": "DYN_FULL_TRACEBACKS",
    "num_threads": "DYN_NUM_THREADS",
}


def variable(name: str) -> str:
    """The environment variable that sets a setting: ``DYN_VERIFY`` for ``verify_ir``."""
    return _VARIABLES[name]


def _from_environment() -> Config:
    values: dict[str, Any] = {}
    for field in fields(Config):
        text = os.environ.get(_VARIABLES[field.name])
        if text is not None:
            values[field.name] = _parse(field.name, text, field.default)
    unknown = [name for name in os.environ if name.startswith("DYN_") and name not in _VARIABLES.values()]
    if unknown:
        _warn_of_misspelt(unknown)
    return Config(**values)


def _warn_of_misspelt(names: list[str]) -> None:
    """Warn of environment variables that are nearly a setting's, and so do nothing."""
    from difflib import get_close_matches

    for name in names:
        near = get_close_matches(name, _VARIABLES.values(), 1, 0.85)
        if near:
            warnings.warn(f"{name} is no setting of dyn's.\n  help: did you mean {near[0]}?", stacklevel=2)


def _parse(setting: str, text: str, default: object) -> object:
    """A variable's text as a value of the type of its setting."""
    if isinstance(default, bool):
        return text not in ("", "0", "false")
    if setting == "num_threads":
        if text.strip() and not text.strip().isdecimal():
            raise ArgumentError(
                f"{_VARIABLES[setting]} is {text!r}.", remedy="set it to a whole number, or not at all."
            )
        return int(text.strip() or 0)
    return parse_size(text, _VARIABLES[setting]) if isinstance(default, int) else text


_SIZE = re.compile(r"(\d+)\s*(?:([KMGT])(?:i?B)?)?", re.IGNORECASE)


def parse_size(text: str, variable: str) -> int:
    """``"512M"`` as bytes: K, M, G and T are powers of 1024. Raises ArgumentError for anything else."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ArgumentError(
            f"{variable}={text!r} is not a size.", remedy="write a number of bytes, or one with K, M, G or T: 512M."
        )
    return int(match[1]) << 10 * " KMGT".index((match[2] or " ").upper())


@lru_cache(maxsize=256)
def _one_of(config: Config) -> Config:
    """The first of equal records: calls know the settings in force by the record itself."""
    return config


@lru_cache(maxsize=256)
def _changed(config: Config, changes: tuple[tuple[str, Any], ...]) -> Config:
    return _one_of(replace(config, **dict(changes)))


_current: ContextVar[Config] = ContextVar("dyn_config", default=_one_of(_from_environment()))


def current() -> Config:
    """Settings in force.

    Returns:
        A :class:`Config`.

    Example:
        >>> dyn.config.current().default_float
        'float32'
    """
    return _current.get()


def context_variable() -> ContextVar[Config]:
    """The context variable that holds the record in force, for native code, which reads it itself."""
    return _current


@contextlib.contextmanager
def using(config: Config) -> Iterator[Config]:
    """Put a whole record in force inside a ``with`` block, for this context only."""
    token = _current.set(_one_of(config))
    try:
        yield config
    finally:
        _current.reset(token)


@contextlib.contextmanager
def override(**changes: Any) -> Iterator[Config]:
    """Change settings inside a ``with`` block, for this context only.

    Functions compiled under other settings are compiled anew where the settings change what is computed.

    Args:
        **changes: settings by name, the fields of :class:`Config`.

    Returns:
        A context manager, whose value is the :class:`Config` in force.

    Raises:
        ArgumentError: for a setting that there is none of, or a value that it cannot have.

    Example:
        >>> with dyn.config.override(default_float="float64"):
        ...     print(dnp.zeros(2).dtype)
        float64
    """
    with using(_changed(_current.get(), tuple(changes.items()))) as config:
        yield config
