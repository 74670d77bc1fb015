#!/usr/bin/env python3
"""What the build and scripts/gpu/kernels make of ptxas's figures. usage: kernels_test.py CMAKE"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts" / "gpu"))
sys.dont_write_bytecode = True
import inner_loop  # noqa: E402
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

    def test_frames_and_spills_fail(self):
        for frame, spills in ((8, 0), (0, 4)):
            code, (line,) = self.lines({"rows": figures(frame, spills)})
            self.assertEqual((code, line[:5]), (1, "FAILS"), line)
            self.assertIn(f"{frame} bytes stack frame", line)
        self.assertEqual(self.lines({"rows": figures(0, 0)})[1][0][:5], "ok   ")

    def test_a_report_without_figures_fails(self):
        code, lines = self.lines({"rows": "nothing"})
        self.assertEqual((code, lines), (1, []))


class Build(unittest.TestCase):
    def compile(self, frame):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            compiler = folder / "compiler"
            compiler.write_text(f"#!/bin/sh\necho object > '{folder}/o'\ncat >&2 <<END\n{figures(frame, 0)}END\n")
            compiler.chmod(0o755)
            run = subprocess.run([CMAKE, f"-DFIGURES={folder}/figures", f"-DOBJECT={folder}/o", "-P",
                                  ROOT / "cuda/compile.cmake", "--", compiler], capture_output=True, text=True)
            return run.returncode, (folder / "o").exists(), run.stderr

    def test_a_stack_frame_fails_the_build(self):
        code, object_left, said = self.compile(16)
        self.assertEqual((code, object_left), (1, False))
        self.assertIn("got 16 bytes stack frame", said)
        self.assertEqual(self.compile(0)[:2], (0, True))


def sass(body, name="_Z15streamed_kernelINS2_8OperandsILNS_5quant7ElementE1ELS6_4ELb1EEELi0EEEv"):
    lines = [f"        /*{16 * i:04x}*/    {text} ;   /* 0x0 */" for i, text in enumerate(body)]
    return f"\t\tFunction : {name}\n" + "\n".join(lines)


class InnerLoop(unittest.TestCase):
    # Before the loop a copy and a barrier; in it copies of x (a loop of two), then matrix instructions (a loop of four).
    BODY = ["LDGSTS.E.BYPASS.128 [R1], desc[UR6][R2.64]", "BAR.SYNC.DEFER_BLOCKING 0x0",
            "DEPBAR.LE SB0, 0x1", "BAR.SYNC.DEFER_BLOCKING 0x0", "@!P0 BRA 0x60",                      # 0020
            "LDGSTS.E.BYPASS.128 [R1], desc[UR6][R2.64]", "LDGSTS.E.BYPASS.128 [R3], desc[UR6][R2.64]", "@P1 BRA 0x50",
            "LOP3.LUT R1, R2, R3, R4, 0x6a, !PT", "HMMA.16816.F32.BF16 R4, R8, R2, R4", "@!P3 BRA 0x80", "@!P2 BRA 0x20", "EXIT"]

    def test_a_step_counts_inner_loops_as_often_as_it_takes_them(self):
        code = next(inner_loop.functions(sass(self.BODY)))[1]
        # 10 instructions; the three of copies twice as often (4 copies of 2), the three of matrix instructions four times (4 of 1).
        self.assertEqual(inner_loop.step_instructions(code, 4, 4), 10 + 3 + 9)
        self.assertEqual(inner_loop.step_instructions(code, 0.5, 1), 10)
        self.assertIsNone(inner_loop.step_instructions(code[:5], 4, 4))

    def test_instructions_of_a_weight(self):
        # 8 rows and 64 outputs of int4 by bf16: a warp has 16 outputs, so 8 matrix instructions of 16 inputs, and a thread one copy of x.
        figures = inner_loop.inner_loops(sass(self.BODY), [(8, 64)])
        self.assertEqual(figures, {"int4": {"8": {"instructions": 10 + 3 * 7, "weights": 2048, "per_weight": round(32 * 31 / 2048, 3)}}})
        with self.assertRaises(ValueError):
            inner_loop.inner_loops(sass(self.BODY[:5]), [(8, 64)])

    def test_machine_code_without_the_kernel_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "no streamed kernel"):
            inner_loop.inner_loops(sass(self.BODY, "_Z12other_kernelv"), [(8, 64)])

    def test_tiles_are_those_of_the_source(self):
        text = next((ROOT / "cuda").glob("**/gemm_plan.h")).read_text()
        self.assertEqual([rows for rows, _ in inner_loop.stream_tiles(text)], [8, 16, 32, 64])


if __name__ == "__main__":
    unittest.main()
