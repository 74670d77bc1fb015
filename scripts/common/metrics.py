"""Rows of a run's metrics.jsonl and of other JSON-lines files: read, without what a clock decides, compared to the bit.

A library of scripts/accept/compare_runs, scripts/accept/check_unchanged and scripts/accept/check_quickstart, not a command.
"""
import collections
import fnmatch
import json

# What identical runs have different: how long something took, and shares made of it.
TIMINGS = ("timing_s/*", "perf/*")

# `row` counts from 0; `step` is None where a row has none; `key` is None where one side has no such row.
Difference = collections.namedtuple("Difference", "row step key a b")


def describe(difference):
    """A Difference in words: where it is, and what each side has."""
    where = f"row {difference.row + 1}" + ("" if difference.step is None else f" (step {difference.step})")
    if difference.key is None:
        return f"{where}: {difference.a} -> {difference.b}"
    return f"{where}: {difference.key}: {shown(difference.a)} -> {shown(difference.b)}"


def shown(text, longest=120):
    return text if len(text) <= longest else text[:longest] + "…"


def read_rows(path):
    """The rows of a JSON-lines file. Raises ValueError with the file and the line where one is no JSON object."""
    rows = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise ValueError(f"{path}:{number}: expected a JSON object, got {line[:80].strip()!r}") from error
            if not isinstance(row, dict):
                raise ValueError(f"{path}:{number}: expected a JSON object, got {line[:80].strip()!r}")
            rows.append(row)
    return rows


def is_ignored(key, patterns):
    return any(fnmatch.fnmatchcase(key, pattern) for pattern in patterns)


def without(row, patterns):
    """The row without the keys that match one of the glob patterns."""
    return {key: value for key, value in row.items() if not is_ignored(key, patterns)}


def stable_rows(path, ignored=()):
    """Rows of a file without TIMINGS and without the keys of `ignored` (globs)."""
    return [without(row, (*TIMINGS, *ignored)) for row in read_rows(path)]


def first_difference(a, b):
    """The first Difference of two lists of rows, None where they are equal. Values are compared as JSON spells them, so
    that -0.0 differs from 0.0; two spellings of one double are equal."""
    for number, (left, right) in enumerate(zip(a, b)):
        for key in [*left, *(key for key in right if key not in left)]:
            spelled = [json.dumps(row[key], sort_keys=True) if key in row else "no such key" for row in (left, right)]
            if spelled[0] != spelled[1]:
                return Difference(number, left.get("step"), key, *spelled)
    if len(a) != len(b):
        longer = a if len(a) > len(b) else b
        row = longer[min(len(a), len(b))]
        return Difference(min(len(a), len(b)), row.get("step"), None, f"{len(a)} rows", f"{len(b)} rows")
    return None
