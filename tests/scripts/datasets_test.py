#!/usr/bin/env python3
"""scripts/fetch/datasets.py gsm8k: rows of each split, each prompt once, and a cold start of the training set's own solutions."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "fetch" / "datasets.py"
ROWS = [{"question": "A?", "answer": "He has 48/2 = <<48/2=24>>24.\nAnd $<<24+1=25>>25 < 30.\n#### 25", "other": 1},
        {"question": "B?", "answer": "None.\n#### 0"}, {"question": "A?", "answer": "Again.\n#### 25"}]


def lines(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


class Datasets(unittest.TestCase):
    def test_gsm8k(self):
        with tempfile.TemporaryDirectory() as temporary:
            source, out = pathlib.Path(temporary) / "source", pathlib.Path(temporary) / "out"
            source.mkdir()
            (source / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
            (source / "test.jsonl").write_text(json.dumps(ROWS[1]) + "\n")
            command = [sys.executable, SCRIPT, "gsm8k", source, "--out", out]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            self.assertEqual(lines(out / "gsm8k/train.jsonl"), [{key: row[key] for key in ("question", "answer")} for row in ROWS[:2]])
            self.assertEqual(lines(out / "gsm8k/test.jsonl"), [ROWS[1]])
            self.assertEqual(lines(out / "gsm8k/sft.jsonl"),
                             [{"prompt": "A?", "response": "He has 48/2 = 24.\nAnd $25 < 30.\n#### 25"},
                              {"prompt": "B?", "response": "None.\n#### 0"}])
            (source / "train.jsonl").write_text(json.dumps({"question": "C?", "answer": "3"}) + "\n")
            refused = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn("row 1: expected a row of gsm8k, got no #### in its answer", refused.stderr)


if __name__ == "__main__":
    unittest.main()
