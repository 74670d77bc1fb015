#!/usr/bin/env python3
"""Text to ids on one thread, ours beside the tokenizers wheel, interleaved; ids are compared in number.

    ~/.cache/qrl-peers/hf/bin/python tokenizer.py [--model DIR] [--texts FILE.jsonl] [--program PATH] [--rounds 3]
"""
import argparse
import json
import os
import subprocess
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import tokenizers  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "data"


def wheel(model, texts):
    start = time.perf_counter()
    tokenizer = tokenizers.Tokenizer.from_file(f"{model}/tokenizer.json")
    load_s = time.perf_counter() - start
    start = time.perf_counter()
    encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    best_s = time.perf_counter() - start
    return {"load_s": load_s, "best_s": best_s, "num_tokens": sum(len(e.ids) for e in encodings)}


def ours(program, model, rows):
    result = subprocess.run([program, "tokenizer", "--model", model, "--rounds", "1"], input=rows, check=True,
                            capture_output=True, text=True)
    return json.loads(result.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=str(SHARED / "tokenizer" / "qwen3"))
    parser.add_argument("--texts", default=str(SHARED / "datasets" / "gsm8k_train.jsonl"))
    parser.add_argument("--program", default=str(ROOT / "build" / "qrl-bench"))
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    rows = Path(arguments.texts).read_text()
    texts = [value for line in rows.splitlines() for value in json.loads(line).values() if isinstance(value, str)]
    megabytes = sum(len(text.encode()) for text in texts) * 1e-6
    best = {}
    for _ in range(arguments.rounds):
        for name, facts in (("tokenizers " + tokenizers.__version__, wheel(arguments.model, texts)),
                            ("qrl-bench", ours(arguments.program, arguments.model, rows))):
            print(f"{name}: {megabytes / facts['best_s']:.1f} MB/s, load {facts['load_s']:.2f} s, {facts['num_tokens']} ids")
            previous = best.setdefault(name, facts)
            assert previous["num_tokens"] == facts["num_tokens"]
            best[name] = min(previous, facts, key=lambda f: f["best_s"])
    (peer, theirs), (_, mine) = best.items()
    assert theirs["num_tokens"] == mine["num_tokens"], "ids differ in number"
    print(f"{theirs['best_s'] / mine['best_s']:.1f} times the speed of {peer} on {megabytes:.1f} MB")


main()
