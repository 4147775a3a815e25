"""The E-step of a one-dimensional normal mixture, eight records at a time.

Sums in a loop keep their order, so no compiler may spread them over vector lanes by itself. Here the lanes are part
of the definition: record i goes to lane i mod 8, each lane sums in order, and the lanes are added in a fixed order:
the same bits on every CPU, with vectors of any width or none.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from resonance.kernels import arithmetic

LANES = 8
MAX_COMPONENTS = 8

# Columns of the parameters of a component: exponent = TOP - HALF * (z - MEAN)^2.
MEAN, HALF, TOP = 0, 1, 2
PARAMETERS = 3

_FLOATS = ir.VectorType(ir.DoubleType(), LANES)
_INTEGERS = ir.VectorType(ir.IntType(64), LANES)
_EXP = tuple(getattr(arithmetic, f"_P{degree}") for degree in range(11, 1, -1))


class _Vectors:
    """Writes the operations of vectors of eight."""

    def __init__(self, builder: ir.IRBuilder) -> None:
        self.builder = builder
        self._fma = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_FLOATS, [_FLOATS] * 3), f"llvm.fma.v{LANES}f64"
        )
        self._abs = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_FLOATS, [_FLOATS]), f"llvm.fabs.v{LANES}f64"
        )

    def every(self, value: float) -> ir.Value:
        return ir.Constant(_FLOATS, [value] * LANES)

    def spread(self, scalar: ir.Value) -> ir.Value:
        one = self.builder.insert_element(ir.Constant(_FLOATS, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
        mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return self.builder.shuffle_vector(one, ir.Constant(_FLOATS, ir.Undefined), mask)

    def load(self, data: ir.Value, at: ir.Value) -> ir.Value:
        place = self.builder.bitcast(self.builder.gep(data, [at]), ir.PointerType(_FLOATS))
        return self.builder.load(place, align=8)

    def store(self, vector: ir.Value, data: ir.Value, at: ir.Value) -> None:
        place = self.builder.bitcast(self.builder.gep(data, [at]), ir.PointerType(_FLOATS))
        self.builder.store(vector, place, align=8)

    def fma(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        return self.builder.call(self._fma, [a, b, c])

    def abs(self, a: ir.Value) -> ir.Value:
        return self.builder.call(self._abs, [a])

    def pick(self, comparison: str, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.select(self.builder.fcmp_ordered(comparison, a, b), a, b)

    def exp_minus(self, t: ir.Value) -> ir.Value:
        """e**-t for t >= 0: `arithmetic.exp_minus` in lanes, the same bits."""
        b = self.builder
        t = self.pick("<", t, self.every(arithmetic._FAR))
        shifted = self.fma(t, self.every(arithmetic.LOG2_E), self.every(arithmetic._ROUND))
        n = b.fsub(shifted, self.every(arithmetic._ROUND))
        f = self.fma(n, self.every(-arithmetic.LN_2), t)
        f = self.fma(n, self.every(-arithmetic._LN_2_LOW), f)
        p = self.every(_EXP[0])
        for coefficient in (*_EXP[1:], -1.0, 1.0):
            p = self.fma(p, f, self.every(coefficient))
        bits = b.bitcast(shifted, _INTEGERS)
        offset = ir.Constant(_INTEGERS, [1023 + arithmetic._ROUND_BITS] * LANES)
        exponent = b.shl(b.sub(offset, bits), ir.Constant(_INTEGERS, [52] * LANES))
        return b.fmul(p, b.bitcast(exponent, _FLOATS))

    def sum(self, vector: ir.Value) -> ir.Value:
        """Add the lanes, halves to halves."""
        lanes = [self.builder.extract_element(vector, ir.Constant(ir.IntType(32), i)) for i in range(LANES)]
        while len(lanes) > 1:
            half = len(lanes) // 2
            lanes = [self.builder.fadd(lanes[i], lanes[i + half]) for i in range(half)]
        return lanes[0]


def _responsibilities(
    v: _Vectors, exponents: list[ir.Value], mask: ir.Value
) -> tuple[ir.Value, ir.Value, list[ir.Value]]:
    """Return the largest exponent, the density over that of the likeliest component, and the responsibilities."""
    builder, one = v.builder, v.every(1.0)
    if len(exponents) == 2:
        # The likelier component has 1, the other e**-difference: one exponential for both.
        first, second = exponents
        largest = v.pick(">=", first, second)
        less = builder.fmul(v.exp_minus(v.abs(builder.fsub(first, second))), mask)
        density = builder.fadd(one, less)
        inverse = builder.fdiv(one, density)
        more, less = builder.fmul(inverse, mask), builder.fmul(less, inverse)
        first_leads = builder.fcmp_ordered(">=", first, second)
        return largest, density, [builder.select(first_leads, more, less), builder.select(first_leads, less, more)]
    largest = exponents[0]
    for other in exponents[1:]:
        largest = v.pick(">=", largest, other)
    parts = [v.exp_minus(builder.fsub(largest, other)) for other in exponents]
    density = parts[0]
    for part in parts[1:]:
        density = builder.fadd(density, part)
    inverse = builder.fdiv(mask, density)
    weights = [builder.fmul(part, inverse) for part in parts]
    return largest, v.fma(builder.fsub(density, one), mask, one), weights


@intrinsic
def expect(typingctx: Any, components: Any, z: Any, live: Any, padded: Any, parameters: Any, out: Any) -> Any:
    """Sum the responsibilities of `components` (a literal) over the records.

    Parameters
    ----------
    z, live : ndarray of shape (padded,)
        Standardised records, and 1 for each of them; 0 in both behind the last.
    padded : int
        Their number rounded up to a multiple of 8.
    parameters : ndarray of shape (components, 3)
        Mean, 1 / (2 variance), and ``ln(share) - ln(2 pi variance) / 2``.
    out : ndarray of shape (3 * components + 9,)
        Gets, for each component, the sums of its responsibilities, times z, times z^2; then the sum over the records
        of the largest exponent; then, by lanes, products over the records of the density over that of the likeliest
        component: from 1 to `components`.
    """
    if not isinstance(components, types.IntegerLiteral):
        return None
    count = components.literal_value

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        v = _Vectors(builder)
        z_data, live_data, table, sums = (
            context.make_array(signature.args[at])(context, builder, args[at]).data for at in (1, 2, 4, 5)
        )
        integer = args[3].type

        def parameter(q: int, column: int) -> ir.Value:
            at = ir.Constant(integer, PARAMETERS * q + column)
            return v.spread(builder.load(builder.gep(table, [at])))

        mean = [parameter(q, MEAN) for q in range(count)]
        half = [builder.fneg(parameter(q, HALF)) for q in range(count)]
        top = [parameter(q, TOP) for q in range(count)]
        totals = [cgutils.alloca_once(builder, _FLOATS) for _ in range(3 * count + 2)]
        for place in totals[:-1]:
            builder.store(v.every(0.0), place)
        builder.store(v.every(1.0), totals[-1])
        zero, step = ir.Constant(integer, 0), ir.Constant(integer, LANES)
        with cgutils.for_range_slice(builder, zero, args[3], step, inc=True) as (at, _):
            value, mask = v.load(z_data, at), v.load(live_data, at)
            gaps = [builder.fsub(value, m) for m in mean]
            exponents = [v.fma(builder.fmul(g, g), h, t) for g, h, t in zip(gaps, half, top, strict=True)]
            largest, density, weights = _responsibilities(v, exponents, mask)
            for q, weight in enumerate(weights):
                weighted = builder.fmul(weight, value)
                places = totals[3 * q : 3 * q + 3]
                builder.store(builder.fadd(builder.load(places[0]), weight), places[0])
                builder.store(builder.fadd(builder.load(places[1]), weighted), places[1])
                builder.store(v.fma(weighted, value, builder.load(places[2])), places[2])
            builder.store(v.fma(largest, mask, builder.load(totals[-2])), totals[-2])
            builder.store(builder.fmul(builder.load(totals[-1]), density), totals[-1])
        for i, place in enumerate(totals[:-1]):
            builder.store(v.sum(builder.load(place)), builder.gep(sums, [ir.Constant(integer, i)]))
        v.store(builder.load(totals[-1]), sums, ir.Constant(integer, 3 * count + 1))
        return context.get_dummy_value()

    return types.void(components, z, live, padded, parameters, out), codegen
