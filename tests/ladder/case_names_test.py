#!/usr/bin/env python3
"""Every name of a test case that another file spells matches a case.

Read are commands in pages, scripts and tests, and patterns in tests/allowed_skips.txt and scripts/gpu/correct.py.
tests/labels.py checks slow.txt, scripts/accept/check_tests its rows.
"""
import fnmatch
import importlib.util
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
COMMAND = re.compile(r"""\b(test_[a-z]+)(?:_device)? (?:'([^'\n]+)'|"([^"\n]+)")""")
MADE_UP = {"CASE"}


def module(path):
    loaded = importlib.util.module_from_spec(spec := importlib.util.spec_from_file_location(path.stem, path))
    sys.path.insert(0, str(path.parent))
    spec.loader.exec_module(loaded)
    return loaded


def commands(text):
    """(folder, pattern) of each command that runs cases of a test program."""
    for program, single, double in COMMAND.findall(text):
        if (single or double) not in MADE_UP:
            yield program.removeprefix("test_"), single or double


def other_tests():
    """Names of the tests that CMake adds itself; words that it fills in are patterns."""
    for path in TESTS.rglob("CMakeLists.txt"):
        text = path.read_text(encoding="utf-8")
        names = re.findall(r'add_test\(NAME "([^"]+)"', text) + [f"dist: {name}" for name in re.findall(r'qrl_mpi_test\("([^"]+)"', text)]
        yield from (re.sub(r"\$\{\w+\}", "*", name) for name in names)


def main():
    labels = module(TESTS / "labels.py")
    cases = [(file.split("/")[0], name) for file, name in labels.cases()]
    faults = []
    # Catch reads such a name, which ctest gives it, as an option, tag or exclusion; the case then does not run.
    faults += [f"{folder}: expected a case's name that begins with a letter or digit, got {name}"
               for folder, name in cases if not name[0].isalnum()]

    def expect(where, pattern, names):
        if not any(fnmatch.fnmatchcase(name, pattern) for name in names):
            faults.append(f"{where}: expected a test case that fits, got none: {pattern}")

    if list(commands("build/tests/test_a 'b*' and test_cuda_device \"c: d\"")) != [("a", "b*"), ("cuda", "c: d")]:
        faults.append("commands: the example is not read")
    pages = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "AGENTS.md")] + sorted((ROOT / "docs").rglob("*.md"))
    scripts = [path for path in sorted((ROOT / "scripts").rglob("*")) if path.is_file() and path.suffix in ("", ".py", ".sh")]
    for path in pages + scripts + sorted(TESTS.glob("*.md")) + sorted(TESTS.rglob("*.cpp")):
        for folder, pattern in commands(path.read_text(encoding="utf-8", errors="replace")):
            expect(path.relative_to(ROOT), pattern, [name for of, name in cases if of == folder])
    for _, _, patterns in module(ROOT / "scripts/gpu/correct.py").SANITIZED:
        for pattern in patterns.split(","):
            expect("scripts/gpu/correct.py", pattern, [name for of, name in cases if of == "cuda"])
    known = [f"{folder}:{name}" for folder, name in cases] + list(other_tests())
    for line in (TESTS / "allowed_skips.txt").read_text(encoding="utf-8").splitlines():
        pattern = line.partition(" | ")[0]
        if line and not line.startswith("#") and not pattern.startswith("cuda on a GPU:"):
            expect("tests/allowed_skips.txt", pattern, known)
    print("\n".join(faults + [f"{len(cases)} cases, {len(faults)} faults"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
