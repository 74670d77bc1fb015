#!/usr/bin/env python3
"""Goldens of parquet: two files as pyarrow writes them, and their rows as JSON lines by Python's json.

    python3 scripts/golden/parquet.py        # needs pyarrow; writes tests/data/golden/parquet
"""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

OUT = Path(__file__).resolve().parents[2] / "tests" / "data" / "golden" / "parquet"
TYPES = [
    {"text": "a \"quoted\" \\ text\n\u0001\t é 🙂", "small": -7, "big": -(2**63), "unsigned": 2**64 - 1, "single": 0.5, "number": 0.1,
     "flag": True, "word": "one", "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": None}],
     "lists": [[1, 2], []], "nested": {"a": {"b": [True, None]}}, "nothing": None},
    {"text": "", "small": 127, "big": 2**63 - 1, "unsigned": 0, "single": -1.5, "number": 1e300, "flag": False, "word": "two",
     "messages": [], "lists": None, "nested": None, "nothing": None},
    {"text": None, "small": None, "big": 0, "unsigned": 1, "single": 3.0, "number": 123456789.125, "flag": None, "word": "one",
     "messages": None, "lists": [None, [3]], "nested": {"a": None}, "nothing": None},
]
SCHEMA = pa.schema([
    ("text", pa.large_string()), ("small", pa.int8()), ("big", pa.int64()), ("unsigned", pa.uint64()), ("single", pa.float32()),
    ("number", pa.float64()), ("flag", pa.bool_()), ("word", pa.dictionary(pa.int32(), pa.string())),
    ("messages", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))), ("lists", pa.list_(pa.list_(pa.int32()))),
    ("nested", pa.struct([("a", pa.struct([("b", pa.list_(pa.bool_()))]))])), ("nothing", pa.null())])


def countdown_rows():
    """Prompts that tests/train/tiny.yaml can train on."""
    for i in range(12):
        numbers = [i % 9 + 1, (i * 5) % 9 + 1]
        yield {"prompt": f"{numbers[0]} {numbers[1]} = {sum(numbers)}\n",
               "ground_truth": {"numbers": numbers, "target": sum(numbers)}, "data_source": "sums"}


def write_lines(file, rows):
    lines = [json.dumps({name: value for name, value in row.items() if value is not None}, ensure_ascii=False) for row in rows]
    file.write_text("\n".join(lines) + "\n")


def write_left_out():
    """Rows whose prompt and answer are texts of a newer type, among columns that JSON has no form for, and NaN."""
    info = pa.array([{"created": 0, "gold": "8", "scores": [0.5, float("nan")]}],
                    pa.struct([("created", pa.timestamp("us")), ("gold", pa.string()), ("scores", pa.list_(pa.float64()))]))
    pq.write_table(pa.table({
        "prompt": pa.array(["3 + 5?"], pa.string_view()), "answer": pa.array(["8"], pa.string_view()),
        "stamp": pa.array([0], pa.timestamp("us")), "picture": pa.array([b"\xff"], pa.binary()),
        "price": pa.array([None], pa.decimal128(5, 2)).fill_null(1), "half": pa.array([1.5], pa.float16()),
        "tags": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())), "rate": pa.array([float("nan")]),
        "pair": pa.array([[1, 2]], pa.list_(pa.int64(), 2)), "info": info}), OUT / "left_out.parquet")


def main():
    OUT.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(TYPES, SCHEMA), OUT / "types.parquet", compression="zstd", row_group_size=2)
    write_lines(OUT / "types.jsonl", TYPES)
    rows = list(countdown_rows())
    pq.write_table(pa.Table.from_pylist(rows), OUT / "countdown.parquet", compression="snappy", row_group_size=5)
    write_lines(OUT / "countdown.jsonl", rows)
    pq.write_table(pa.table({"prompt": ["a"], "day": pa.array([0], pa.date32())}), OUT / "dates.parquet")
    write_left_out()
    print(f"pyarrow {pa.__version__}")


if __name__ == "__main__":
    main()
