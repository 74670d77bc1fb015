#!/usr/bin/env python3
"""Each value of recipes/papers and of a paper's mode has its source behind it, in a comment that names a paper or says `ours`."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = re.compile(r"  # (FlashRL|QuRL|QaRL|AIS|FP8-RL|DAPO|DeepScaleR|veRL|QeRL), .|  # ours(: .|$)")


def unsourced(path, text):
    """Yields each line that has a value and no source: not a comment, the head of a section, an include, a mode's `what` or `paper`."""
    for number, line in enumerate(text.splitlines(), 1):
        head = re.match(r"#|(include|what|paper):|[^#]*:$|with: ", line)
        if line and not head and not SOURCE.search(line):
            yield f"{path}:{number}: expected the value's source at the end of its line, got {line!r}"


def main():
    example = "mode: qurl  # QuRL, results\neval: {n: 1}\nreward: {n: 2}  # mine\nrollout:\n  n: 3  # ours: one\n  top_p: 1  # ourselves\n"
    if [fault.split(":")[1] for fault in unsourced("example", example)] != ["2", "3", "6"]:
        sys.exit(f"the example's faults: {list(unsourced('example', example))}")
    recipes = sorted((ROOT / "recipes/papers").glob("*.yaml"))
    modes = [path for path in sorted((ROOT / "src/config/modes").glob("*.yaml")) if "\npaper: " in path.read_text(encoding="utf-8")]
    faults = [fault for path in recipes + modes for fault in unsourced(path.relative_to(ROOT), path.read_text(encoding="utf-8"))]
    print("\n".join(faults))
    return 1 if faults or len(recipes) < 50 or len(modes) < 6 else 0


if __name__ == "__main__":
    sys.exit(main())
