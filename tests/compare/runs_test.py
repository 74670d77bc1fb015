#!/usr/bin/env python3
"""qrl-train compare on a tiny model: equal arms, kill -9 and resume, halves in two checkouts, verdicts from rows, bad input.

    runs_test.py PROGRAM
"""
import gzip
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TINY = ROOT / "tests/train/tiny.yaml"
PROGRAM = pathlib.Path(sys.argv.pop()).resolve() if len(sys.argv) > 1 else ROOT / "build/qrl-train"
KILLS = 10 if os.environ.get("QRL_LONG_TESTS") else 1
PLAN = """
base: {tiny}
seeds: {seeds}
arms:
  one: {{set: {{trainer.threads: 1}}}}
  two: {{set: {{trainer.threads: 2}}}}
  fast: {{set: {{optim.lr: 0.01, trainer.threads: 2}}}}
endpoints:
  score: {{metric: critic/rewards/mean, steps: 1-2}}
  entropy: {{metric: actor/entropy, steps: [2], better: lower}}
contrasts:
  - {{first: two, second: one, endpoint: score}}
  - {{first: two, second: one, endpoint: entropy, kind: equality, margin: 0.01}}
  - {{first: fast, second: one, endpoint: entropy}}
  - {{first: fast, second: one, endpoint: entropy, kind: ratio}}
"""


def wait_for(happened):
    for _ in range(1200):
        if happened():
            return
        time.sleep(0.05)


def call(*words, **options):
    return subprocess.run([PROGRAM, "compare", *map(str, words)], text=True, capture_output=True, check=False, **options)


class Compare(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.dir = pathlib.Path(self.temporary.name)
        self.plan = self.dir / "plan.yaml"
        self.write_plan()

    def tearDown(self):
        self.temporary.cleanup()

    def write_plan(self, seeds="0-5", change=lambda text: text):
        self.plan.write_text(change(PLAN.format(tiny=TINY, seeds=seeds)))

    def other_checkout(self):
        """The plan and what it reads, in another tree."""
        root = self.dir / "checkout"
        for file in (TINY, ROOT / "recipes/models/quickstart/config.json"):
            copy = root / file.relative_to(ROOT)
            copy.parent.mkdir(parents=True)
            shutil.copy(file, copy)
        (root / "plan.yaml").write_text(self.plan.read_text().replace(str(TINY), "tests/train/tiny.yaml"))
        return root / "plan.yaml"

    def changed(self, old, new):
        """A copy of the tiny recipe with other text."""
        copy = self.dir / "changed.yaml"
        self.assertIn(old, TINY.read_text())
        copy.write_text(TINY.read_text().replace(old, new).replace("../../recipes", str(ROOT / "recipes")))
        return str(copy)

    def refuse(self, expected, *words):
        out = self.dir / "refused"
        got = call(*(words or (self.plan,)), "--out", out)
        self.assertEqual(got.returncode, 2, got.stderr)
        self.assertIn(expected, got.stderr)
        self.assertEqual(list(out.glob("*seed*")), [], "a run began")

    def results(self, out):
        return (out / "rows.csv.gz").read_bytes(), (out / "verdict.json").read_bytes()

    def test_verdicts(self):
        whole = self.dir / "whole"
        got = call(self.plan, "--out", whole)
        self.assertEqual(got.returncode, 0, got.stderr)
        verdict = json.loads((whole / "verdict.json").read_text())
        same, equal, differs, ratio = verdict["contrasts"]
        self.assertEqual(same["differences"], [0.0] * 6)
        self.assertEqual((same["verdict"], same["p"], same["interval_95"]), ("undecided", 1.0, [0.0, 0.0]))
        self.assertEqual(equal["verdict"], "equal within the margin")
        self.assertGreater(min(map(abs, differs["differences"])), 0)
        self.assertEqual(differs["verdict"] == "undecided", differs["p_holm"] > 0.05)
        self.assertEqual(len(ratio["log_ratios"]), 6)
        with gzip.open(whole / "rows.csv.gz", "rt") as file:
            lines = file.read().splitlines()
        self.assertEqual(len(lines), 2 + 18 * 5)  # the plan, names, and steps 0 to 4 of 18 runs
        self.assertTrue(all(line.startswith(verdict["plan"] + ",") for line in lines[2:]))
        self.assertFalse(list(whole.glob("*/checkpoints")))

        # Kills in the middle, and the halves of the seeds in two checkouts, give the same bytes.
        halves = self.dir / "a", self.dir / "b"
        other = self.other_checkout()
        for kill in range(KILLS):
            process = subprocess.Popen([PROGRAM, "compare", self.plan, "--part", "1/2", "--jobs", "2", "--out", halves[0]],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wait_for(lambda: list(halves[0].glob("*/metrics.jsonl")))
            time.sleep(0.1 * kill)
            process.send_signal(signal.SIGKILL)
            process.wait()
        for part, out in enumerate(halves, 1):
            done = call(self.plan if part == 1 else other, "--part", f"{part}/2", "--out", out)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("9 of 18 runs are done", done.stdout)
            self.assertFalse((out / "verdict.json").exists())
        one_half = call("--from", halves[0] / "rows.csv.gz")
        self.assertEqual(one_half.returncode, 2)
        self.assertIn("expected rows, got none", one_half.stderr)
        joined = self.dir / "joined"
        self.assertEqual(call("--from", halves[0] / "rows.csv.gz", "--from", halves[1] / "rows.csv.gz", "--out", joined).returncode, 0)
        self.assertEqual(self.results(joined), self.results(whole))

        # Finished rows are read, on another machine too: no run begins.
        again = call(self.plan, "--out", joined)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertFalse(list(joined.glob("*seed*")))
        self.assertEqual(self.results(joined), self.results(whole))

        self.write_plan(change=lambda text: text.replace("margin: 0.01", "margin: 0.02"))
        other = call(self.plan, "--out", joined)
        self.assertEqual(other.returncode, 2)
        self.assertIn("a changed plan is another comparison", other.stderr)
        self.mixed_rows(lines)

        # Rows of another recipe are another plan's, and joining keeps existing rows.
        self.write_plan(change=lambda text: text.replace(str(TINY), self.changed("max_number: 9", "max_number: 8")))
        other = call(self.plan, "--out", joined)
        self.assertEqual((other.returncode, "a changed plan is another comparison" in other.stderr), (2, True), other.stderr)
        kept = (halves[0] / "rows.csv.gz").read_bytes()
        self.assertEqual(call("--from", halves[1] / "rows.csv.gz", "--out", halves[0]).returncode, 0)
        self.assertEqual(self.results(halves[0]), self.results(whole))
        self.assertNotEqual(kept, (halves[0] / "rows.csv.gz").read_bytes())

    def mixed_rows(self, lines):
        """Rows of another instruction set in one arm of a pair, of another program, of another plan."""
        rows = self.dir / "mixed.csv"
        rows.write_text("\n".join(line for line in lines if ",one,3," not in line or not line.split(",")[5] == "4") + "\n")
        cut = call("--from", rows)
        rows_without = [line for line in lines if ",one,3," not in line or line.split(",")[5] != "2"]
        rows.write_text("\n".join(rows_without) + "\n")
        hole = call("--from", rows)
        self.assertEqual((hole.returncode, "expected the next step" in hole.stderr), (2, True), hole.stderr)
        self.assertEqual((cut.returncode, "steps 1 to 4 of arm one, seed 3, got steps 0 to 3" in cut.stderr), (2, True), cut.stderr)
        for expected, change in (("one instruction set in a pair", lambda line: line.replace(",avx", ",x").replace(",portable", ",x").replace(",amx", ",x") if ",one,3," in line else line),
                                 ("expected runs of qrl-train", lambda line: line.replace("qrl-train ", "other ") if ",one,3," in line else line),
                                 ("expected rows of plan", lambda line: "0" * 16 + line[16:])):
            rows.write_text("\n".join(lines[:2] + [change(line) for line in lines[2:]]) + "\n")
            got = call("--from", rows)
            self.assertEqual(got.returncode, 2, got.stdout)
            self.assertIn(expected, got.stderr)

    def test_few_seeds_are_descriptive(self):
        got = call(TINY, "--arm", "a=", "--arm", "b=optim.lr=0.01", "--seeds", "2", "--endpoint", "critic/rewards/mean", "--out", self.dir / "few")
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertIn("2 seeds: a p-value needs 6", got.stdout)
        contrast = json.loads((self.dir / "few/verdict.json").read_text())["contrasts"][0]
        self.assertEqual((contrast["verdict"], contrast["p"]), ("descriptive", None))

    def test_other_samples_of_the_same_prompts(self):
        self.plan.write_text(f"base: {TINY}\nseeds: [3]\narms: {{a: {{}}, b: {{samples: 1}}}}\n"
                             "contrasts: [{first: a, second: b}]\nendpoints: {e: {metric: actor/entropy}}\n")
        out = self.dir / "samples"
        got = call(self.plan, "--out", out)
        self.assertEqual(got.returncode, 0, got.stderr)
        a, b = ([json.loads(line) for line in (out / f"{arm}-seed3/rollouts/step_1.jsonl").read_text().splitlines()] for arm in "ab")
        self.assertEqual([row["prompt"] for row in a], [row["prompt"] for row in b])
        self.assertNotEqual([row["response"] for row in a], [row["response"] for row in b])

    def test_a_metric_without_a_value(self):
        """A metric that every step leaves null is no error: its contrast has no value. One that no run writes is an error."""
        flat = self.changed("entropy_coef: 0.001", "entropy_coef: 0")  # all groups are flat, so no token has a gap
        got = call(flat, "--arm", "a=", "--arm", "b=optim.lr=0.01", "--seeds", "1", "--endpoint", "mismatch/k3_kl", "--out", self.dir / "null")
        self.assertEqual((got.returncode, "no value" in got.stdout), (0, True), got.stderr)
        got = call(flat, "--arm", "a=", "--arm", "b=optim.lr=0.01", "--seeds", "1", "--endpoint", "moe/route_flip_fraction", "--out", self.dir / "none")
        self.assertEqual((got.returncode, "expected a metric that these runs write" in got.stderr), (2, True), got.stdout)

    def test_stop_and_go_on(self):
        out = self.dir / "stopped"
        process = subprocess.Popen([PROGRAM, "compare", self.plan, "--out", out], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        wait_for(lambda: list(out.glob("*/metrics.jsonl")))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 75)
        self.assertIn("the same command goes on", process.stderr.read())
        process.stderr.close()
        self.assertEqual(subprocess.run(["pgrep", "-f", str(out)], capture_output=True, check=False).returncode, 1)

    def test_bad_plans(self):
        for expected, change in (
                ("expected a recipe that differs from arm one, got the same recipe", lambda text: text.replace("threads: 2", "threads: 1")),
                ("the scoring of arm one, reward.", lambda text: text.replace("optim.lr: 0.01", "reward.correct: 2")),
                ("the 4 steps of arm one, got 3 steps", lambda text: text.replace("optim.lr: 0.01", "trainer.total_training_steps: 3")),
                ("the 16 steps of arm one, got 32 steps", lambda text: text.replace("optim.lr: 0.01", "trainer.total_epochs: 2").replace(
                    str(TINY), self.changed("total_training_steps: 4", "total_epochs: 1"))),
                ("held-out prompts and eval.freq above 0", lambda text: text.replace("critic/rewards/mean", "val/countdown/mean@2").replace("1-2", "[2]").replace(str(TINY), self.changed("eval: {freq: 2", "eval: {freq: 0"))),
                ("val/countdown/mean@2, val/countdown/score/mean@2, got \"val/countdown/mean@4\"", lambda text: text.replace("critic/rewards/mean", "val/countdown/mean@4").replace("1-2", "[2]")),
                ("a metric of docs/reference/metrics.md, got \"actor/entrpy\"", lambda text: text + "columns: [actor/entrpy]\n"),
                ("nowhere.jsonl", lambda text: text.replace("optim.lr: 0.01", "data.train_files: [nowhere.jsonl], data.train_generator.task: null")),
                ("a metric of docs/reference/metrics.md", lambda text: text.replace("critic/rewards/mean", "critic/reward/mean")),
                ("expected a finite margin above 0 for equality, got 0", lambda text: text.replace("margin: 0.01", "margin: 0")),
                ("a list of seeds or a range such as 0-7, got \"8\"; write [8] for one", lambda text: text.replace("0-5", "8")),
                ("expected each once, got 3 twice", lambda text: text.replace("0-5", "[0, 3, 3]")),
                ("expected steps from 0 to the last, 4, got 9", lambda text: text.replace("[2]", "[9]")),
                ("an arm of the plan, got \"slow\"", lambda text: text.replace("first: fast", "first: slow")),
                ("did you mean contrasts?", lambda text: text.replace("contrasts:", "contrast:")),
                ("the plan sets seeds", lambda text: text.replace("optim.lr: 0.01", "trainer.seed: 4")),
                ("an instruction set of this machine", lambda text: "isa: sse\n" + text)):
            with self.subTest(expected):
                self.write_plan(change=change)
                self.refuse(expected)

    def test_rows_of_the_pages_conclude(self):
        for file in sorted((ROOT / "docs/science/rows").glob("*.csv.gz")):
            got = call("--from", file)
            if file.name in ("matched_forward.csv.gz", "rotated_correction.csv.gz"):  # not all runs are there: no conclusion yet
                self.assertEqual(got.returncode, 2, got.stdout)
                self.assertIn("expected rows, got none; finish the comparison", got.stderr)
                continue
            self.assertEqual(got.returncode, 0, got.stderr)
            page = (ROOT / "docs/science/routing-replay.md").read_text() if file.name == "routes.csv.gz" else ""
            for line in got.stdout.splitlines():
                ratio = re.match(r"(int\d)_(old|rollout) - int\d_none gap\s+ratio\s+8\s+(\S+)", line)
                if page and ratio:
                    self.assertIn(f"| {ratio[1].upper()}, {ratio[2]} over none | {ratio[3]} (", page)

    def test_bad_arguments(self):
        self.refuse("--endpoint METRIC with --arm", TINY, "--arm", "a=", "--arm", "b=optim.lr=1.0")
        self.refuse("whole numbers such as [0, 1, 2] or 0-7, got \"x\"", TINY, "--arm", "a=", "--arm", "b=optim.lr=1.0", "--endpoint", "critic/rewards/mean@steps x")
        self.refuse("NAME=KEY=VALUE", TINY, "--arm", "a", "--arm", "b=", "--endpoint", "critic/rewards/mean")
        self.refuse("K/N with K from 1 to N", self.plan, "--part", "3/2")
        self.refuse("--seeds: expected --arm as well", self.plan, "--seeds", "3")
        self.refuse("got both", self.plan, "--from", self.plan)


if __name__ == "__main__":
    os.environ.pop("QRL_ISA", None)
    unittest.main()
