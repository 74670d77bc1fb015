#!/usr/bin/env python3
"""TensorBoard's own reader gives every value of a run that `qrl-train report --tensorboard` wrote, as float32, no step twice, and
the recipe and samples as texts.

usage: tensorboard_test.py QRL_TRAIN      TensorBoard: in this Python, or that of scripts/setup --tests
exit: 0; 1 a difference; 4 there is no TensorBoard here
"""
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

import made_runs

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import test_python  # noqa: E402 (a library beside the tests)


def float32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def read(accumulator, folder):
    """{tag: [(step, value, wall time)]} of a folder's events."""
    events = accumulator.EventAccumulator(str(folder), size_guidance={accumulator.SCALARS: 0})
    events.Reload()
    return {tag: [(one.step, one.value, one.wall_time) for one in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def texts(accumulator, folder):
    """{tag: [(step, text)]} of what TensorBoard's page of texts shows."""
    events = accumulator.EventAccumulator(str(folder), size_guidance={accumulator.TENSORS: 0})
    events.Reload()
    return {tag: [(one.step, one.tensor_proto.string_val[0].decode()) for one in events.Tensors(tag)] for tag in events.PluginTagToContent("text")}


def wanted(file):
    values = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        for name, value in row.items():
            if name not in ("step", "timing_s/unix") and value is not None:
                values.setdefault(name, []).append((row["step"], float32(value), row["timing_s/unix"]))
    return values


def main():
    if not test_python.has("tensorboard"):
        print("SKIPPED: no TensorBoard here: scripts/setup --tests")
        return 4
    from tensorboard.backend.event_processing import event_accumulator as accumulator
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run, out = made_runs.make_run(folder / "run", nan_share=0.05, rollouts=False), folder / "events"
        for _ in range(2):  # the second time replaces the first one's file
            subprocess.run([sys.argv[1], "report", str(run), "--tensorboard", str(out)], check=True, stdout=subprocess.DEVNULL)
        for events, rows in ((out, "metrics.jsonl"), (out / "sft", "sft_metrics.jsonl")):
            found, want = read(accumulator, events), wanted(run / rows)
            if found != want:
                different = [tag for tag in {*found, *want} if found.get(tag) != want.get(tag)]
                print(f"{rows}: {len(different)} of {len(want)} metrics differ, among them {different[:3]}")
                return 1
        with_samples = made_runs.make_run(folder / "with_samples", 60)
        subprocess.run([sys.argv[1], "report", str(with_samples), "--tensorboard", str(folder / "texts")], check=True, stdout=subprocess.DEVNULL)
        found = texts(accumulator, folder / "texts")
        steps = {tag: [step for step, _ in shown] for tag, shown in found.items()}
        if steps != {"recipe": [0], "samples/held_out": [0, 60], "samples/rollouts": [1, 20, 40, 60]}:
            print(f"texts: {steps}")
            return 1
        if "| optim.lr | `5.0e-4` |" not in found["recipe"][0][1] or "    20: <think>3 + 4 = 7</think> (3 + 4) * 5" not in found["samples/rollouts"][1][1]:
            print(f"texts: {found['recipe']}, {found['samples/rollouts'][1]}")
            return 1
        # What a kill in mid-write leaves: the last record is cut.
        file = next(out.glob("events.out.tfevents.*"))
        os.truncate(file, file.stat().st_size - 100)
        cut = read(accumulator, out)
        if max(step for step, _, _ in cut["critic/rewards/mean"]) < 58:
            print("a file that was cut in its last record lost more than that")
            return 1
        if not math.isclose(cut["actor/lr"][0][2], 1.8e9, abs_tol=100):
            print("times are not the rows' own")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
