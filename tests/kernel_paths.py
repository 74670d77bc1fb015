#!/usr/bin/env python3
"""Names the kernel paths that tests ran on, and in another line those that this processor lacks; the end of scripts/test.

usage: kernel_paths.py FOLDER     a file a path: `ran` or `lacking` (tests/ops/emulation/kernel_paths.cpp)
"""
import pathlib
import sys


def lines(folder):
    noted = {file.name: file.read_text().strip() for file in sorted(folder.glob("*"))}
    named = {what: ", ".join(name for name, note in noted.items() if note == what) for what in ("ran", "lacking")}
    yield "kernel paths that ran: " + (named["ran"] or "none, as no case that was chosen runs on a path of its own")
    if named["lacking"]:
        yield "kernel paths that did not run, as this processor lacks them: " + named["lacking"]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(*lines(pathlib.Path(sys.argv[1])), sep="\n")
