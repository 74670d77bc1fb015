"""The wheel, installed by pip into environments of several kinds."""
import json
import pathlib
import re
import subprocess
import sys
import unittest

from support import BUILD, ROOT, TINY, make_pyarrow, make_torch, require, run, variables, wheel, work

OWN_REWARD = """
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return float(solution_str != "")
"""
OWN_RECIPE = """
model: {{init: {{config: recipes:models/quickstart/config.json}}}}
data: {{train_files: [{root}/tests/data/golden/parquet/countdown.{form}]}}
reward: {{verifier: command, command: [python3, -m, qrl_reward, "verl:own.py"]}}
"""
WANDB = """
class Table:
    def __init__(self, **settings):
        pass
class Config:
    def update(self, values, **settings):
        pass
class Run:
    config, offline = Config(), True
    def log(self, metrics, step):
        print("logged step", step)
    def finish(self):
        pass
def init(**settings):
    return Run()
"""


def make_venv(name, *options):
    require(sys.executable, "-m", "venv", *options, work / name)
    return work / name


def site_of(python, environment=None):
    return require(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", env=environment or variables()).strip()


class Venv(unittest.TestCase):
    """A fresh venv with torch in it."""

    @classmethod
    def setUpClass(cls):
        cls.env = make_venv("env")
        cls.python = cls.env / "bin/python"
        cls.program = cls.env / "bin/qrl-train"
        cls.site = pathlib.Path(site_of(cls.python))
        make_torch(cls.site, "2.11.0+cpu")
        require(cls.python, "-m", "pip", "install", "--no-index", wheel())

    def test_a_run_has_the_bits_of_the_builds_program(self):
        for name, program in (("wheel", self.program), ("build", BUILD / "qrl-train")):
            require(program, TINY, "--set", f"trainer.default_local_dir={work / name}")
        require(ROOT / "scripts/accept/compare_runs", work / "wheel", work / "build", "--equal")

    def test_shipped_recipes_data_and_reports_need_no_checkout(self):
        require(self.program, "recipes:countdown_quickstart", "--dry-run")
        code, said = run(self.program, "check", "reward", "recipes:countdown_python")
        self.assertEqual(code, 0, said)
        folder = work / "reported"
        require(self.program, TINY, "--set", f"trainer.default_local_dir={folder}", "--set", "trainer.total_training_steps=1")
        require(self.program, "report", folder, "--out", work / "report.html")
        require(self.program, "export", folder / "checkpoints/step_1", "--out", work / "exported")
        self.assertTrue((work / "exported/model.safetensors").exists())
        (work / "modules").mkdir()
        (work / "modules/wandb.py").write_text(WANDB)
        said = require(self.python, "-m", "qrl_train.log", "wandb", folder, "--once", env=variables(PYTHONPATH=str(work / "modules")))
        self.assertEqual(said, "logged step 0\nlogged step 1\n")
        code, said = run(self.python, "-m", "qrl_train.log")
        self.assertEqual(code, 2, said)
        self.assertRegex(said, r"^usage: python -m qrl_train\.log ")
        self.assertIn("python -m qrl_train.log wandb|mlflow RUN", require(self.python, "-m", "qrl_train.log", "--help"))

    def test_the_version_names_each_library_and_its_file(self):
        said = require(self.program, "--version")
        for name, place in (("torch: 2.11.0", self.site / "torch/lib/libtorch_cpu.so"), (r"libicuuc\.so\.\d+", self.site / "qrl_train/lib/libicuuc"),
                            (r"libyaml-cpp\.so\.[\d.]+", self.site / "qrl_train/lib/libyaml-cpp")):
            self.assertRegex(said, rf"\n  {name} at {re.escape(str(place))}")
        self.assertIn("\ntorch's build: 2.11.0+cpu, the code that it is tested with\n", said)
        self.assertIn(f" at {self.python}\n", said)

    def test_parquet_comes_with_its_extra(self):
        (work / "own.py").write_text(OWN_REWARD)
        (work / "own.yaml").write_text(OWN_RECIPE.format(root=ROOT, form="parquet"))
        code, said = run(self.program, "check", "reward", "own.yaml")
        self.assertEqual((code, said.count("\n")), (2, 1), said)
        self.assertIn("run pip install 'qrl-train[parquet]'", said)
        make_pyarrow(self.site)
        self.addCleanup(require, "rm", "-r", self.site / "pyarrow")
        require(self.python, "-m", "pip", "install", "--no-index", f"{wheel()}[parquet]")
        code, said = run(self.program, "check", "reward", "own.yaml")
        self.assertEqual(code, 0, said)
        self.assertRegex(said, r"\n  ground truth +12 +12 +0 ")
        self.assertIn(f" at {self.site}/pyarrow/libarrow.so.", require(self.program, "--version"))

    def test_it_runs_from_a_folder_that_cannot_be_written(self):
        if run("unshare", "-rm", "true")[0] != 0:
            self.skipTest("no mount namespace for this user")
        line = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && ! touch "$0/x" 2>/dev/null && exec "$@"'
        for words in (["--version"], [TINY, "--dry-run"]):
            require("unshare", "-rm", "sh", "-c", line, self.env, self.program, *words)

    def test_the_notebook_runs(self):
        notebook = json.loads((ROOT / "docs/howto/python.ipynb").read_text(encoding="utf-8"))
        cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
        self.assertGreater(len(cells), 3)
        (work / "notebook").mkdir()
        (work / "notebook/cells.py").write_text("\n\n".join(cells), encoding="utf-8")  # a file, so that functions have a source
        said = require(self.python, "cells.py", cwd=work / "notebook")
        self.assertIn("exit code 75", said)
        self.assertIn("exit code 0", said)
        self.assertIn("runs/own: ended with exit code 0", said)

    def test_the_python_door(self):
        require(self.python, ROOT / "tests/package/door.py", TINY)
        session = json.loads((work / "left/sessions.jsonl").read_text())
        self.assertEqual(session["ended"], "stopped by a signal")


class OtherPlaces(unittest.TestCase):
    def check(self, program, environment, site):
        said = require(program, "--version", env=environment)
        self.assertIn(f"\n  torch: 2.11.0 at {site}/torch/lib/libtorch_cpu.so\n", said)

    def test_torch_and_the_wheel_of_the_user(self):
        environment = variables(PYTHONUSERBASE=str(work / "user"))
        site = pathlib.Path(require(sys.executable, "-m", "site", "--user-site", env=environment).strip())
        make_torch(site, "2.11.0")
        require(sys.executable, "-m", "pip", "install", "--user", "--no-index", wheel(), env=environment)
        self.check(work / "user/bin/qrl-train", environment, site)
        # A venv that sees the system's packages sees the user's.
        env = make_venv("sees-others", "--system-site-packages")
        require(env / "bin/python", "-m", "pip", "install", "--no-index", "--ignore-installed", "--no-deps", wheel(), env=environment)
        self.check(env / "bin/qrl-train", environment, site)

    def test_pip_refuses_other_systems(self):
        for platform in ("musllinux_1_2_x86_64", "manylinux_2_35_aarch64", "manylinux_2_31_x86_64"):
            done = subprocess.run([sys.executable, "-m", "pip", "download", "--no-index", "--no-deps", "--only-binary=:all:", "--platform",
                                   platform, "--dest", work / "none", wheel()], env=variables(), capture_output=True, text=True, check=False)
            self.assertNotEqual(done.returncode, 0, platform)
            self.assertIn("is not a supported wheel on this platform", done.stderr)
