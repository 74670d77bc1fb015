#!/usr/bin/env python3
"""Pairs of answers that sympy knows to be equal, or not, before `qrl-train judge --verifier math`.

Random constants, expressions in one or two variables, tuples, sets, matrices, equations and intervals are written in two
forms: as the gold answer and as the response. Forms are expanded, factored, over one denominator, in partial fractions,
with or without \\left, \\cdot, **, and inequalities. A second response is a little off. Verdicts are those of sympy 1.14, and its numeric
values are compared besides. Prints a table of kinds; exits 1 when a verdict is wrong.

    python3 -m venv venv && venv/bin/pip install sympy==1.14.0
    venv/bin/python scripts/golden/check_math.py [--program build/qrl-train] [--seed 1] [--count 2000]
"""
import argparse
import collections
import json
import pathlib
import random
import subprocess
import sys

import sympy as sp

ROOT = pathlib.Path(__file__).resolve().parents[2]
VARIABLES = sp.symbols("x y a b n", positive=True)
FORMS = (sp.expand, sp.factor, sp.together, sp.apart, sp.simplify, sp.radsimp, sp.cancel, sp.expand_log, sp.powsimp)
IRRATIONAL = (sp.pi, sp.pi / 3, sp.pi**2 / 6, sp.exp(2), sp.log(2), sp.log(3) / 2, sp.I, 2 + 3 * sp.I)


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def integer(self, low=-9, high=9):
        return sp.Integer(self.random.randint(low, high))

    def rational(self, size=30, denominator=15):
        return sp.Rational(self.random.randint(-size, size), self.random.randint(1, denominator))

    def number(self):
        return self.random.choice([
            self.integer, self.rational, lambda: self.random.choice(IRRATIONAL),
            lambda: sp.sqrt(self.random.choice((2, 3, 5, 6, 7, 8, 12, 18))) * (self.integer() or 1)])()

    def constant(self):
        value = self.number()
        for _ in range(self.random.randint(0, 2)):
            other = self.number()
            value = self.random.choice((value + other, value - other, value * other, value / other if other else value))
        return value

    def polynomial(self, variables):
        terms = [(self.integer(-6, 6) or 1) * sp.prod(v ** self.random.randint(0, 3) for v in variables)
                 for _ in range(self.random.randint(2, 4))]
        return sum(terms, sp.Integer(0))

    def expression(self):
        variables = self.random.sample(VARIABLES, self.random.randint(1, 2))
        v, p, q = variables[0], self.polynomial(variables), self.polynomial(variables)
        return self.random.choice([
            p * q, p / q if q else p, p / (v + self.random.randint(1, 4)) + self.rational(5, 5),
            sp.sqrt(p**2 + v**2 * self.random.randint(1, 4)) + v, sp.sin(v) * 3 + sp.cos(2 * v) * self.polynomial([v]),
            self.random.randint(2, 5) ** v * v + sp.log(v), sp.exp(self.random.randint(1, 3) * v) + p])

    def text(self, value):
        """One way to write it; sympy's own, where e is a letter like any other, only without e."""
        plain = lambda: str(value).replace("I", "i")
        ways = [lambda: sp.latex(value)] * 3 + [lambda: sp.latex(value, fold_frac_powers=True),
                                                lambda: sp.latex(value, mul_symbol="dot")]
        return self.random.choice(ways if value.has(sp.E, sp.exp) else ways + [plain])()

    def same(self, value):
        return self.random.choice((lambda e: e, *FORMS))(value)

    def other(self, value):
        return self.same(value) + self.random.choice((1, -2, sp.Rational(1, 7), sp.sqrt(2), -sp.pi))

    # Each kind yields (gold, [equal responses], [others]).

    def scalar(self, value):
        at = {v: self.rational(40, 9) ** 2 + 1 for v in VARIABLES}
        close = lambda form: abs(complex(sp.N((form - value).subs(at), 30))) < 1e-9 * (1 + abs(complex(sp.N(value.subs(at)))))
        same, other = self.same(value), self.other(value)
        assert not value.has(sp.zoo, sp.nan, sp.oo) and close(same) and not close(other)
        return self.text(value), [self.text(same)], [self.text(other)]

    def tuple(self):
        values = [self.constant() for _ in range(self.random.randint(2, 3))]
        assert not any(v.has(sp.zoo, sp.nan) for v in values)
        write = lambda items: self.random.choice(("(%s)", r"\left(%s\right)")) % ", ".join(map(self.text, items))
        others = list(map(self.same, values))
        others[self.random.randrange(len(others))] += 1
        return write(values), [write(map(self.same, values))], [write(others)]

    def set(self):
        values = list({self.rational(9, 4) for _ in range(self.random.randint(2, 4))})
        write = lambda items: r"\{%s\}" % ", ".join(map(self.text, items))
        mixed = self.random.sample(values, len(values))
        others = [mixed[0] + 31, *mixed[1:]]
        return write(values), [write(mixed)], [write(others), write([*mixed, sp.Integer(77)])]

    def matrix(self):
        values = sp.Matrix(2, 2, [self.constant() for _ in range(4)])
        assert not values.has(sp.zoo, sp.nan)
        others = values.copy()
        others[self.random.randrange(4)] += 1
        return sp.latex(values), [sp.latex(values.applyfunc(self.same), mat_delim="(")], [sp.latex(others)]

    def equation(self):
        left, right = self.polynomial(VARIABLES[:2]), self.polynomial(VARIABLES[:2])
        assert (left - right).free_symbols
        factor, moved = self.random.choice((2, -1, 3, sp.Rational(1, 2))), self.polynomial(VARIABLES[:1])
        write = lambda a, b: f"{self.text(sp.expand(a))} = {self.text(sp.expand(b))}"
        return (write(left, right), [write(factor * (left + moved), factor * (right + moved))],
                [write(factor * (left + moved), factor * (right + moved) + 1)])

    def interval(self):
        low, high = sorted((self.rational(30, 5), self.rational(30, 5)))
        assert low < high
        begin, end = self.random.choice("[("), self.random.choice("])")
        write = lambda a, b, c, d: f"{a}{self.text(b)}, {self.text(c)}{d}"
        sign = {"[": r"\le", "(": "<", "]": r"\leq", ")": "<"}
        same = [f"x \\in \\left{begin}{self.text(low)}, {self.text(high)}\\right{end}",
                f"{self.text(low)} {sign[begin]} x {sign[end]} {self.text(high)}"]
        return (write(begin, low, high, end), same,
                [write(begin, low, high + 1, end), write("[(".replace(begin, ""), low, high, end)])


def rows(count, seed):
    maker = Maker(seed)
    kinds = {"constant": lambda: maker.scalar(maker.constant()), "expression": lambda: maker.scalar(maker.expression()),
             "tuple": maker.tuple, "set": maker.set, "matrix": maker.matrix, "equation": maker.equation,
             "interval": maker.interval}
    while count > 0:
        kind = maker.random.choice(list(kinds))
        try:
            gold, same, others = kinds[kind]()
        except (AssertionError, NotImplementedError, sp.PolynomialError, ZeroDivisionError):
            continue  # a value that is not finite, a form that sympy does not reach, a pair that came out equal
        for answer, equal in [(a, True) for a in same] + [(a, False) for a in others]:
            yield {"kind": kind, "equal": equal, "ground_truth": gold, "response": f"So it is $\\boxed{{{answer}}}$."}
            count -= 1


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--program", default=str(ROOT / "build" / "qrl-train"))
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--count", type=int, default=2000, help="responses")
    arguments = options.parse_args()
    cases = list(rows(arguments.count, arguments.seed))
    text = "".join(json.dumps(case) + "\n" for case in cases)
    out = subprocess.run([arguments.program, "judge", "--verifier", "math"], input=text, capture_output=True, text=True, check=True)
    verdicts = [json.loads(line) for line in out.stdout.splitlines()]
    table, wrong = collections.Counter(), []
    for case, verdict in zip(cases, verdicts, strict=True):
        table[case["kind"], case["equal"]] += 1
        if (verdict["score"] > 0.5) != case["equal"]:
            wrong.append((case, verdict))
    print("| kind | equal | not equal |\n|---|---|---|")
    for kind in sorted({kind for kind, _ in table}):
        print(f"| {kind} | {table[kind, True]} | {table[kind, False]} |")
    print(f"sympy {sp.__version__}, seed {arguments.seed}: {len(wrong)} of {len(cases)} verdicts wrong")
    for case, verdict in wrong[:20]:
        print(json.dumps({**case, **verdict}), file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
