"""Shape arithmetic of a host program, as ``dyn.integers.SIZES`` has it: exact, or a flag that says that it is not.

No operation traps, whatever its operands: they may be nonsense of which the flags tell that has not been looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from dyn.errors import ShapeError
from dyn.lower.host import Fault
from dyn.lower.host_llvm.scope import HostScope, SumKey, UncheckedSize
from dyn.lower.host_llvm.text import HostText
from dyn.shapes import Dim, Monomial, Opaque, OpaqueKind, Symbol, SymExpr
from dyn.shapes.expr import atom_dim
from dyn.shapes.walk import opaques_below


class SizeEmitter:
    """Computes dims into a scope, each once.

    ``compute`` writes code, whose flags wait for ``refuse_nonsense``; ``dim`` writes none, and gives what has been
    looked at.
    """

    def __init__(self, text: HostText) -> None:
        self.text = text
        self.scope = HostScope()

    @contextmanager
    def within(self, scope: HostScope) -> Iterator[HostScope]:
        """Compute in another scope: what is computed inside of ``with`` is known in that scope alone."""
        outer, self.scope = self.scope, scope
        yield scope
        self.scope = outer

    def know(self, symbol: Symbol, value: str) -> None:
        """Give a symbol its value."""
        self.scope.pending.dims[atom_dim(symbol)] = value
        self.scope.bound.add(symbol)

    def refuse_nonsense(self, failures: Sequence[tuple[int, str]] = ()) -> None:
        """Fail where what was computed so far divided by zero, or passed 2^63; by the first of some ``failures``, given
        as sites and i1s; and where sizes were broadcast that do not, of which a failure would say more."""
        self._refuse(Fault.NO_VALUE, self.scope.zeros)
        self._refuse(Fault.TOO_LARGE, self.scope.overflow)
        self.text.branch_on(failures)
        self._refuse(Fault.NO_VALUE, self.scope.conflicts)
        self.scope.settle()

    def _refuse(self, fault: Fault, flags: Sequence[str]) -> None:
        flag = self.text.any(flags)
        if flag is not None:
            self.text.fault(fault, flag)

    def dim(self, dim: Dim) -> str:
        """The value of a dim, which has been computed before the first launch that can know it, and looked at."""
        if isinstance(dim, int):
            if not -(2**63) <= dim < 2**63:
                raise ShapeError(f"an array would have the size {dim}, which 64 bits do not hold.")
            return str(dim)
        found = self.scope.known.dims.get(dim)
        if found is None:
            raise AssertionError(f"the size {dim} has not been computed and looked at")
        return found

    def estimates(self, dims: Iterable[Dim]) -> None:
        """Estimate dims: where they are nonsense, for want of bits or of a divisor, the call is good all the same."""
        with self.within(self.scope.inner()):
            made = {dim: UncheckedSize(self.compute(dim)) for dim in dims}
        self.scope.estimates |= made

    def estimate(self, dim: Dim) -> str:
        """The name of an estimate, which is made here if it was not before."""
        found = self.scope.estimates.get(dim)
        if found is not None:
            return found.name
        with self.within(self.scope.inner()):
            return self.compute(dim)

    def compute(self, dim: Dim) -> str:
        """The value of a dim, which nobody may rely on before :meth:`refuse_nonsense`."""
        if isinstance(dim, int):
            return self._constant(dim)
        found = self._found(dim)
        if found is None:
            # So that no argument is far down.
            for atom in opaques_below(dim, lambda atom: self._found(atom_dim(atom)) is not None):
                self._atom(atom)
            found = self.scope.pending.dims[dim] = self._compute(dim)
        return found

    def _found(self, dim: Dim) -> str | None:
        found = self.scope.known.dims.get(dim)
        return self.scope.pending.dims.get(dim) if found is None else found

    def checked(self, op: str, a: str, b: str) -> str:
        """``smul``, ``sadd`` or ``ssub``, whose overflow is remembered until :meth:`refuse_nonsense` asks."""
        pair = self.text.value(f"call {{ i64, i1 }} @llvm.{op}.with.overflow.i64(i64 {a}, i64 {b})")
        self.scope.overflow.append(self.text.value(f"extractvalue {{ i64, i1 }} {pair}, 1"))
        return self.text.value(f"extractvalue {{ i64, i1 }} {pair}, 0")

    def floor_quotient(self, a: str, b: str) -> str:
        """``a // b``. A divisor of 0 gives nonsense but no trap; who asks looks out for it.

        The least number by -1 is an overflow. The text is not optimised: a power of two is a shift here, which rounds
        down, and not two divisions.
        """
        bits = _power_of_two(b)
        if bits is not None:
            return self.text.value(f"ashr i64 {a}, {bits}")
        value, by = self.text.value, self._safe_divisor(b)
        down = self._rounds_up(value(f"srem i64 {a}, {by}"), by)
        quotient = value(f"sdiv i64 {a}, {by}")
        quotient = value(f"sub i64 {quotient}, {value(f'zext i1 {down} to i64')}")
        if by is b:
            return quotient
        least = value(f"icmp eq i64 {a}, {-(2**63)}")
        minus = value(f"icmp eq i64 {b}, -1")
        self.scope.overflow.append(value(f"and i1 {least}, {minus}"))
        return value(f"select i1 {minus}, i64 {value(f'sub i64 0, {a}')}, i64 {quotient}")

    def floor_rest(self, a: str, b: str) -> str:
        """``a % b``, with the sign of ``b``. A divisor of 0 gives nonsense but no trap; who asks looks out for it."""
        bits = _power_of_two(b)
        if bits is not None:
            return self.text.value(f"and i64 {a}, {2**bits - 1}")
        by = self._safe_divisor(b)
        rest = self.text.value(f"srem i64 {a}, {by}")
        more = self.text.value(f"add i64 {rest}, {by}")
        return self.text.value(f"select i1 {self._rounds_up(rest, by)}, i64 {more}, i64 {rest}")

    def _safe_divisor(self, b: str) -> str:
        """The divisor, or 1 in place of 0 and -1, by which the processor traps: by -1 only for the least number."""
        if _is_number(b) and b not in ("0", "-1"):
            return b
        near = self.text.value(f"icmp ult i64 {self.text.value(f'add i64 {b}, 1')}, 2")
        return self.text.value(f"select i1 {near}, i64 1, i64 {b}")

    def _rounds_up(self, rest: str, by: str) -> str:
        """An i1: whether the processor's quotient, which is rounded towards 0, is more than the one rounded down."""
        inexact = self.text.value(f"icmp ne i64 {rest}, 0")
        opposite = self.text.value(f"icmp slt i64 {self.text.value(f'xor i64 {rest}, {by}')}, 0")
        return self.text.value(f"and i1 {inexact}, {opposite}")

    def _compute(self, dim: SymExpr) -> str:
        """A sum, from the first term on, and its constant at last.

        Many begin alike: the places of joined arrays each add a term to the one before. That one is asked for first,
        so that the terms of each are not gone through again.
        """
        begun = self._sum_of(dim.terms[:-1])
        total, left = ("0", dim.terms) if begun is None else (begun, dim.terms[-1:])
        for term in left:
            found = self._sum_of((total, *term))
            if found is None:
                found = self.scope.pending.sums[(total, *term)] = self._added(total, *term)
            total = found
        self.scope.pending.sums[dim.terms] = total
        return total if dim.constant == 0 else self.checked("sadd", total, self._constant(dim.constant))

    def _sum_of(self, key: SumKey) -> str | None:
        found = self.scope.known.sums.get(key)
        return self.scope.pending.sums.get(key) if found is None else found

    def _added(self, total: str, mono: Monomial, coefficient: int) -> str:
        """A sum and one more term."""
        product = ""
        for atom, power in mono.factors:
            for _ in range(power):
                value = self._atom(atom)
                product = value if not product else self.checked("smul", product, value)
        if not -(2**63) <= coefficient < 2**63:
            self.scope.overflow.append(self.text.value(f"icmp ne i64 {product}, 0"))
            return total
        if coefficient != 1:
            product = self.checked("smul", product, str(coefficient))
        return product if total == "0" else self.checked("sadd", total, product)

    def _constant(self, number: int) -> str:
        """A number as an i64. LLVM would take one that does not fit for its low bits, and say nothing."""
        if -(2**63) <= number < 2**63:
            return str(number)
        self.scope.overflow.append("true")
        return "0"

    def _atom(self, atom: Symbol | Opaque) -> str:
        own = atom_dim(atom)
        found = self._found(own)
        if found is not None:
            return found
        if isinstance(atom, Symbol):
            raise AssertionError(f"the symbol {atom.name} has no value")
        result = self._rounded(atom)
        if result is None:
            result = self._opaque(atom.kind, [self.compute(arg) for arg in atom.args])
        self.scope.pending.dims[own] = result
        return result

    def _rounded(self, atom: Opaque) -> str | None:
        """``(dim + k) // n`` for numbers ``0 < k < n``, as which chunks are counted: without the sum, which may pass
        2^63 where the quotient does not. None for what is nothing of that kind."""
        if atom.kind is not OpaqueKind.FLOORDIV:
            return None
        dim, by = atom.args
        if isinstance(dim, int) or not isinstance(by, int) or not 0 < dim.constant < by:
            return None
        start = self.compute(dim - dim.constant)
        quotient, rest = self.floor_quotient(start, str(by)), self.floor_rest(start, str(by))
        more = self.text.value(f"icmp sge i64 {rest}, {by - dim.constant}")
        return self.text.value(f"add i64 {quotient}, {self.text.value(f'zext i1 {more} to i64')}")

    def differ(self, a: str, b: str) -> str:
        """An i1: whether two sizes do not broadcast, for they differ and neither is 1."""
        differ = self.text.value(f"icmp ne i64 {a}, {b}")
        for side in (a, b):
            stretched = self.text.value(f"icmp ne i64 {side}, 1")
            differ = self.text.value(f"and i1 {differ}, {stretched}")
        return differ

    def _opaque(self, kind: OpaqueKind, args: list[str]) -> str:
        value = self.text.value
        if kind in (OpaqueKind.FLOORDIV, OpaqueKind.MOD):
            if not _is_number(args[1]):
                self.scope.zeros.append(value(f"icmp eq i64 {args[1]}, 0"))
            return (self.floor_quotient if kind is OpaqueKind.FLOORDIV else self.floor_rest)(*args)
        result = args[0]
        for arg in args[1:]:
            if kind is OpaqueKind.BROADCAST:
                self.scope.conflicts.append(self.differ(result, arg))
                one = value(f"icmp eq i64 {result}, 1")
                result = value(f"select i1 {one}, i64 {arg}, i64 {result}")
            else:
                name = "smin" if kind is OpaqueKind.MIN else "smax"
                result = value(f"call i64 @llvm.{name}.i64(i64 {result}, i64 {arg})")
        return result


def _is_number(value: str) -> bool:
    return value.removeprefix("-").isdigit()


def _power_of_two(value: str) -> int | None:
    """The exponent of a number that is a power of two; None for any other."""
    number = int(value) if _is_number(value) else 0
    return number.bit_length() - 1 if number > 0 and number & (number - 1) == 0 else None
