#!/usr/bin/env python3
"""Makes the data sets that recipes name, from their sources on this machine.

    python3 scripts/fetch/datasets.py gsm8k SOURCE        # datasets/gsm8k/{train,test,sft}.jsonl; sft has its own solutions
    python3 scripts/fetch/datasets.py math SOURCE         # datasets/math/{train,test}.jsonl
    python3 scripts/fetch/datasets.py dapo_math SOURCE    # datasets/dapo_math/{train,test}.jsonl
    python3 scripts/fetch/datasets.py deepscaler SOURCE   # datasets/deepscaler/{train,test}.jsonl
    python3 scripts/fetch/datasets.py countdown SOURCE    # datasets/countdown_cd3_test.jsonl, which is shipped

SOURCE is a folder in which the files of a set lie, as its repository or the Hugging Face Hub has them, or a file: that is
then the training set. Rows are JSON lines, a JSON array, one JSON file each (hendrycks/MATH), or parquet (needs pyarrow).
Rows are checked, and each prompt is kept once. Nothing is downloaded.
"""

import argparse
import hashlib
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
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
    write(out, lines)


def write(out, lines):
    text = "\n".join(lines) + "\n"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text)
    print(f"{out}: {len(lines)} rows, sha256 {hashlib.sha256(text.encode()).hexdigest()}")


def rows_of_file(file):
    if file.suffix == ".parquet":
        try:
            import pyarrow.parquet
        except ModuleNotFoundError:
            sys.exit(f"{file}: parquet needs pyarrow (pip install pyarrow)")
        return [row for batch in pyarrow.parquet.ParquetFile(file).iter_batches() for row in batch.to_pylist()]
    text = file.read_text(encoding="utf-8").strip()
    if file.suffix == ".jsonl" or "\n{" in text:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    value = json.loads(text)
    return value if isinstance(value, list) else [value]


def files_of_split(source, names):
    """The files of the first of `names` that SOURCE has: NAME.EXT, NAME-00000-of-00001.EXT, SET_NAME.EXT, or a folder NAME."""
    files = sorted(file for file in source.rglob("*") if file.suffix in (".jsonl", ".json", ".parquet"))
    for name in names:
        found = [file for file in files if re.fullmatch(rf"(.*_)?{name}(-\d+-of-\d+)?", file.stem)]
        found = found or [file for file in files if name in file.relative_to(source).parts[:-1]]
        folders = {file.parent for file in found if name not in file.relative_to(source).parts[:-1]}
        if len(folders) > 1:
            sys.exit(f"{source}: several sets of {name}: {', '.join(map(str, sorted(folders)))}; name one of these folders")
        if found:
            return found
    return []


def gold_of_gsm8k(row):
    if not re.search(r"####\s*\S", row["answer"]):
        raise ValueError("no #### in its answer")
    return {"question": row["question"], "answer": row["answer"]}


def solution_of_gsm8k(row):
    """A row of a cold start: the solution as people write it, without the calculator's <<48/2=24>>."""
    return {"prompt": row["question"], "response": re.sub(r"<<[^<>]*>>", "", row["answer"])}


def boxed(text):
    """What the last \\boxed{…} or \\boxed X of a text holds; None without one."""
    at = text.rfind("\\boxed")
    rest = text[at + len("\\boxed"):].lstrip() if at >= 0 else ""
    if not rest.startswith("{"):
        return rest.split("$")[0].strip() or None
    depth = 0
    for i, c in enumerate(rest):
        depth += (c == "{") - (c == "}")
        if depth == 0:
            return rest[1:i]
    return None


def gold_of_math(row):
    if boxed(row["solution"]) is None:
        raise ValueError("no \\boxed in its solution")
    kept = {"problem": row["problem"], "solution": row["solution"]}
    level = re.search(r"\d+", str(row.get("level", "")))
    if level:
        kept["level"] = int(level.group())
    if row.get("subject") or row.get("type"):
        kept["subject"] = row.get("subject") or row["type"]
    return kept


def gold_of_verl(row):
    """A row of veRL's form: messages and reward_model.ground_truth."""
    return {"prompt": row["prompt"], "reward_model": {"ground_truth": row["reward_model"]["ground_truth"]}}


def gold_of_deepscaler(row):
    if not str(row["answer"]).strip():
        raise ValueError("an empty answer")
    return {"problem": row["problem"], "answer": str(row["answer"])}


# set: what makes a row of the training set one of its cold start
COLD_STARTS = {"gsm8k": solution_of_gsm8k}
# set: what makes a row, its splits with the names that sources have for them
SETS = {
    "gsm8k": (gold_of_gsm8k, {"train": ["train"], "test": ["test"]}),
    "math": (gold_of_math, {"train": ["train"], "test": ["test", "math500", "test_500"]}),
    "dapo_math": (gold_of_verl, {"train": ["dapo-math-17k", "train"], "test": ["aime-2024", "test"]}),
    "deepscaler": (gold_of_deepscaler, {"train": ["deepscaler", "train"], "test": ["aime", "test"]}),
}


def convert(name, source, out):
    keep, splits = SETS[name]
    if source.is_file():
        of_split = {"train": [source]}
    else:
        of_split = {split: files_of_split(source, names) for split, names in splits.items()}
    if not any(of_split.values()):
        sys.exit(f"{source}: expected files of {name}: {' or '.join(splits['train'])} with .jsonl, .json or .parquet; got none")
    for split, files in of_split.items():
        if not files:
            print(f"{source}: no {split} set", file=sys.stderr)
            continue
        lines, seen = [], set()
        for file in files:
            for number, row in enumerate(rows_of_file(file), 1):
                try:
                    kept = keep(row)
                except (KeyError, ValueError, TypeError) as error:
                    sys.exit(f"{file}, row {number}: expected a row of {name}, got {error}")
                prompt = json.dumps(next(iter(kept.values())))
                if prompt not in seen:
                    seen.add(prompt)
                    lines.append(json.dumps(kept, ensure_ascii=False))
        write(out / name / f"{split}.jsonl", lines)
        if split == "train" and name in COLD_STARTS:
            rows = [COLD_STARTS[name](json.loads(line)) for line in lines]
            write(out / name / "sft.jsonl", [json.dumps(row, ensure_ascii=False) for row in rows])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=[*SETS, "countdown"])
    parser.add_argument("source", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "datasets", help="folder of the sets (default: datasets)")
    arguments = parser.parse_args()
    if not arguments.source.exists():
        sys.exit(f"{arguments.source}: expected a folder or a file, got none")
    if arguments.set == "countdown":
        convert_cd3(arguments.source, arguments.out / "countdown_cd3_test.jsonl")
    else:
        convert(arguments.set, arguments.source, arguments.out)
