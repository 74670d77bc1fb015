#!/usr/bin/env python3
"""Runs scripts/accept/check_tests on a checkout of two files, with fake cmake and test programs."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "accept" / "check_tests"
SOURCE = "one\ntwo\nthree\nagain\nagain\n"
PROGRAM = """#!/bin/sh
[ "$1" = "three is three" ] || { echo "No test cases matched '$1'"; exit 0; }
grep -q '^three$' src/numbers.txt
"""
ROW = """number  src/numbers.txt: A number is wrong.
    test_numbers  {test}
{change}"""


def expect(holds, what, output=""):
    if not holds:
        sys.exit(f"{what}\n{output}")


def checkout(folder):
    for name in ("scripts/accept", "src", "tests/others", "tests/numbers", "build/tests", "path"):
        (folder / name).mkdir(parents=True)
    shutil.copy(SCRIPT, folder / "scripts/accept")
    (folder / "src/numbers.txt").write_text(SOURCE)
    (folder / "tests/numbers/numbers_test.cpp").write_text('TEST_CASE("three is three") {}\n')
    (folder / "tests/others/others_test.cpp").write_text('TEST_CASE("two is two") {}\n')
    (folder / "build/build.ninja").write_text("")
    for program, text in {"build/tests/test_numbers": PROGRAM, "path/cmake": "#!/bin/sh\nexit 0\n"}.items():
        (folder / program).write_text(text)
        (folder / program).chmod(0o755)
    for command in (["init", "-q"], ["add", "-A"], ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "t"]):
        subprocess.run(["git", *command], cwd=folder, check=True)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        checkout(folder)
        environment = {**os.environ, "PATH": f"{folder}/path:{os.environ['PATH']}"}

        def answer(*arguments, test="three is three", change="-three\n+3\n", times=1):
            table = folder / "tests/numbers/mutations.txt"
            table.write_text(times * ROW.format(test=test, change=change))
            done = subprocess.run([sys.executable, folder / "scripts/accept/check_tests", *arguments], capture_output=True, text=True,
                                  env=environment, timeout=60)
            table.unlink()
            expect((folder / "src/numbers.txt").read_text() == SOURCE, "the source was not restored", done.stdout)
            return done.returncode, done.stdout + done.stderr

        def expect_answer(code, words, *arguments, **row):
            got, output = answer(*arguments, **row)
            expect(got == code and words in output, f"{arguments} {row}: expected {code} and {words!r}, got {got}", output)

        expect_answer(0, "1 of 1 tests do what they must")
        expect_answer(0, "1 of 1 tests do what they must", change=" two\n-three\n")  # a context line, nothing in its place
        expect_answer(0, "1 of 1 tests do what they must", change=" two\n-three\n+3\n again\n")  # between two
        expect_answer(1, "green, expected red", change="-two\n+2\n")
        expect_answer(1, "does not apply to src/numbers.txt: expected its old lines once, got them 0 times", change="-five\n")
        expect_answer(1, "got them 2 times", change="-again\n")
        expect_answer(1, "got them 0 times", change="+inserted nowhere\n")
        expect_answer(1, "no test of test_numbers is called", test="four is four")
        expect_answer(0, "1 of 1 mutations apply", "--stands")
        expect_answer(1, "got them 0 times", "--stands", change="-five\n")
        expect_answer(1, "no test of test_numbers is called", "--stands", test="four is four")
        expect_answer(1, "no test of test_numbers is called", "--stands", test="two is two")  # of another program
        expect_answer(1, "tests/numbers/mutations.txt:1: expected NAME  FILE: REASON", change="three\n")
        expect_answer(1, "tests/numbers/mutations.txt:4: expected NAME  FILE: REASON", change="-three\nthree\n")
        expect_answer(1, "expected a name of its own, got 'number' again", times=2)


if __name__ == "__main__":
    main()
