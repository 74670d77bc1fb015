"""Writes the rows of recipes/environments/calculator.yaml: products of three-digit numbers.

    python3 products.py [FOLDER]

FOLDER (default: products, beside this file) gets train.jsonl and test.jsonl, and two cold starts of the same products: with_calls.jsonl calls
the calculator, worked.jsonl works the product out. The system message of the calls is the one that qrl_env shows a model.
"""
import json
import pathlib
import random
import sys

import calculator

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parents[1] / folder) for folder in ("apps/python", "python")]  # in a checkout, and installed
from qrl_env.tools import schemas_by_name, system_text  # noqa: E402


def question(a, b):
    return f"What is {a} * {b}?"


def worked(a, b):
    parts = [a * int(digit) * 10 ** (2 - i) for i, digit in enumerate(str(b))]
    terms = [f"{a} * {int(digit) * 10 ** (2 - i)}" for i, digit in enumerate(str(b))]
    return f"{' + '.join(terms)} = {' + '.join(map(str, parts))} = {sum(parts)}"


def with_call(system, a, b):
    call = json.dumps({"name": "multiply", "arguments": {"a": a, "b": b}})
    return [{"role": "system", "content": system}, {"role": "user", "content": question(a, b)},
            {"role": "assistant", "content": f"<tool_call>\n{call}\n</tool_call>"}, {"role": "user", "content": str(a * b)},
            {"role": "assistant", "content": f"{a} * {b} = {a * b}"}]


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else HERE / "products")
    folder.mkdir(parents=True, exist_ok=True)
    rng, system = random.Random(0), system_text(list(schemas_by_name([calculator.multiply]).values()))
    pairs = [divmod(number, 900) for number in rng.sample(range(900 * 900), 4096 + 200 + 512)]
    pairs = [(100 + a, 100 + b) for a, b in pairs]
    rows = [{"prompt": question(a, b), "answer": str(a * b), "data_source": "products"} for a, b in pairs[:4296]]
    files = {"train": rows[:4096], "test": rows[4096:],
             "with_calls": [{"messages": with_call(system, a, b)} for a, b in pairs[4296:]],
             "worked": [{"messages": [{"role": "user", "content": question(a, b)}, {"role": "assistant", "content": worked(a, b)}]}
                        for a, b in pairs[4296:]]}
    for name, lines in files.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        print(f"{len(lines)} rows in {folder / name}.jsonl")


if __name__ == "__main__":
    main()
