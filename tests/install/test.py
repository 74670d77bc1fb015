#!/usr/bin/env python3
"""cmake --install into a scratch folder: the program there finds qrl_reward.py and the parquet library from its own place.

usage: test.py BUILD_FOLDER
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
# A right answer is one that was judged by the helper of the folder in argv.
REWARD = """
import sys
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return float(sys.modules["__main__"].__file__ == {helper!r})
"""
RECIPE = """
model: {{init: {{config: {root}/recipes/models/quickstart/config.json}}}}
data: {{train_files: [{root}/tests/data/golden/parquet/countdown.{form}]}}
reward: {{verifier: command, command: [python3, -m, qrl_reward, "verl:own.py"]}}
"""


class Installed(unittest.TestCase):
    def setUp(self):
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="qrl-install-")).resolve()
        self.addCleanup(shutil.rmtree, self.work)
        self.prefix = self.work / "prefix"
        done = subprocess.run(["cmake", "--install", BUILD, "--prefix", self.prefix], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def check_reward(self, form):
        helper = self.prefix / "share/qrl-train/python/qrl_reward.py"
        (self.work / "own.py").write_text(REWARD.format(helper=str(helper)))
        (self.work / "own.yaml").write_text(RECIPE.format(root=ROOT, form=form))
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run([self.prefix / "bin/qrl-train", "check", "reward", "own.yaml"], cwd=self.work, env=environment,
                              capture_output=True, text=True, check=False)

    def test_program_helper_and_parquet(self):
        files = {str(file.relative_to(self.prefix)) for file in self.prefix.rglob("*") if file.is_file()}
        wanted = {"bin/qrl-train", "share/qrl-train/python/qrl_reward.py", "share/qrl-train/python/qrl_log.py"}
        has_parquet = (BUILD / "libqrl_parquet.so").exists()
        self.assertEqual(files, wanted | ({"lib/qrl-train/libqrl_parquet.so"} if has_parquet else set()))
        done = self.check_reward("parquet" if has_parquet else "jsonl")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"\n  ground truth +12 +12 +0 ")


if __name__ == "__main__":
    unittest.main()
