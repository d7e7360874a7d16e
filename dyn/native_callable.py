"""Functions whose calls the native entry makes, once Python has made one like them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from dyn import config
from dyn.fork_safety import lock
from dyn.late_imports import import_whole
from dyn.tracebacks import hide_own_frames

if TYPE_CHECKING:
    from dyn.call import CallTable


class NativeCallable:
    """A function that starts as Python, in ``_call_slow``, and whose ``__call__`` becomes a built-in function.

    That is looked up on the class, is no descriptor, and gets a call's arguments without a frame of Python in between:
    so each such function is the one object of a class of its own (:meth:`single`).
    """

    def __init__(self) -> None:
        self._lock = lock()
        #: What the native entry knows of this function, from the first call on that went well.
        self._table: CallTable | None = None
        #: How many calls it had made before it forgot what it knew.
        self._hits_before = 0

    @classmethod
    def single(cls) -> type[Self]:
        """Class for one function, whose ``__call__`` is its own.

        Returns:
            A subclass without anything of its own.
        """
        made: Any = type(cls.__name__, (cls,), {"__module__": cls.__module__, "__qualname__": cls.__qualname__})
        return made

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._call_slow(*args, **kwargs)
        except Exception as error:
            hide_own_frames(error)
            raise

    def _call_slow(self, /, *args: Any, **kwargs: Any) -> Any:
        """A call in Python: it compiles, raises what there is to raise, and shows the native entry what to accept."""
        raise NotImplementedError

    def _call_table(self, make_state: Callable[[], Callable[[], Any]] | None = None) -> CallTable | None:
        """What the native entry is shown calls by, made now where there is none; None where calls do without it.

        ``make_state`` gives the state that a :class:`~dyn.call.CallTable` asks.
        """
        if not config.current().calls_natively:
            return None
        if self._table is None:
            import_whole("dyn.call")
            from dyn.call import make_table

            with self._lock:
                if self._table is None:
                    table = make_table(self._call_slow, None if make_state is None else make_state())
                    if table is not None:
                        type(self).__call__ = table.function
                    self._table = table
        return self._table

    def _forget_calls(self) -> None:
        """Have Python make the calls again, and let go of what the entry knew."""
        with self._lock:
            if self._table is not None:
                self._hits_before += self._table.hits
                del type(self).__call__
                self._table = None

    def _native_hits(self) -> int:
        """How many calls the entry has made."""
        return self._hits_before + (0 if self._table is None else self._table.hits)
