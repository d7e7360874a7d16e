"""Literals: numbers that are written in the code, as opposed to those that a function closes over."""

from __future__ import annotations

import sys

from dyn.source import is_user_frame


def is_literal(number: object, *, of_user: bool = False) -> bool:
    """Whether a number is a constant of the code that is running: of the user's innermost function, or of dyn's in it.

    With ``of_user`` only the user's counts.

    A function is compiled with its literals, and for any value of other numbers. So the answer decides how many
    programs there are, and never what they compute: a variable that has the value of a literal is taken for it.
    """
    kind = type(number)
    frame = sys._getframe(1)
    while frame is not None:
        is_last = is_user_frame(frame.f_code.co_filename)
        if is_last or not of_user:
            for constant in frame.f_code.co_consts:
                if type(constant) is kind and constant == number:
                    return True
        if is_last:
            return False
        frame = frame.f_back
    return False
