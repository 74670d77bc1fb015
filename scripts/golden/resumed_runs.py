#!/usr/bin/env python3
"""Makes the checkpoints that tests/train/old_checkpoints_test.cpp resumes, and what the run that wrote them did next.

usage: resumed_runs.py QRL_TRAIN

QRL_TRAIN is the program of the commit whose runs are resumed; the committed files are of 5884cdbb. Each recipe of tests/data/resumed
runs three steps without a break. The folder of its name keeps the checkpoints after step 1 and the rows until then.
expected.json has the later rows and the hashes of the last checkpoint's weights and moments. Kernels are the portable ones.
"""
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests/data/resumed"
PORTABLE = {**os.environ, "QRL_ISA": "portable", "ATEN_CPU_CAPABILITY": "default"}
LAST, KEPT = "step_3", ("sft_2", "step_1")


def make(program, recipe):
    name, home = recipe.stem, FOLDER / recipe.stem
    with tempfile.TemporaryDirectory() as work:  # away from the checkout, whose place checkpoints would record
        recipes, run = pathlib.Path(work) / "recipes", pathlib.Path(work) / name
        shutil.copytree(FOLDER, recipes, ignore=shutil.ignore_patterns("checkpoints"))
        subprocess.run([program, str(recipes / recipe.name), "--set", f"trainer.default_local_dir={run}"], env=PORTABLE, check=True,
                       stdout=subprocess.DEVNULL)
        shutil.rmtree(home, ignore_errors=True)
        for checkpoint in KEPT:
            if (run / "checkpoints" / checkpoint).exists():
                shutil.copytree(run / "checkpoints" / checkpoint, home / "checkpoints" / checkpoint)
        size = json.loads((home / "checkpoints/step_1/state.json").read_text())["metrics_bytes"]
        rows = (run / "metrics.jsonl").read_bytes()
        (home / "metrics.jsonl").write_bytes(rows[:size])
        if (run / "sft_metrics.jsonl").exists():
            shutil.copy(run / "sft_metrics.jsonl", home)
        later = [json.loads(line) for line in rows[size:].splitlines()]
        stable = [{key: value for key, value in row.items() if not key.startswith(("timing_s/", "perf/"))} for row in later]
        files = {file.name: hashlib.sha256(file.read_bytes()).hexdigest()
                 for file in sorted((run / "checkpoints" / LAST).glob("*.safetensors"))}
        lines = ",\n".join(json.dumps(row) for row in stable)
        (home / "expected.json").write_text('{"files": ' + json.dumps(files) + ',\n"rows": [\n' + lines + "\n]}\n")
        print(f"{name}: {sum(file.stat().st_size for file in home.rglob('*') if file.is_file())} bytes")


for one in sorted(FOLDER.glob("*.yaml")):
    if one.stem != "base":
        make(sys.argv[1], one)
