#!/usr/bin/env python3
"""Goldens of the countdown verifier and of the train / held-out split.

Independent of src/tasks: answers are found with regular expressions, read by Python's own parser and evaluated with
fractions.Fraction. Also cuts the excerpt of known answers that ships with the tests.

    python3 scripts/golden/countdown.py [SHARED_DATA]     # default ../shared/data; writes tests/data
"""

import ast
import json
import platform
import random
import re
import sys
from fractions import Fraction
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "tests" / "data" / "golden" / "countdown"
SEED = 20240607
LIMIT = 2**63 - 1


class Overflow(Exception):
    pass


def evaluate(node):
    """(value, numbers) of a parsed expression; every value on the way must fit 64 bits."""
    if isinstance(node, ast.Expression):
        return evaluate(node.body)
    if isinstance(node, ast.Constant):
        value, numbers = Fraction(node.value), [node.value]
    elif isinstance(node, ast.UnaryOp):
        value, numbers = evaluate(node.operand)
        value = -value if isinstance(node.op, ast.USub) else value
    else:
        left, left_numbers = evaluate(node.left)
        right, right_numbers = evaluate(node.right)
        numbers = left_numbers + right_numbers
        kind = type(node.op).__name__
        value = {"Add": lambda: left + right, "Sub": lambda: left - right, "Mult": lambda: left * right,
                 "Div": lambda: left / right}[kind]()
    if abs(value.numerator) > LIMIT or value.denominator > LIMIT:
        raise Overflow
    return value, numbers


def parse(text):
    """Python's tree of an expression in the grammar, or None. Python reads a subset of its own language here: the
    tokens are cut first and put back with spaces between, so that ** and // fall apart."""
    if re.search(r"[^0-9+\-*/() \t\n\r\f\v]", text):
        return None
    tokens = re.findall(r"\d+|[-+*/()]", text)
    if any(len(t) > 1 and t[0] == "0" for t in tokens):
        return None
    try:
        tree = ast.parse(" ".join(tokens), mode="eval")
    except SyntaxError:
        return None
    allowed = (ast.Expression, ast.Constant, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop)
    if not all(isinstance(node, allowed) for node in ast.walk(tree)):
        return None  # "()" is an empty tuple, "3 (4)" a call
    return tree


def numbers_of(tree):
    return [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]


def last_box(text):
    """Content of the last \\boxed{ with a closing brace, pairs found by a stack from the left."""
    stack, boxes = [], []
    for at, char in enumerate(text):
        if char == "{":
            stack.append(at)
        elif char == "}" and stack:
            start = stack.pop()
            if text[: start + 1].endswith("\\boxed{"):
                boxes.append((start, text[start + 1 : at]))
    return max(boxes)[1] if boxes else None


def judge(response, numbers, target, rule):
    tagged = re.findall(r"<answer>((?:(?!<answer>).)*?)</answer>", response, re.S)
    inside = tagged[-1] if tagged else response
    box = last_box(inside)
    if box is not None:
        answer = re.sub(r"=\s*[-+]?\d+(\.\d*)?\s*\Z", "", box, flags=re.A)
        answer = re.sub(r"\\(times|cdot)(?![a-zA-Z])", "*", answer)
        answer = re.sub(r"\\div(?![a-zA-Z])", "/", answer)
        answer = re.sub(r"\\(left(?=\()|right(?=\)))", "", answer)
        fraction = r"\\[dt]?frac(?![a-zA-Z])\s*(\{[^{}]*\}|\d)\s*(\{[^{}]*\}|\d)"
        while re.search(fraction, answer, re.A):
            answer = re.sub(fraction, lambda m: f"(({m[1].strip('{}')})/({m[2].strip('{}')}))", answer, flags=re.A)
    elif tagged:
        answer = inside
    else:
        return "no_answer", "no answer"
    tree = parse(answer)
    if tree is None:
        return "no_answer", "not in the grammar"
    left = list(numbers)
    for used in numbers_of(tree):
        if used not in left:
            return "wrong", "numbers differ"
        left.remove(used)
    if left and rule == "all":
        return "wrong", "numbers differ"
    try:
        value, _ = evaluate(tree)
    except ZeroDivisionError:
        return "wrong", "division by zero"
    except Overflow:
        return "wrong", "overflow"
    return ("correct", "correct") if value == target else ("wrong", "wrong value")


def random_expression(rng, numbers):
    parts = [str(n) for n in numbers]
    rng.shuffle(parts)
    while len(parts) > 1:
        i = rng.randrange(len(parts) - 1)
        space = rng.choice(["", " "])
        sign = rng.choice([""] * 6 + ["-", "+", "- -"])
        joined = parts[i] + space + rng.choice("+-*/") + space + sign + parts[i + 1]
        parts[i : i + 2] = [f"({joined})" if rng.random() < 0.4 else joined]
    return parts[0]


def mutate(rng, text):
    kind = rng.randrange(6)
    at = rng.randrange(len(text) + 1)
    if kind == 0:
        return text[:at] + rng.choice(list("+-*/()=. ,0123456789_xe^\\") + ["**", "//", "×", "÷", "٣", "−", "05"]) + text[at:]
    if kind == 1 and text:
        return text[:at] + text[at + 1 :]
    if kind == 2:
        return text.replace("*", rng.choice(["×", "\\times ", "\\cdot ", "**"]), 1)
    if kind == 3:
        return text.replace("/", rng.choice(["÷", "\\div ", "//"]), 1)
    if kind == 4:
        return text + rng.choice([" = 3", "=", "= 12.0", " = 4 = 4", " = x"])
    return text.replace("(", rng.choice(["[", "{", "\\left("]), 1)


def wrap(rng, text, value):
    decoy = "<answer>1+1</answer>"
    return rng.choice([
        f"<answer>{text}</answer>", f"<answer>{text}</answer>", f"so\n<answer>\n\\boxed{{{text}}}\n</answer>.",
        f"\\boxed{{{text}}}", f"\\boxed{{{text} = {value}}}", f"{decoy} no: <answer>{text}</answer>",
        f"<answer>{text}", f"<answer><answer>{text}</answer></answer>", f"<answer>{text}</answer> \\boxed{{9}} </answer>",
        f"\\boxed{{1}} \\boxed{{{text}}} \\boxed{{", f"{{\\boxed{{{text}}}}}", f"<answer>{text} \\boxed{{ </answer>",
        f"<ANSWER>{text}</ANSWER>", f"\\boxed{{\\boxed{{{text}}}}}", f"{text}",
    ])


def verdict_cases(rng):
    cases = []
    while len(cases) < 700:
        big = rng.random() < 0.2
        numbers = [rng.randint(1, 4 * 10**9 if big else 25) for _ in range(rng.randint(1, 5))]
        expression = random_expression(rng, numbers)
        if rng.random() < 0.04:
            numbers = [5, numbers[0], numbers[0]]
            expression = "5 / ({1} - {2})".format(*numbers)
        try:
            value, _ = evaluate(parse(expression))
        except (ZeroDivisionError, Overflow):
            value = Fraction(1)
        target = int(value) if rng.random() < 0.85 else int(value) + 1
        if abs(target) > LIMIT:
            continue
        if rng.random() < 0.45:
            expression = mutate(rng, expression)
        given = numbers + [7] if rng.random() < 0.2 else numbers
        response = wrap(rng, expression, target)
        rule = rng.choice(["all", "subset"])
        outcome, reason = judge(response, given, target, rule)
        cases.append({"response": response, "numbers": given, "target": target, "rule": rule, "outcome": outcome,
                      "reason": reason})
    return cases


def philox(counter, key):
    """Philox4x32-10 (Salmon et al., SC'11)."""
    c, k, mask = list(counter), list(key), 0xFFFFFFFF
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & mask, (a >> 32) ^ c[3] ^ k[1], a & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c


def held_out(numbers, target):
    state = (0, 0)
    for word in sorted(numbers) + [target]:
        out = philox((word & 0xFFFFFFFF, word >> 32, *state), (0x636F756E, 0x74646F77))
        state = (out[0], out[1])
    return state[0] % 4 == 0


def split_cases(rng):
    cases = []
    for _ in range(200):
        numbers = [rng.randint(1, rng.choice([20, 100, 10**10])) for _ in range(rng.randint(1, 6))]
        target = rng.randint(1, 10**3)
        cases.append({"numbers": numbers, "target": target, "held_out": held_out(numbers, target)})
    return cases


def excerpt(shared):
    """Known answers whose licence lets them ship: d1's real outputs (Apache-2.0) and the hand-written ones (CC0)."""
    rows = [json.loads(line) for line in (shared / "verifier" / "countdown_cases.jsonl").open(encoding="utf-8")]
    kept = {"true": 0, "false": 0}
    for row in rows:
        if row["license"] == "CC0":
            yield row
        elif row["source"].startswith("dllm-reasoning/d1") and len(row["pred"]) < 1500:
            side = "true" if row["expected_strict"] else "false"
            latex = re.search(r"\\boxed\{[^}\n]*(\\|=)", row["pred"])
            if kept[side] < 12 or latex:
                kept[side] += not latex
                yield row


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def main():
    shared = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT.parent / "shared" / "data"
    rng = random.Random(SEED)
    OUT.mkdir(parents=True, exist_ok=True)
    write_lines(OUT / "verdicts.jsonl", verdict_cases(rng))
    write_lines(OUT / "splits.jsonl", split_cases(rng))
    write_lines(ROOT / "tests" / "data" / "countdown_cases_excerpt.jsonl", excerpt(shared))
    manifest = {"command": "python3 scripts/golden/countdown.py", "seed": SEED, "python": platform.python_version(),
                "files": {"verdicts.jsonl": "responses and the verdict of an independent judge",
                          "splits.jsonl": "countdown tasks and their side of the split"}}
    (OUT / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


if __name__ == "__main__":
    main()
