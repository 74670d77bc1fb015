#!/usr/bin/env python3
"""Runs with trainer.wandb: true and wandb itself in offline mode. Metrics, recipe and samples arrive, and a resume continues the same
W&B run. A kill −9 of either process harms neither. Without wandb or a login the run ends before it reads the model.

usage: wandb_test.py QRL_TRAIN      wandb: in this Python, or that of scripts/setup --tests
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "report")]
import log_test  # noqa: E402 (libraries beside the tests)
import test_python  # noqa: E402

TINY = TESTS / "train/tiny.yaml"
PROGRAM = ""


class Wandb(unittest.TestCase):
    def setUp(self):
        if not test_python.has("wandb"):
            self.skipTest("no wandb here: scripts/setup --tests")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.run_folder = self.folder / "run"

    def command(self, steps, recipe=TINY, **more):
        settings = {"trainer.wandb": "true", "trainer.default_local_dir": self.run_folder, "trainer.total_training_steps": steps, **more}
        return [PROGRAM, str(recipe), *(word for key, value in settings.items() for word in ("--set", f"{key}={value}"))]

    def environment(self, **more):
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("WANDB_", "QRL_PYTHON"))}
        return {**plain, "HOME": str(self.folder), "WANDB_MODE": "offline", "QRL_PYTHON": sys.executable, **more}

    def train(self, command, **more):
        return subprocess.run(command, env=self.environment(**more), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)

    def children(self):
        """Process ids of what sends this run."""
        found = []
        for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = file.read_text().split("\0")
            except OSError:
                continue
            if "qrl_log" in words and str(self.run_folder) in words:
                found.append(int(file.parent.name))
        return found

    def test_a_run_and_its_resume_are_one_run_of_wandb(self):
        done = self.train(self.command(2))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("W&B         offline, in ", done.stderr)
        first = json.loads((self.run_folder / "wandb_run.json").read_text())
        done = self.train(self.command(4, **{"optim.lr": "2.0e-3"}) + ["--allow-change"])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(json.loads((self.run_folder / "wandb_run.json").read_text()), {"id": first["id"], "step": 4})
        steps, recipe, tables = log_test.offline_records(self.run_folder)
        self.assertEqual(steps, list(range(5)))
        self.assertEqual(recipe["optim"]["lr"], 2e-3)
        self.assertIn("1 samples/rollouts", tables)

    def test_kills_harm_neither(self):
        command = self.command(400)
        with subprocess.Popen(command, env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
            for _ in range(1200):
                if (senders := self.children()) and (self.run_folder / "wandb").exists():
                    break
                time.sleep(0.05)
            os.kill(senders[0], signal.SIGKILL)
            rows = len((self.run_folder / "metrics.jsonl").read_text().splitlines())
            for _ in range(1200):  # the run continues
                if len((self.run_folder / "metrics.jsonl").read_text().splitlines()) > rows + 2:
                    break
                time.sleep(0.05)
            run.terminate()
            said = run.stderr.read()
            self.assertEqual(run.wait(timeout=120), 75, said)
        self.assertRegex(said, r"what sends the run to W&B ended with signal 9; `.*qrl_log\.py wandb .*` sends what is missing")
        with subprocess.Popen(command, env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
            for _ in range(1200):
                if self.children():
                    break
                time.sleep(0.05)
            time.sleep(1)
            run.kill()
        for _ in range(1200):  # what sends ends by itself, with all rows
            if not self.children():
                break
            time.sleep(0.05)
        self.assertEqual(self.children(), [])
        written = {json.loads(line)["step"] for line in (self.run_folder / "metrics.jsonl").read_text().splitlines()}
        self.assertEqual(set(log_test.offline_records(self.run_folder)[0]), written)

    def test_without_wandb_or_login_nothing_is_read(self):
        (self.folder / "no_model").mkdir()
        recipe = self.folder / "recipe.yaml"  # of a model whose weights are no weights
        recipe.write_text(re.sub(r"model: .*", "model: {path: no_model}", TINY.read_text()))
        model = json.loads((TESTS.parent / "recipes/models/quickstart/config.json").read_text())
        (self.folder / "no_model/config.json").write_text(json.dumps(model))
        (self.folder / "no_model/model.safetensors").write_text("no weights")
        for more, said in (({"QRL_PYTHON": "/nowhere/python3"}, "/nowhere/python3: No such file or directory"),
                           ({"WANDB_MODE": "online"}, "wandb has no login: run `wandb login`"),
                           ({"PYTHONPATH": str(self.folder / "broken")}, "wandb is not in this Python")):
            (self.folder / "broken").mkdir(exist_ok=True)
            (self.folder / "broken/wandb.py").write_text("raise ImportError('broken')\n")
            done = self.train(self.command(1, recipe), **more)
            self.assertEqual(done.returncode, 2)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn("trainer.wandb: expected a Python with wandb that has a login, got " + said, done.stderr)
            self.assertFalse(self.run_folder.exists())
        planned = self.train([*self.command(1), "--dry-run", "--allow-absent"], WANDB_MODE="online")
        self.assertIn("W&B: wandb has no login", planned.stdout)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv[1])
    test_python.has("wandb")
    unittest.main(argv=sys.argv[:1], verbosity=2)  # prints the reason of a skip
