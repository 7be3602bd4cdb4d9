#!/usr/bin/env python3
"""Prints the polynomials of runtime/cpu/functions.h, lowest power first: interpolation at Chebyshev nodes, in 200 bits (needs mpmath).
The second column is the largest relative error of the function that the polynomial stands for, as a power of 2."""
from mpmath import cos, erfc, exp, floor, hyp1f1, ln, log, lu_solve, matrix, mp, mpf, nstr, pi, polyval, quad, sin, sqrt

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


half_ln2 = ln(mpf(2)) / 2 * mpf("1.0001")
log_end = ((sqrt(mpf(2)) - 1) / (sqrt(mpf(2)) + 1))**2 * mpf("1.0001")
quarter = (pi / 4)**2 * mpf("1.0001")
tiny = mpf(2)**-40  # functions of z are not defined at 0
ROWS = (
    ("EXP_F32", remainder_of_exp, -half_ln2, half_ln2, 4, lambda x: x * x / exp(x)),
    ("EXP_F64", remainder_of_exp, -half_ln2, half_ln2, 10, lambda x: x * x / exp(x)),
    ("LOG_F32", remainder_of_log, tiny, log_end, 3, lambda z: z / 2),
    ("LOG_F64", remainder_of_log, tiny, log_end, 6, lambda z: z / 2),
    ("SIN_F32", remainder_of_sin, tiny, quarter, 3, lambda z: z),
    ("SIN_F64", remainder_of_sin, tiny, quarter, 5, lambda z: z),
    ("COS_F32", remainder_of_cos, tiny, quarter, 3, lambda z: z * z / cos(sqrt(z))),
    ("COS_F64", remainder_of_cos, tiny, quarter, 5, lambda z: z * z / cos(sqrt(z))),
    ("TAIL_F32", tail(mpf(3)), mpf(3) / mpf("17.5"), mpf(1), 8, None),
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
    single = name in ("EXP_F32", "LOG_F32", "TAIL_F32")  # sin and cos of f32 are computed in double
    terms = [nstr(c, 9 if single else 18, min_fixed=0, max_fixed=0) for c in p]
    print(f"#define {name} {', '.join(t + 'f' * single for t in terms)} /* 2^{nstr(log(worst, 2), 3)} */")
