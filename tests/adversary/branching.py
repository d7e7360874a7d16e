"""Small programs of branches on two sizes, of which little depends, and of divisions and sizes that branches make safe.

A call that goes another way at a branch may be served by the code of an earlier program (``dyn.specialize.widening``).
Large programs seldom compute the same both ways; most of these do, for some sizes at least.
"""

from __future__ import annotations

from random import Random

from tests.adversary.programs import Argument, Program

_ARGUMENTS = (Argument("x", "float32", ("n",)), Argument("y", "float32", ("m",)))


def make_branching(random: Random) -> Program:
    """A program of two to five steps."""
    draw = _Draw(random)
    for number in range(random.randint(2, 5)):
        draw.step(f"v{number}")
    return Program(_ARGUMENTS, ("n, = x.shape", "m, = y.shape", *draw.lines, f"return {', '.join(draw.results)},"))


class _Draw:
    """A program that grows."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.lines: list[str] = []
        self.results = ["x"]
        #: Values of one axis.
        self._vectors = ["x", "y"]

    def _one(self, *options: str) -> str:
        return self._random.choice(options)

    def _number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def _dim(self) -> str:
        return self._one("n", "m")

    def _size(self) -> str:
        """An expression that has no value, or is negative, at some sizes."""
        a, b = self._dim(), self._dim()
        return self._one(
            a, f"12 // {a}", f"12 // ({a} - {self._number(1, 3)})", f"{a} // {b}", f"{a} % {b}", f"({a} * 6) // {b}",
            f"12 % {a}", f"{a} - 1", f"most({a} - {b}, 0)", f"low({a}, 12 // {b})", f"(12 // {a}) // 2",
            f"{a} // ({b} // 2)",
        )  # fmt: skip

    def _question(self) -> str:
        a = self._dim()
        return self._one(
            f"{a} > {self._number(0, 2)}", f"{a} >= {self._number(0, 3)}", f"{a} == {self._number(0, 4)}",
            f"{a} != {self._number(0, 3)}", f"{a} <= {self._number(0, 3)}", "n > m", "n == m", "n >= m",
            f"n * m > {self._number(0, 3)}", f"{self._size()} > {self._number(0, 2)}",
            f"{self._size()} == {self._number(0, 2)}", f"{a} - 1 > 0", f"{a} % 2 == 0",
        )  # fmt: skip

    def _value(self, of: str, size: str) -> str:
        other = self._size()
        return self._one(
            of, of, f"{of}[:{other}]", f"{of}[{other}:]", f"{of}[:{size}]", f"{of} + 0 * dnp.asarray({other})",
            f"{of} + 0 * dnp.sum(dnp.zeros((most({size}, 0),)))",
        )  # fmt: skip

    def step(self, name: str) -> None:
        """A question, a value by one, or a value that demands something of the sizes."""
        of, size = self._random.choice(self._vectors), self._size()
        match self._one("if", "if", "safe", "safe", "ask", "ask", "exact", "zeros", "reshape", "slice"):
            case "ask":
                self.lines += [f"if {self._question()}:", "    pass"]
                return
            case "exact":  # a size that a question and a demand leave one value, asked for again
                a, least = self._dim(), self._number(1, 2)
                self.lines += [
                    f"_ = {a} >= {least} if {self._question()} else {a} <= {least}",
                    f"{name} = dnp.zeros(({a} - {least},))", f"if {a} == {least}:", "    pass",
                ]  # fmt: skip
            case "safe":  # a division that one way of the branch has
                a, more = self._dim(), self._number(0, 2)
                divided = f"{self._one('12', '24', self._size(), self._dim())} // ({a} - {more})"
                sliced = self._one(f"{of}[:{divided}]", f"{of}[{divided}:]", f"{of} + dnp.zeros((most({divided}, 1),))")
                asked = self._one(f"{a} > {more}", f"{a} >= {more + 1}", f"{a} != {more}", f"{a} - {more} > 0")
                self.lines += [f"if {asked}:", f"    {name} = {sliced}", "else:", f"    {name} = {of}"]
            case "if":
                yes, no = self._value(of, size), self._value(of, size)
                self.lines += [f"if {self._question()}:", f"    {name} = {yes}", "else:", f"    {name} = {no}"]
            case "zeros":
                made = self._one(f"{self._dim()} - {self._number(1, 2)}", "n - m", "m - n", size)
                self.lines += [f"{name} = dnp.zeros(({made},))"]
            case "reshape":
                shape = self._one("2, -1", "-1, 1", f"most({size}, 1), -1")
                self.lines += [f"{name} = dnp.reshape({of}, ({shape}))"]
                self.results.append(name)
                return
            case _:
                self.lines += [f"{name} = {self._value(of, size)}"]
        self.results.append(name)
        self._vectors.append(name)
