#!/usr/bin/env python3
"""Installs into a scratch folder by cmake. The program there finds qrl_reward.py, the parquet library and the MPI library
relative to itself, and runs where MPI is absent.

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
        wanted = {"bin/qrl-train"}
        wanted |= {f"share/qrl-train/{file.relative_to(ROOT / 'apps')}" for file in (ROOT / "apps/python").rglob("*.py")}
        wanted |= {f"share/qrl-train/{file.relative_to(ROOT)}" for form in ("*.yaml", "config.json", "*.py", "*.md")
                   for file in (ROOT / "recipes").rglob(form)}
        wanted |= {f"share/qrl-train/datasets/{name}" for name in ("countdown_cd3_test.jsonl", "README.md")}
        has_parquet = (BUILD / "libqrl_parquet.so").exists()
        parts = {f"lib/qrl-train/{name}" for name in ("libqrl_parquet.so", "libqrl_mpi.so") if (BUILD / name).exists()}
        self.assertEqual(files, wanted | parts)
        done = self.check_reward("parquet" if has_parquet else "jsonl")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"\n  ground truth +12 +12 +0 ")

    def test_recipes_are_found_by_name(self):
        code, said = self.run_program("recipes:countdown_quickstart", "--dry-run")
        self.assertEqual(code, 0, said)
        code, said = self.run_program("recipes:countdown_quickstrat", "--dry-run")
        self.assertEqual((code, said), (2, f"error: recipes:countdown_quickstrat: expected a recipe in {self.prefix}/share/qrl-train/recipes, "
                                           'got "countdown_quickstrat"; did you mean recipes:countdown_quickstart?\n'))

    def run_program(self, *words, **variables):
        launched = ("OMPI_", "PMI_", "PMIX_", "SLURM_")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(launched)} | variables
        done = subprocess.run([self.prefix / "bin/qrl-train", *words], env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def check_without_mpi(self, version, error):
        code, said = self.run_program("--version")
        self.assertEqual(code, 0, said)
        self.assertIn(f"\n  mpi: {version}", said)
        code, said = self.run_program(ROOT / "tests/train/tiny.yaml", "--dry-run", OMPI_COMM_WORLD_SIZE="2")
        self.assertEqual((code, said.count("\n")), (2, 1), said)
        self.assertTrue(said.startswith("error: environment variable OMPI_COMM_WORLD_SIZE: expected " + error), said)
        self.assertIn("start qrl-train --ranks N without mpirun", said)
        code, said = self.run_program(ROOT / "tests/train/tiny.yaml", "--dry-run", "--ranks", "2")
        self.assertEqual(code, 0, said)

    def test_a_machine_without_mpi_runs(self):
        loaded = subprocess.run(["ldd", self.prefix / "bin/qrl-train"], capture_output=True, text=True, check=True).stdout
        self.assertNotIn("libmpi", loaded)
        part = self.prefix / "lib/qrl-train/libqrl_mpi.so"
        if part.exists():
            self.assertIn("libmpi.so.40", part.read_bytes().decode("latin1"))
            part.write_bytes(part.read_bytes().replace(b"libmpi.so.40", b"libmpi.so.99"))  # as where Open MPI is absent
            self.check_without_mpi("none (libmpi.so.99: ", "Open MPI's library for 2 ranks, got no library (libmpi.so.99: ")
            part.unlink()
        self.check_without_mpi("off", "one process: this build has no MPI, got 2 ranks;")


if __name__ == "__main__":
    unittest.main()
