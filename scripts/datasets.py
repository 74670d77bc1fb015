#!/usr/bin/env python3
"""Makes the data sets under datasets/ from their sources.

    python3 scripts/datasets.py [SHARED_DATA]     # default ../shared/data
"""

import hashlib
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE_SHA256 = "9916f614621e26fb2b035ed4ea641e35e4fff0d533bb9b9c7bcaaa61017d88c6"


def countdown_prompt(numbers, target):
    """As countdown_prompt of src/tasks/countdown/generator.cpp: a test compares them."""
    return " ".join(map(str, numbers)) + f" = {target}\n"


def convert_cd3(source, out):
    data = source.read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != SOURCE_SHA256:
        sys.exit(f"{source}: expected sha256 {SOURCE_SHA256}, got {found}")
    lines = []
    for line in data.decode().splitlines():
        row = json.loads(line)
        numbers, target = [int(n) for n in row["input"].split(",")], int(row["output"])
        lines.append(json.dumps({"prompt": countdown_prompt(numbers, target),
                                 "ground_truth": {"numbers": numbers, "target": target},
                                 "data_source": "countdown_cd3"}))
    text = "\n".join(lines) + "\n"
    out.write_text(text)
    print(f"{out}: {len(lines)} rows, sha256 {hashlib.sha256(text.encode()).hexdigest()}")


if __name__ == "__main__":
    shared = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT.parent / "shared" / "data"
    convert_cd3(shared / "datasets" / "countdown_cd3_test.jsonl", ROOT / "datasets" / "countdown_cd3_test.jsonl")
