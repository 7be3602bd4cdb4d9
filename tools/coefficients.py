#!/usr/bin/env python3
"""Prints the polynomials of runtime/cpu/functions.h, lowest power first: interpolation at Chebyshev nodes, in 200 bits (needs mpmath); the one
quotient of two by Lawson's weighted least squares (Loeb's linear problem, weighted anew in each round).
The second column is the largest relative error of the function that the polynomial stands for, as a power of 2."""
from mpmath import cos, erfc, exp, floor, hyp1f1, ln, log, lu_solve, matrix, mp, mpf, nstr, pi, polyval, quad, sin, sqrt, tanh

mp.prec = 200


def interpolate(f, a, b, degree):
    nodes = [(a + b) / 2 + (b - a) / 2 * cos(pi * (2 * i + 1) / (2 * (degree + 1))) for i in range(degree + 1)]
    powers = matrix(degree + 1, degree + 1)
    values = matrix(degree + 1, 1)
    for i, x in enumerate(nodes):
        values[i] = f(x)
        for j in range(degree + 1):
            powers[i, j] = x**j
    return list(lu_solve(powers, values))


def remainder_of_exp(r):
    """exp(r) = 1 + r + r^2 p(r)"""
    return hyp1f1(1, 3, r) / 2


def remainder_of_bell(y):
    """exp(-y / 2) = 1 + y p(y)"""
    return (exp(-y / 2) - 1) / y


def remainder_of_log(z):
    """log(1 + f) = 2 s + s z p(z) with s = f / (2 + f), z = s^2"""
    s = sqrt(z)
    return (ln((1 + s) / (1 - s)) - 2 * s) / (s * z)


def remainder_of_sin(z):
    """sin(r) = r + r z p(z) with z = r^2"""
    r = sqrt(z)
    return (sin(r) - r) / (r * z)


def remainder_of_cos(z):
    """cos(r) = 1 - z / 2 + z^2 p(z) with z = r^2"""
    return (cos(sqrt(z)) - 1 + z / 2) / z**2


def tail(k):
    """The normal distribution below -a: exp(-a^2 / 2) u p(u) with u = 1 / (1 + a / k), after Shepherd and Laframboise 1981."""

    def p(u):
        z = (k / u - k) / sqrt(mpf(2))
        scaled = exp(z * z) * erfc(z) if z < 5 else quad(lambda t: exp(-t * t - 2 * z * t), [0, 1 / z, 4 / z, 12 / z, 40 / z]) * 2 / sqrt(pi)
        return scaled / 2 / u

    return p


def mills(a):
    """The normal distribution below -a: exp(-a^2 / 2) p(a) / q(a)"""
    return erfc(a / sqrt(mpf(2))) / 2 * exp(a * a / 2)


def quotient_of_tanh(z):
    """tanh(x) = x p(z) / q(z) with z = x^2"""
    return tanh(sqrt(z)) / sqrt(z)


def quotient(f, a, b, over, under, first, rounds=30):
    """Polynomials p and q of these degrees, p(0) = first and q(0) = 1, and the largest relative error of p / q."""
    size = 6 * (over + under + 2)
    nodes = [(a + b) / 2 - (b - a) / 2 * cos(pi * (2 * i + 1) / (2 * size)) for i in range(size)]
    values = [f(x) for x in nodes]
    weights, below, best = [mpf(1)] * size, [mpf(1)] * size, None
    for turn in range(rounds):
        left, right = matrix(over + under, over + under), matrix(over + under, 1)
        for x, y, weight, divisor in zip(nodes, values, weights, below):
            terms = [x**j for j in range(1, over + 1)] + [-y * x**j for j in range(1, under + 1)]
            scale = weight / (divisor * y)**2
            for i, term in enumerate(terms):
                right[i] += scale * term * (y - first)
                for j, other in enumerate(terms):
                    left[i, j] += scale * term * other
        found = list(lu_solve(left, right))
        p, q = [first, *found[:over]], [mpf(1), *found[over:]]
        below = [abs(polyval(q[::-1], x)) for x in nodes]
        errors = [abs(polyval(p[::-1], x) / polyval(q[::-1], x) / y - 1) for x, y in zip(nodes, values)]
        if best is None or max(errors) < best[2]:
            best = p, q, max(errors)
        if turn > 2:  # the first rounds find the divisors
            total = sum(weight * error for weight, error in zip(weights, errors))
            weights = [max(weight * error / total * size, mpf(10)**-12) for weight, error in zip(weights, errors)]
    return best


half_ln2 = ln(mpf(2)) / 2 * mpf("1.0001")
log_end = ((sqrt(mpf(2)) - 1) / (sqrt(mpf(2)) + 1))**2 * mpf("1.0001")
quarter = (pi / 4)**2 * mpf("1.0001")
tiny = mpf(2)**-40  # functions of z are not defined at 0
ROWS = (
    ("EXP_F32", remainder_of_exp, -half_ln2, half_ln2, 4, lambda x: x * x / exp(x)),
    ("BELL_F32", remainder_of_bell, -2 * half_ln2, 2 * half_ln2, 5, lambda y: y * exp(y / 2)),
    ("EXP_F64", remainder_of_exp, -half_ln2, half_ln2, 10, lambda x: x * x / exp(x)),
    ("LOG_F32", remainder_of_log, tiny, log_end, 3, lambda z: z / 2),
    ("LOG_F64", remainder_of_log, tiny, log_end, 6, lambda z: z / 2),
    ("SIN_F32", remainder_of_sin, tiny, quarter, 3, lambda z: z),
    ("SIN_F64", remainder_of_sin, tiny, quarter, 5, lambda z: z),
    ("COS_F32", remainder_of_cos, tiny, quarter, 3, lambda z: z * z / cos(sqrt(z))),
    ("COS_F64", remainder_of_cos, tiny, quarter, 5, lambda z: z * z / cos(sqrt(z))),
    ("TAIL_F64", tail(mpf("4.25")), mpf("4.25") / mpf("42.85"), mpf(1), 21, None),
)

rest = pi / 2  # in parts of 33 bits, so that products with numbers of 20 bits are exact, and a last one of 53
parts = []
for _ in range(3):
    unit = mpf(2)**(floor(log(rest, 2)) - 32)
    parts.append(floor(rest / unit) * unit)
    rest -= parts[-1]
print("#define QUARTER " + ", ".join(float(part).hex() for part in [*parts, rest]))

for name, f, a, b, degree, weight in ROWS:
    p = interpolate(f, a, b, degree)
    points = [a + (b - a) * (2 * i + 1) / 201 for i in range(100)]
    worst = max(abs(polyval(p[::-1], x) - f(x)) * (weight(x) if weight else 1 / abs(f(x))) for x in points)
    single = name in ("EXP_F32", "BELL_F32", "LOG_F32")  # sin and cos of f32 are computed in double
    terms = [nstr(c, 9 if single else 18, min_fixed=0, max_fixed=0) for c in p]
    print(f"#define {name} {', '.join(t + 'f' * single for t in terms)} /* 2^{nstr(log(worst, 2), 3)} */")

for name, f, begin, end, over, under, first in (
    ("TAIL", mills, "0", "14.5", 4, 5, "0.5"),
    ("GELU", mills, "0", "8", 3, 4, "0.5"),
    ("TANH", quotient_of_tanh, "1e-9", "81.5", 4, 4, "1"),
):
    p, q, worst = quotient(f, mpf(begin), mpf(end), over, under, mpf(first))
    for part, c in ("OVER", p), ("UNDER", q):
        print(f"#define {name}_{part}_F32 {', '.join(nstr(x, 9, min_fixed=0, max_fixed=0) + 'f' for x in c)} /* 2^{nstr(log(worst, 2), 3)} */")
