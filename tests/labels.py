#!/usr/bin/env python3
"""Labels of the test programs' cases: `unit` (less than 0.5 s) or, by tests/slow.txt, `slow`; and `gpu-emulated`.

    labels.py                  prints what ctest includes (tests/CMakeLists.txt)
    labels.py --check COSTS    checks slow.txt

The check fails where a line of slow.txt matches no case, or where a unit case took 5 s by COSTS, ctest's CTestCostData.txt.
That is ten times the limit, for a busy machine.
"""
import fnmatch
import pathlib
import re
import sys

TESTS = pathlib.Path(__file__).resolve().parent
SLOW = TESTS / "slow.txt"
EMULATED = ("cuda/*", "learner/device_*")
FAR_TOO_LONG_S = 5


def cases():
    """(folder/file, name) of every TEST_CASE, as ctest has the name."""
    for path in sorted(TESTS.glob("*/*.cpp")):
        for name in re.findall(r'TEST_CASE\(\s*"((?:[^"\\]|\\.)*)"', path.read_text(encoding="utf-8")):
            yield path.relative_to(TESTS).as_posix(), re.sub(r"\\(.)", r"\1", name)


def slow_lines():
    """(pattern of files, pattern of names); a file without a name means all its cases."""
    for line in SLOW.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            file, _, name = line.partition(": ")
            yield line, file, name or "*"


def labels_of(file, name, slow):
    is_slow = any(fnmatch.fnmatchcase(file, f) and fnmatch.fnmatchcase(name, n) for _, f, n in slow)
    is_emulated = any(fnmatch.fnmatchcase(file, pattern) for pattern in EMULATED)
    return ["slow" if is_slow else "unit"] + ["gpu-emulated"] * is_emulated


def ctest_name(file, name):
    return f"{file.split('/')[0]}:{name}"


def check(costs):
    all_cases, slow = list(cases()), list(slow_lines())
    faults = [f"{SLOW.name}: expected a case that fits, got none: {line}" for line, f, n in slow
              if not any(fnmatch.fnmatchcase(file, f) and fnmatch.fnmatchcase(name, n) for file, name in all_cases)]
    took_s = {}
    if costs.exists():
        for line in costs.read_text(errors="replace").splitlines():
            if found := re.fullmatch(r"(.*) \d+ ([\d.e+-]+)", line):
                took_s[found.group(1)] = float(found.group(2))
    faults += [f"{SLOW.name}: expected the case, which took {took_s[ctest_name(file, name)]:.1f} s, got no line for it: {file}: {name}"
               for file, name in all_cases
               if took_s.get(ctest_name(file, name), 0) >= FAR_TOO_LONG_S and "unit" in labels_of(file, name, slow)]
    print("\n".join(faults + [f"{len(all_cases)} cases, {len(slow)} lines of {SLOW.name}, {len(faults)} faults"]))
    return 1 if faults else 0


def main():
    if sys.argv[1:2] == ["--check"] and len(sys.argv) == 3:
        return check(pathlib.Path(sys.argv[2]))
    if sys.argv[1:]:
        sys.exit(__doc__)
    slow = list(slow_lines())
    for file, name in cases():
        print(f'set_tests_properties([==[{ctest_name(file, name)}]==] PROPERTIES LABELS "{";".join(labels_of(file, name, slow))}")')
    return 0


if __name__ == "__main__":
    sys.exit(main())
