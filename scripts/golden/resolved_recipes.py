#!/usr/bin/env python3
"""Writes the resolved recipes of all files of recipes/ that have a mode: what papers' settings resolve to.

usage: resolved_recipes.py QRL_TRAIN > tests/data/golden/resolved_recipes.json

QRL_TRAIN is the program of the commit that the modes must agree with, in the build folder of its checkout. The committed file is of
5884cdbb. It has the value that most files have of each key once, and each file's other values.
"""
import collections
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/science"))
import resolved  # noqa: E402


def values_of(program, *arguments):
    printed = subprocess.run([program, *arguments, "--print-config"], check=True, capture_output=True, text=True).stdout
    root = str(pathlib.Path(program).resolve().parents[1]) + "/"
    return {key: value.replace(root, "") for key, (value, _) in resolved.read(printed).items()}


def main():
    program = sys.argv[1]
    recipes = pathlib.Path(program).resolve().parents[1] / "recipes"
    files = {str(file.relative_to(recipes)): values_of(program, str(file)) for file in sorted(recipes.rglob("*.yaml"))}
    files = {name: values for name, values in files.items() if values["mode"] != "null"}
    usual = {key: collections.Counter(values[key] for values in files.values()).most_common(1)[0][0]
             for key in next(iter(files.values()))}
    lines = [f" {json.dumps(name)}: " + json.dumps({key: value for key, value in values.items() if value != usual[key]})
             for name, values in files.items()]
    print('{"usual": ' + json.dumps(usual) + ',\n"recipes": {\n' + ",\n".join(lines) + "\n}}")


main()
