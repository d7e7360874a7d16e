"""Functions of a runtime table that have Python do their work, in LLVM IR, for the setting ``python_runtime``.

::

    RESULT dyn_python_NAME(rt, ...)      for each function of ``dyn.lower.abi.RUNTIME_TABLE`` that a processor has

Each calls the function at its own place in ``rt``'s state, with its arguments and, where there is a result, the address
of the answer. As in ``dyn.runtime.callbacks`` the answer is a failure until it is given: a signal's handler may raise
as Python enters the function. The word behind the state's functions counts the calls, so that whoever counts those that
Python has begun knows of one that it has not.
"""

from __future__ import annotations

from dyn.lower.abi import FETCH, RUNTIME_TABLE, STAGE, TABLE_WORDS, TableFunction
from dyn.lower.native import Module

#: The functions that have stand-ins, by their places in the table.
STAND_INS: dict[int, TableFunction] = {
    place: word for place, word in enumerate(RUNTIME_TABLE, 1) if word is not None and place not in (FETCH, STAGE)
}
#: Their symbols.
SYMBOLS = tuple([f"dyn_python_{function.name}" for function in STAND_INS.values()])
#: The place of the number of calls in a state, counted in pointers, and how many words it has.
CALLS, STATE_WORDS = TABLE_WORDS, TABLE_WORDS + 1


def stand_ins_text() -> str:
    """The module's LLVM IR. Only a process that asks for ``python_runtime`` compiles or loads it."""
    m = Module()
    for (place, function), symbol in zip(STAND_INS.items(), SYMBOLS, strict=True):
        f = m.function(symbol, function.result, function.params)
        state = f.load("ptr", "%rt")
        f.rmw("add", "i64", f.at(state, 8 * CALLS), "1")
        arguments = [(type, f"%{name}") for type, name in function.params]
        ask = f.load("ptr", state, 8 * place)
        if function.result == "void":
            f.call("void", ask, arguments)
            f.ret()
        else:
            answer = f.stack("i64")
            f.store(function.result, function.failure, answer)
            f.call("void", ask, [*arguments, ("ptr", answer)])
            f.ret(function.result, f.load(function.result, answer))
    return m.text()
