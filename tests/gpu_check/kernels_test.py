#!/usr/bin/env python3
"""What the build and scripts/gpu/kernels make of ptxas's figures. usage: kernels_test.py CMAKE"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CMAKE = sys.argv.pop(1)


def figures(frame, spills, name="_ZN3qrl18some_thing_kernelE"):
    return (f"ptxas info    : Compiling entry function '{name}' for 'sm_80'\nptxas info    : Function properties for {name}\n"
            f"    {frame} bytes stack frame, {spills} bytes spill stores, {spills} bytes spill loads\n"
            "ptxas info    : Used 40 registers, used 1 barriers\n")


class Report(unittest.TestCase):
    def lines(self, reports):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in reports.items():
                (pathlib.Path(folder) / f"{name}.ptxas").write_text(text)
            run = subprocess.run([ROOT / "scripts/gpu/kernels", "--objects", folder, "--tools", folder], capture_output=True, text=True)
        return run.returncode, [line for line in run.stdout.splitlines() if "registers" in line]

    def test_frames_and_spills_fail_but_for_flashinfers(self):
        for frame, spills in ((8, 0), (0, 4)):
            code, (line,) = self.lines({"rows": figures(frame, spills)})
            self.assertEqual((code, line[:5]), (1, "FAILS"), line)
            self.assertIn(f"{frame} bytes stack frame", line)
            self.assertEqual(self.lines({"flashinfer_fp8": figures(frame, spills)})[1][0][:5], "ok   ")
        self.assertEqual(self.lines({"rows": figures(0, 0)})[1][0][:5], "ok   ")

    def test_a_report_without_figures_fails(self):
        code, lines = self.lines({"rows": "nothing"})
        self.assertEqual((code, lines), (1, []))


class Build(unittest.TestCase):
    def compile(self, frame, frames):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            compiler = folder / "compiler"
            compiler.write_text(f"#!/bin/sh\necho object > '{folder}/o'\ncat >&2 <<END\n{figures(frame, 0)}END\n")
            compiler.chmod(0o755)
            run = subprocess.run([CMAKE, f"-DFIGURES={folder}/figures", f"-DOBJECT={folder}/o", f"-DSTACK_FRAMES={frames}", "-P",
                                  ROOT / "cuda/compile.cmake", "--", compiler], capture_output=True, text=True)
            return run.returncode, (folder / "o").exists(), run.stderr

    def test_a_stack_frame_fails_the_build_where_it_is_refused(self):
        code, object_left, said = self.compile(16, "refused")
        self.assertEqual((code, object_left), (1, False))
        self.assertIn("got 16 bytes stack frame", said)
        for frame, frames in ((0, "refused"), (16, "allowed")):
            self.assertEqual(self.compile(frame, frames)[:2], (0, True))


if __name__ == "__main__":
    unittest.main()
