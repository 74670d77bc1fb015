#!/usr/bin/env python3
"""The last lines of scripts/test name the kernel paths that ran, and in one line those that the processor lacks."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "kernel_paths.py"


def said(**notes):
    with tempfile.TemporaryDirectory() as folder:
        for name, note in notes.items():
            (pathlib.Path(folder) / name.replace("_", " ")).write_text(note + "\n")
        return subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True, check=True).stdout.splitlines()


class KernelPaths(unittest.TestCase):
    def test_all_ran(self):
        self.assertEqual(said(amx="ran", amx_emulated="ran", avx512="ran"), ["kernel paths that ran: amx, amx emulated, avx512"])

    def test_lacking_in_one_line(self):
        self.assertEqual(said(amx="lacking", amx_emulated="lacking", avx512="lacking", avx2="ran", portable="ran"),
                         ["kernel paths that ran: avx2, portable",
                          "kernel paths that did not run, as this processor lacks them: amx, amx emulated, avx512"])

    def test_nothing_chosen(self):
        self.assertEqual(said(), ["kernel paths that ran: none, as no case that was chosen runs on a path of its own"])
        self.assertEqual(said(amx="lacking")[0], said()[0])


if __name__ == "__main__":
    unittest.main()
