"""The one way in which a trace says that it has to be made again, by a program that is changed first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Retrace(BaseException):
    """Ends a trace that lacks something. ``change`` gives that to the program, which is then traced again.

    What ``change`` is called with, and so what it may ask for, is said by the front end. With ``rereads`` it is the
    function that is changed, which reads the call again. Nobody but whoever asked for the trace is to see it, and so it
    is no ``Exception``: code of the user's that catches those goes on without one.
    """

    def __init__(self, change: Callable[[Any], None], *, rereads: bool = False) -> None:
        super().__init__()
        self.change, self.rereads = change, rereads
