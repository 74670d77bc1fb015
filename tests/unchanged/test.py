#!/usr/bin/env python3
"""scripts/accept/check_unchanged and scripts/accept/compare_runs with a fake program: what they compare, each difference seen."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SCRIPTS = HERE.parent.parent / "scripts"


def expect(holds, what, output=""):
    if not holds:
        sys.exit(f"{what}\n{output}")


class Repository:
    """A repository of its own with the scripts, and a stand-in for its sources, its program and cmake."""

    def __init__(self, folder):
        self.root, self.path = folder / "project", folder / "path"
        for name in ("accept", "common"):
            shutil.copytree(SCRIPTS / name, self.root / "scripts" / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(HERE / "stand_in", self.root)
        (self.root / "recipes").mkdir()
        (self.root / ".gitignore").write_text("/.deps\n/build-*/\n/build/\n")
        (self.root / ".deps").mkdir()
        self.path.mkdir()
        shutil.copy(HERE / "stand_in", self.path / "cmake")
        self.git("init", "--quiet")
        self.base = self.commit()

    def git(self, *arguments):
        command = ["git", "-c", "user.name=test", "-c", "user.email=test@localhost", *arguments]
        return subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=True).stdout.strip()

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "A commit")
        return self.git("rev-parse", "HEAD")

    def change(self, before, after):
        text = (HERE / "stand_in").read_text()
        expect(text.count(before) == 1, f"the stand-in has one line {before!r}")
        (self.root / "stand_in").write_text(text.replace(before, after))

    def check(self, *arguments):
        environment = {**os.environ, "PATH": f"{self.path}:{os.environ['PATH']}", "QRL_TEST_DATA": "/nowhere"}
        done = subprocess.run([sys.executable, "scripts/accept/check_unchanged", "--base", self.base, *arguments], cwd=self.root,
                              capture_output=True, text=True, env=environment, timeout=120)
        return done.returncode, done.stdout + done.stderr


def expect_difference(repository, arguments, *said):
    code, output = repository.check(*arguments)
    expect(code == 1 and all(text in output for text in said), f"a difference that is named by {said}, exit code 1", output)


def check_unchanged(folder):
    repository = Repository(folder)
    one = ("--only", "mode flashrl")
    code, output = repository.check(*one)
    expect(code == 0 and "1 of 1 cases are the same" in output, "an unchanged tree is the same", output)
    expect("base: mode flashrl" in output, "the base is run", output)

    # Nothing is committed: the tree itself is what is built.
    repository.change("LOSS = 0.5", "LOSS = 0.25")
    expect_difference(repository, one, "metrics.jsonl: row 1 (step 1): actor/pg_loss: 0.5 -> 0.25")
    code, output = repository.check(*one)
    expect("base: mode flashrl" not in output, "the base's results are kept", output)
    expect_difference(repository, (*one, "--ignore-key", "actor/*"), "new/metric: 0.5 -> 0.25")
    code, output = repository.check(*one, "--ignore-key", "actor/*", "--ignore-key", "new/*")
    expect(code == 0, "keys that are ignored do not differ, nor do words of messages", output)

    repository.change('BYTES = b"weights"', 'BYTES = b"weightz"')
    expect_difference(repository, one, "checkpoint.sha256: line 1")
    repository.change("CODE = 0", "CODE = 3")
    expect_difference(repository, one, "exit code 3")
    repository.change("held-out toy", "held_out toy")
    expect_difference(repository, one, "result.txt: line 1: held-out toy mean@8: 0.100 -> 0.200")
    repository.change('"step": step, "metrics_bytes"', '"steps": step, "metrics_bytes"')
    expect_difference(repository, one, "state.jsonl", "step: 3 -> no such key")
    repository.change('"model.safetensors").write', '"weights.safetensors").write')
    expect_difference(repository, one, "exit code 1")

    # A resumed run begins with what the base wrote.
    repository.change("LOSS = 0.5", "LOSS = 0.25")
    expect_difference(repository, ("--only", "resume step_2"), "row 3 (step 3): actor/pg_loss")

    given = folder / "given"
    shutil.copy(HERE / "stand_in", given)
    code, output = repository.check(*one, "--program", str(given))
    expect(code == 0 and "building this tree" not in output, "--program is run instead of the tree's", output)
    code, output = repository.check("--only", "judge")
    expect(code == 0 and "SKIPPED" in output and "1 skipped" in output, "without data a case is skipped and says so", output)
    for arguments, said in ((("--only", "nothing"), "--only: expected"), (("--program", "/nowhere"), "--program: expected"),
                            (("--base", "nothing"), "--base: expected")):
        code, output = repository.check(*arguments)
        expect(code == 2 and said in output, f"{arguments}: exit code 2, {said}", output)


def compare_runs(folder):
    def run(name, *rows):
        (folder / name).mkdir()
        (folder / name / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(folder / name)

    def compare(*arguments):
        done = subprocess.run([sys.executable, SCRIPTS / "accept" / "compare_runs", *arguments], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr

    rows = [{"step": step, "loss": 1 / step, "entropy": None, "timing_s/step": step} for step in range(1, 9)]
    a, same = run("a", *rows), run("same", *({**row, "timing_s/step": 0} for row in rows))
    b = run("b", *({**row, "loss": row["loss"] + (0.25 if row["step"] >= 7 else 0)} for row in rows))
    code, output = compare(a, same, "--equal")
    expect(code == 0 and "8 rows are equal" in output, "rows that differ in timings alone are equal", output)
    code, output = compare(a, b, "--equal")
    expect(code == 1 and "row 7 (step 7): loss: 0.14" in output, "--equal names the first difference, exit code 1", output)
    code, output = compare(a, b, "--equal", "--ignore-key", "lo*")
    expect(code == 0, "a key that is ignored does not differ", output)
    code, output = compare(a, b)
    loss = next(line.split() for line in output.splitlines() if line.startswith("loss"))
    expect(code == 0 and loss == ["loss", "0.125", "0.375", "+0.25", "0.133929", "0.383929", "+0.25", "7"], "the table", output)
    expect("entropy" not in output and "timing_s/step" in output, "metrics with a number, timings too", output)
    expect("timing_s" not in compare(a, b, "--metrics", "loss")[1], "--metrics chooses")
    shorter = run("shorter", *rows[:5])
    code, output = compare(a, shorter, "--equal")
    expect(code == 1 and "row 6 (step 6): 8 rows -> 5 rows" in output, "a run that has fewer rows differs", output)
    zero, minus = run("zero", {"step": 1, "x": 0.0}), run("minus", {"step": 1, "x": -0.0})
    expect(compare(zero, minus, "--equal")[0] == 1, "-0.0 is not 0.0")
    (folder / "broken.jsonl").write_text('{"step": 1}\nstep\n')
    for arguments, said in (((a, str(folder / "none")), "none"), ((a, str(folder / "broken.jsonl")), "broken.jsonl:2"),
                            ((a, b, "--metrics", "x"), "--metrics: expected"), ((a,), "B")):
        code, output = compare(*arguments)
        expect(code == 2 and said in output, f"{arguments}: exit code 2", output)


def main():
    for test in (compare_runs, check_unchanged):
        with tempfile.TemporaryDirectory() as name:
            test(pathlib.Path(name))


if __name__ == "__main__":
    main()
