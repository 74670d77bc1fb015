#!/usr/bin/env python3
"""The wheel of scripts/package: the same bytes twice, licenses for all that is in it, and a console script that finds torch
without importing it. installed.py has the cases of environments that pip fills.

usage: test.py BUILD_FOLDER
"""
import base64
import hashlib
import pathlib
import re
import runpy
import sys
import unittest
import zipfile

from installed import OtherPlaces, Venv  # noqa: F401 (cases of this program)
from reproducible import Reproducible  # noqa: F401
from support import BUILD, DEPS, ROOT, make_torch, pack, run, variables, wheel, work

# The libraries of the wheel, and the file that has each one's license.
LICENSES = {"libicuuc": "libicu.txt", "libicudata": "libicu.txt", "libpcre2-8": "libpcre2-8.txt", "libxxhash": "libxxhash.txt",
            "libyaml-cpp": "libyaml-cpp.txt", "libqrl_mpi": "LICENSE", "libqrl_parquet": "LICENSE",
            "libz": "zlib1g.txt"}
COMPILED_IN = {"LICENSE", "uPlot.txt", "CLI11.txt", "nlohmann-json.txt"}


class Steps(unittest.TestCase):
    """How scripts/package runs a command of the build."""

    def step(self, command, folder=ROOT):
        load = f"import runpy; runpy.run_path({str(ROOT / 'scripts/package')!r})['build_step']('sh', '-c', {command!r}, shows=False)"
        return run(sys.executable, "-c", load, cwd=folder, env=variables(PWD=str(folder)))

    def test_a_step_that_fails_shows_its_output_and_no_traceback(self):
        code, said = self.step("echo fp8.cpp:7: error: expected an expression; exit 3")
        self.assertEqual((code, said), (1, "fp8.cpp:7: error: expected an expression\npackage: sh -c failed with exit code 3; its output is above\n"))
        self.assertEqual(self.step("echo quiet"), (0, ""))

    def test_a_link_to_the_checkout_is_not_its_name(self):
        link = work / "link"
        link.symlink_to(ROOT)
        self.assertEqual(self.step(f'test "$PWD" = "{ROOT}"', link), (0, ""))


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.wheel = wheel()
        with zipfile.ZipFile(cls.wheel) as archive:
            cls.names = archive.namelist()
            archive.extractall(work / "site")
        cls.program = work / "site/qrl_train/bin/qrl-train"
        cls.program.chmod(0o755)  # as pip does by the archive's mode

    def torch(self, version, real=False):
        """Makes torch of a version in a folder of its own."""
        site = work / f"torch-{version}-{real}"
        return site if site.exists() else make_torch(site, version, real)

    def start(self, torch, *words, **more):
        path = ":".join(map(str, [work / "site", *([torch] if torch else [])]))
        return run(sys.executable, "-S", "-m", "qrl_train", *words, env=variables(PYTHONPATH=path, **more))

    def test_a_torch_that_was_cut_off_is_one_error(self):
        site, whole = make_torch(work / "cut", "2.11.0", real=False), DEPS / "libtorch/torch/lib"
        (site / "torch/lib").mkdir()
        (site / "torch/lib/libc10.so").symlink_to(whole / "libc10.so")
        with open(whole / "libtorch_cpu.so", "rb") as library:
            start = library.read(1 << 24)
        for size in (0, 100, 1 << 16, 1 << 24):
            (site / "torch/lib/libtorch_cpu.so").write_bytes(start[:size])
            code, said = self.start(site, "--version")
            self.assertEqual((code, said.count("\n")), (2, 1), said)
            self.assertIn("libtorch_cpu.so: expected a whole library, got ", said)

    def test_two_wheels_are_the_same_bytes(self):
        self.assertEqual(pack("two").read_bytes(), self.wheel.read_bytes())
        self.assertLess(self.wheel.stat().st_size, 40_000_000)

    def test_the_record_has_every_file_and_its_hash(self):
        info = next(name for name in self.names if name.endswith("/RECORD")).removesuffix("/RECORD")
        rows = [line.rsplit(",", 2) for line in (work / "site" / info / "RECORD").read_text().splitlines()]
        self.assertEqual({row[0] for row in rows}, set(self.names))
        for name, digest, size in rows:
            if name == f"{info}/RECORD":
                continue
            data = (work / "site" / name).read_bytes()
            self.assertEqual(size, str(len(data)))
            self.assertEqual(digest, "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode())

    def test_type_checkers_read_the_packages_annotations(self):
        self.assertIn("qrl_train/py.typed", self.names)

    def test_what_is_linked_and_packed_has_its_license(self):
        libraries = [pathlib.PurePath(name).name for name in self.names if ".so" in name]
        self.assertEqual({library.partition(".so")[0] for library in libraries} - set(LICENSES), set())  # nothing of NVIDIA's
        texts = {pathlib.PurePath(name).name for name in self.names if "/licenses/" in name}
        wanted = {LICENSES[library.partition(".so")[0]] for library in libraries} | COMPILED_IN
        self.assertEqual(wanted - texts, set())
        if b"cutlass" in self.program.read_bytes():
            self.assertLessEqual({"CUTLASS.txt", "cudart-License.txt"}, texts)
        # Every library that the program needs is in the wheel, in torch, or in every system.
        needed = re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "-d", self.program)[1])
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
            said = run("objdump", "-T", work / "site" / name)[1]
            for library, version in re.findall(r"\((GLIBC|GLIBCXX)_([\d.]+)\)", said):
                self.assertLessEqual(tuple(map(int, version.split("."))), newest[library], name)
                num_seen += 1
            self.assertNotIn("GLIBC_ABI_DT_RELR", said, name)
        self.assertGreater(num_seen, 100)

    def test_the_program_runs_with_the_torch_that_python_would_import(self):
        torch = self.torch("2.11.0+cpu", real=True)
        code, said = self.start(torch, "--version")
        self.assertEqual(code, 0, said)
        self.assertIn(f"\n  torch: 2.11.0 at {torch}/torch/lib/libtorch_cpu.so\n", said)
        code, said = self.start(torch, "recipes:countdown_quickstart", "--dry-run", "--ranks", "2")
        self.assertEqual(code, 0, said)

    def test_programs_that_it_starts_get_the_users_library_path(self):
        (work / "paths.py").write_text("import os\ndef compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
                                     "    return float(os.environ.get('LD_LIBRARY_PATH') == '/users/own')\n")
        (work / "paths.yaml").write_text(
            f"model: {{init: {{config: {ROOT}/recipes/models/quickstart/config.json}}}}\n"
            f"data: {{train_files: [{ROOT}/tests/data/golden/parquet/countdown.jsonl]}}\n"
            "reward: {verifier: command, command: [python3, -m, qrl_reward, \"verl:paths.py\"]}\n")
        code, said = self.start(self.torch("2.11.0", real=True), "check", "reward", "paths.yaml", LD_LIBRARY_PATH="/users/own")
        self.assertEqual(code, 0, said)
        self.assertRegex(said, r"\n  ground truth +12 +12 +0 ")

    def test_another_torch_or_none_is_one_line(self):
        for torch, got in ((None, "none"), (self.torch("2.10.0"), "2.10.0 at "), (self.torch("2.11.0"), "none in ")):
            code, said = self.start(torch, "--version")
            self.assertEqual((code, said.count("\n")), (2, 1), said)
            self.assertTrue(said.startswith("error: torch: expected "), said)
            self.assertIn(f"got {got}", said)
            self.assertIn("-m pip install torch==2.11.0", said)

    def test_another_python_processor_or_c_library_is_one_line(self):
        for change, error in (("sys.version_info = (3, 9, 18)", "python: expected 3.10 or newer, got "),
                              ("platform.machine = lambda: 'aarch64'", "qrl-train: expected Linux on an x86-64 processor, got Linux on aarch64; "),
                              ("os.confstr = int", "qrl-train: expected glibc 2.35 or newer, got another C library; "),
                              ("os.confstr = lambda name: 'glibc 2.31'", "qrl-train: expected glibc 2.35 or newer, got 2.31; ")):
            line = f"import os, platform, sys\nfrom qrl_train import launch\n{change}\nlaunch.main()"
            path = f"{work / 'site'}:{self.torch('2.11.0')}"
            code, said = run(sys.executable, "-S", "-c", line, env=variables(PYTHONPATH=path))
            self.assertEqual((code, said.count("\n")), (2, 1), said)
            self.assertTrue(said.startswith("error: " + error), said)

    def test_a_librarys_code_is_told_apart_by_what_is_loaded(self):
        code_hash = runpy.run_path(str(work / "site/qrl_train/elf.py"))["code_hash"]
        name = next(name for name in self.names if "/libpcre2-8.so" in name)
        data = (work / "site" / name).read_bytes()
        copy = work / "copy.so"

        def hash_of(changed):
            copy.write_bytes(changed)
            return code_hash(copy)

        whole = hash_of(data)
        self.assertEqual(hash_of(data + b"symbols"), whole)
        self.assertNotEqual(hash_of(data[:0x10000] + bytes([data[0x10000] ^ 1]) + data[0x10001:]), whole)
        with self.assertRaises(OSError):
            hash_of(data[:0x10000])
        with self.assertRaises(OSError):
            hash_of(b"no library")

    def test_the_console_script_refuses_what_the_tag_does(self):
        oldest = re.search(r"OLDEST_GLIBC = \((\d+), (\d+)\)", (work / "site/qrl_train/launch.py").read_text())
        self.assertIn("manylinux_{}_{}_".format(*oldest.groups()), self.wheel.name)
        metadata = next((work / "site").glob("*.dist-info/METADATA")).read_text()
        python = re.search(r"OLDEST_PYTHON = \((\d+), (\d+)\)", (work / "site/qrl_train/launch.py").read_text())
        self.assertIn("\nRequires-Python: >={}.{}\n".format(*python.groups()), metadata)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # prints the reason of a skip
