#!/usr/bin/env python3
"""scripts/test fails on a skip that tests/allowed_skips.txt does not list: tests/skips.py on results of made-up cases."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
RULES = "a: * | no GPU* | no GPU here\n*: mpi* | no MPI | built without MPI when QRL_MPI=off\n"
VERBOSE = "test_it (__main__.It.test_it) ... skipped 'no numpy here'\n\nOK (skipped=1)"


def results(*cases):
    """JUnit's file of (name, output, whether ctest counts it as skipped)."""
    return "<testsuite>" + "".join(f'<testcase name="{name}">{"<skipped/>" if skipped else ""}<system-out>{output}</system-out></testcase>'
                                   for name, output, skipped in cases) + "</testsuite>"


class Skips(unittest.TestCase):
    def said(self, *cases, rules=RULES, **environment):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(shutil.copy(TESTS / "skips.py", folder))
            (script.parent / "allowed_skips.txt").write_text(rules)
            (script.parent / "results.xml").write_text(results(*cases))
            done = subprocess.run([sys.executable, script, script.parent / "results.xml"], capture_output=True, text=True, env=environment)
            return done.returncode, (done.stdout + done.stderr).splitlines()

    def test_a_listed_skip_passes(self):
        self.assertEqual(self.said(("a: 1", "SKIPPED: no GPU: none", True), ("a: 2", "SKIPPED: no GPU", True), ("a: 3", "", False)),
                         (0, ["skips: 2 allowed: 2 as no GPU here; 0 not"]))

    def test_another_reason_or_case_fails(self):
        for name, reason in (("a: 1", "no browser here"), ("b: 1", "no GPU")):
            code, said = self.said((name, f"SKIPPED: {reason}", True))
            self.assertEqual((code, said[0]), (1, f"tests/allowed_skips.txt: expected a line for this skip, got none: {name}: {reason}"))

    def test_a_skip_without_a_reason_fails(self):
        self.assertEqual(self.said(("a: 1", "", True))[0], 1)
        self.assertEqual(self.said(("a: 1", "ran 3\nOK (skipped=1)", False))[0], 1)

    def test_a_skip_inside_a_case_that_passed_is_seen(self):
        code, said = self.said(("c: 1", VERBOSE, False))
        self.assertEqual((code, said[0][-19:]), (1, "c: 1: no numpy here"))
        self.assertEqual(self.said(("c: 1", VERBOSE, False), rules="c: * | no numpy* | why")[0], 0)
        self.assertEqual(self.said(("d: 1", "1\nSKIPPED: the second half\n2", False))[0], 1)

    def test_a_condition_is_of_the_environment(self):
        case = ("x: mpi 2", "SKIPPED: no MPI", True)
        self.assertEqual((self.said(case)[0], self.said(case, QRL_MPI="off")[0]), (1, 0))

    def test_a_line_that_would_allow_everything_is_refused(self):
        for rules in ("a: * | * | why\n", "a: * | no GPU\n", "no GPU\n"):
            code, said = self.said(rules=rules)
            self.assertEqual((code, "allowed_skips.txt:1: expected CASES | REASON | WHY" in said[0]), (1, True), said)

    def test_the_list_itself_is_read(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "results.xml"
            file.write_text(results(("report: the page in a browser", "SKIPPED: no chromium-headless-shell here: scripts/setup --tests", True)))
            self.assertEqual(subprocess.run([sys.executable, TESTS / "skips.py", file], capture_output=True).returncode, 1)

    def test_scripts_test_calls_it(self):
        script = (TESTS.parent / "scripts/test").read_text()
        self.assertRegex(script, r'(?s)--output-junit "\$results".*tests/skips\.py" "\$results" \|\| failed=1.*exit \$failed')
        self.assertTrue(re.search(r"(?m)^scripts/test \|\| failed=1$", (TESTS.parent / ".ci/run").read_text()))


if __name__ == "__main__":
    unittest.main()
