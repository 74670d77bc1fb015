#!/usr/bin/env python3
"""No source, script or document holds a word that tests/ladder/words.txt replaces, in its text or in its name.

usage: words_test.py [ROOT]     ROOT: the checkout to read, this one if it is left out
"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
WORDS = HERE / "words.txt"
FOLDERS = ("apps", "cuda", "docs", "recipes", "scripts", "src", "tests", "third_party", ".")  # of "." the files alone
SUFFIXES = {".cpp", ".h", ".cu", ".cuh", ".inc", ".md", ".py", ".sh", ".yaml", ".txt", ".cmake", ".json", ""}
EXEMPT = (
    "CHANGELOG.md", "docs/reference/glossary.md", "docs/decisions/", "LICENSE",  # these may name old words
    "src/reward/math/",  # other people's words
    "tests/data/", "tests/fuzz/seeds/", "recipes/models/",  # inputs and results of other programs, and models' files
    "tests/ladder/words",  # the list and this file
)


def patterns():
    """Pairs of a compiled pattern and its replacement."""
    pairs = []
    for number, line in enumerate(WORDS.read_text(encoding="utf-8").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        pattern, tab, replacement = line.partition("\t")
        if not tab or not replacement:
            sys.exit(f"{WORDS}:{number}: expected a pattern, a tab and its replacement, got {line!r}")
        pairs.append((re.compile(pattern), replacement))
    return pairs


def files(root):
    """Paths relative to `root` with their text."""
    for folder in FOLDERS:
        top = root / folder
        for path in sorted(top.iterdir() if folder == "." else top.rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix not in SUFFIXES or name.startswith(EXEMPT) or not path.is_file():
                continue
            yield name, path.read_text(encoding="utf-8", errors="replace")


def faults(root):
    pairs = patterns()
    any_word = re.compile("|".join(f"(?:{re.sub(r'[(][?]i[)]', '', one.pattern)})" for one, _ in pairs), re.IGNORECASE)
    for name, text in files(root):
        if not any_word.search(name) and not any_word.search(text):
            continue  # a quick look that finds too much
        for number, line in enumerate([name, *text.splitlines()]):
            for pattern, replacement in pairs:
                if found := pattern.search(line):
                    where = f"{name}:{number}" if number else f"{name}: its name"
                    yield f"{where}: expected {replacement}, got {found.group(0)!r}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else HERE.parents[1]).resolve()
    read = sum(1 for _ in files(root))
    if read < 300:
        sys.exit(f"{root}: expected a checkout, got {read} files to read")
    found = list(faults(root))
    print("\n".join(found + [f"{read} files, {len(found)} words that {WORDS.name} replaces"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
