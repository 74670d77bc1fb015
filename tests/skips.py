#!/usr/bin/env python3
"""Fails where a case was skipped and tests/allowed_skips.txt has no line for it; scripts/test calls it after ctest.

usage: skips.py RESULTS     RESULTS: what `ctest --output-junit RESULTS --test-output-size-passed 1000000000` wrote

A skip is a line `SKIPPED: REASON` of a case, a test of Python's unittest that was skipped, or a case that ctest counts as
skipped. exit: 0 each skip is allowed, 1 one is not, 2 wrong arguments
"""
import collections
import fnmatch
import os
import pathlib
import re
import sys
import xml.etree.ElementTree

ALLOWED = pathlib.Path(__file__).resolve().parent / "allowed_skips.txt"


def rules(text):
    """[(pattern of cases, pattern of reasons, why the skip is right)] of the file's lines that hold here."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = [part.strip() for part in line.split(" | ")]
        if len(parts) != 3 or not all(parts) or not parts[1].strip("*?"):
            sys.exit(f"{ALLOWED.name}:{number}: expected CASES | REASON | WHY with words in REASON, got {line!r}")
        why, _, condition = parts[2].partition(" when ")
        name, _, value = condition.partition("=")
        if not condition or os.environ.get(name, "") == value:
            found.append((parts[0], parts[1], why))
    return found


def skips(results):
    """(case, reason) of every skip in ctest's results."""
    for case in xml.etree.ElementTree.parse(results).getroot().iter("testcase"):
        output = case.findtext("system-out") or ""
        reasons = re.findall(r"(?m)^SKIPPED: (.*)$", output) + re.findall(r"(?m) \.\.\. skipped ['\"](.*)['\"]$", output)
        untold = sum(map(int, re.findall(r"(?m)^OK \(.*?skipped=(\d+)", output))) > len(reasons)
        if untold or (case.find("skipped") is not None and not reasons):
            reasons.append("no line says why")
        yield from ((case.get("name"), reason) for reason in dict.fromkeys(reasons))


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    allowed, counts, faults = rules(ALLOWED.read_text(encoding="utf-8")), collections.Counter(), collections.defaultdict(list)
    for case, reason in skips(sys.argv[1]):
        why = next((why for cases, reasons, why in allowed if fnmatch.fnmatchcase(case, cases) and fnmatch.fnmatchcase(reason, reasons)), None)
        if why is None:
            faults[reason].append(case)
        else:
            counts[why] += 1
    told = ", ".join(f"{count} as {why}" for why, count in counts.most_common())
    for reason, cases in faults.items():
        others = f" (and {len(cases) - 1} more cases)" if len(cases) > 1 else ""
        print(f"tests/{ALLOWED.name}: expected a line for this skip, got none: {cases[0]}{others}: {reason}")
    print(f"skips: {sum(counts.values())} allowed{': ' * bool(told)}{told}; {sum(map(len, faults.values()))} not")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
