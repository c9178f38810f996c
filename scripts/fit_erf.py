#!/usr/bin/env python3
"""Prints framework/math/erf_coefficients.h: Chebyshev fits of erf(x)/x near zero and of erfc(x) exp(x^2) beyond one.

Needs mpmath (Debian: python3-mpmath). The build doesn't run it; the result is checked in.
The mapping u = (x - k) / (x + k) is the one of Shepherd & Laframboise, Math. Comp. 36 (1981), with k = 2.
"""
from mpmath import chebyfit, erf, erfc, exp, mp, mpf, sqrt

mp.dps = 40


def near(z):  # z = x^2 in [0, 1]
    if z < mpf(10) ** -12:
        return 2 / sqrt(mp.pi) * (1 - z / 3)
    x = sqrt(z)
    return erf(x) / x


def far(upper):
    def function(u):
        x = 2 * (1 + u) / (1 - u)
        return erfc(x) * exp(x * x)

    return function, [(mpf(1) - 2) / 3, (mpf(upper) - 2) / (mpf(upper) + 2)]


def table(name, kind, coefficients):
    suffix = "F" if kind == "float" else ""
    digits = 9 if kind == "float" else 17
    print(f"inline constexpr {kind} {name}[] = {{")
    for c in coefficients:
        print(f"    {mp.nstr(c, digits, strip_zeros=False, min_fixed=0, max_fixed=0)}{suffix},")
    print("};")


print("#pragma once\n")
print("/// Polynomial coefficients, highest power first; made by scripts/fit_erf.py.")
print("namespace diptych::math::detail {\n")
for kind, near_terms, far_terms, upper in (("float", 7, 8, 4.2), ("double", 12, 18, 6.2)):
    coefficients, error = chebyfit(near, [0, 1], near_terms, error=True)
    print(f"// erf(x) / x in x^2 on [0, 1]; largest error {mp.nstr(error, 2)}")
    table(f"kErfNear_{kind}", kind, coefficients)
    function, interval = far(upper)
    coefficients, error = chebyfit(function, interval, far_terms, error=True)
    print(f"\n// erfc(x) exp(x^2) in (x - 2) / (x + 2), x on [1, {upper}]; largest error {mp.nstr(error, 2)}")
    table(f"kErfFar_{kind}", kind, coefficients)
    print()
print("}  // namespace diptych::math::detail")
