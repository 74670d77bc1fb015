#!/usr/bin/env python3
"""The wheel of scripts/package: the same bytes twice, licenses for all that is in it, and a console script that finds torch
without importing it.

usage: test.py BUILD_FOLDER
"""
import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
TORCH = ROOT / ".deps/libtorch"
# The libraries of the wheel, and the file that has each one's license.
LICENSES = {"libicuuc": "libicu.txt", "libicudata": "libicu.txt", "libpcre2-8": "libpcre2-8.txt", "libxxhash": "libxxhash.txt",
            "libyaml-cpp": "libyaml-cpp.txt", "libqrl_mpi": "LICENSE", "libqrl_parquet": "LICENSE"}
COMPILED_IN = {"LICENSE", "uPlot.txt", "CLI11.txt", "nlohmann-json.txt"}


def run(*words, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **options)


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = pathlib.Path(tempfile.mkdtemp(prefix="qrl-package-")).resolve()
        cls.addClassCleanup(shutil.rmtree, cls.work)
        made = run("cmake", "--install", BUILD, "--prefix", cls.work / "stage", "--strip")
        assert made.returncode == 0, made.stdout + made.stderr
        cls.wheel = cls.pack("one")
        with zipfile.ZipFile(cls.wheel) as archive:
            cls.names = archive.namelist()
            archive.extractall(cls.work / "site")
        cls.program = cls.work / "site/qrl_train/bin/qrl-train"
        cls.program.chmod(0o755)  # as pip does by the archive's mode

    @classmethod
    def pack(cls, out):
        done = run(ROOT / "scripts/package", "wheel", "--stage", cls.work / "stage", "--out", cls.work / out)
        assert done.returncode == 0, done.stdout + done.stderr
        return next((cls.work / out).glob("qrl_train-*.whl"))

    def make_torch(self, version, real=False):
        """Makes a package torch of a version, which must not be imported. `real`: with the libraries of .deps."""
        folder = self.work / f"torch-{version}-{real}"
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "torch").mkdir(parents=True)
        (folder / "torch/__init__.py").write_text("raise SystemExit('torch was imported')\n")
        (folder / "torch/version.py").write_text(f"from typing import Optional\n__version__ = '{version}'\ncuda: Optional[str] = None\n")
        if real:
            (folder / "torch/lib").symlink_to(TORCH / "torch/lib")
            (folder / "nvidia").symlink_to(TORCH / "nvidia")
        return folder

    def start(self, torch, *words, **variables):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | variables
        environment["PYTHONPATH"] = ":".join(map(str, [self.work / "site", *([torch] if torch else [])]))
        done = run(sys.executable, "-S", "-m", "qrl_train", *words, env=environment, cwd=self.work)
        return done.returncode, done.stdout + done.stderr

    def test_two_wheels_are_the_same_bytes(self):
        self.assertEqual(self.pack("two").read_bytes(), self.wheel.read_bytes())
        self.assertLess(self.wheel.stat().st_size, 40_000_000)

    def test_the_record_has_every_file_and_its_hash(self):
        info = next(name for name in self.names if name.endswith("/RECORD")).removesuffix("/RECORD")
        rows = [line.rsplit(",", 2) for line in (self.work / "site" / info / "RECORD").read_text().splitlines()]
        self.assertEqual({row[0] for row in rows}, set(self.names))
        for name, digest, size in rows:
            if name == f"{info}/RECORD":
                continue
            data = (self.work / "site" / name).read_bytes()
            self.assertEqual(size, str(len(data)))
            self.assertEqual(digest, "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode())

    def test_what_is_linked_and_packed_has_its_license(self):
        libraries = [pathlib.PurePath(name).name for name in self.names if ".so" in name]
        self.assertEqual({library.partition(".so")[0] for library in libraries} - set(LICENSES), set())  # nothing of NVIDIA's
        texts = {pathlib.PurePath(name).name for name in self.names if "/licenses/" in name}
        wanted = {LICENSES[library.partition(".so")[0]] for library in libraries} | COMPILED_IN
        self.assertEqual(wanted - texts, set())
        if b"cutlass" in self.program.read_bytes():
            self.assertLessEqual({"CUTLASS.txt", "cudart-License.txt"}, texts)
        # Whatever the program asks for is in the wheel, in torch, or in every system.
        needed = re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "-d", self.program).stdout)
        self.assertIn("libtorch_cpu.so", needed)
        others = {"libtorch_cpu.so", "libc10.so", "libgomp.so.1", "libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6",
                  "ld-linux-x86-64.so.2"}
        self.assertEqual(set(needed) - set(libraries) - others, set())

    def test_no_symbol_is_newer_than_the_tag(self):
        self.assertIn("manylinux_2_35_x86_64", self.wheel.name)
        newest = {"GLIBC": (2, 35), "GLIBCXX": (3, 4, 30)}
        num_seen = 0
        for name in self.names:
            if ".so" not in name and "/bin/" not in name:
                continue
            said = run("objdump", "-T", self.work / "site" / name).stdout
            for library, version in re.findall(r"\((GLIBC|GLIBCXX)_([\d.]+)\)", said):
                self.assertLessEqual(tuple(map(int, version.split("."))), newest[library], name)
                num_seen += 1
            self.assertNotIn("GLIBC_ABI_DT_RELR", said, name)
        self.assertGreater(num_seen, 100)

    def test_the_program_runs_with_the_torch_that_python_would_import(self):
        torch = self.make_torch("2.11.0+cpu", real=True)
        code, said = self.start(torch, "--version")
        self.assertEqual(code, 0, said)
        self.assertIn(f"\n  torch: 2.11.0 at {torch}/torch/lib/libtorch_cpu.so\n", said)
        code, said = self.start(torch, "recipes:countdown_quickstart", "--dry-run", "--ranks", "2")
        self.assertEqual(code, 0, said)

    def test_programs_that_it_starts_get_the_users_library_path(self):
        (self.work / "own.py").write_text("import os\ndef compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
                                          "    return float(os.environ.get('LD_LIBRARY_PATH') == '/users/own')\n")
        (self.work / "own.yaml").write_text(
            f"model: {{init: {{config: {ROOT}/recipes/models/quickstart/config.json}}}}\n"
            f"data: {{train_files: [{ROOT}/tests/data/golden/parquet/countdown.jsonl]}}\n"
            "reward: {verifier: command, command: [python3, -m, qrl_reward, \"verl:own.py\"]}\n")
        code, said = self.start(self.make_torch("2.11.0", real=True), "check", "reward", "own.yaml", LD_LIBRARY_PATH="/users/own")
        self.assertEqual(code, 0, said)
        self.assertRegex(said, r"\n  ground truth +12 +12 +0 ")

    def test_another_torch_or_none_is_one_line(self):
        for torch, got in ((None, "none"), (self.make_torch("2.10.0"), "2.10.0 at "), (self.make_torch("2.11.0"), "none in ")):
            code, said = self.start(torch, "--version")
            self.assertEqual((code, said.count("\n")), (2, 1), said)
            self.assertTrue(said.startswith("error: torch: expected "), said)
            self.assertIn(f"got {got}", said)
            self.assertIn("-m pip install torch==2.11.0", said)


if __name__ == "__main__":
    unittest.main()
