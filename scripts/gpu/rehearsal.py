"""scripts/gpu/first_contact --rehearse: every command line of all five steps on a machine without a GPU.

First the harness with programs that stand in: a failing case, a hanging one, a program that dies. Then all steps for real: the
test programs over the emulation, trainings and benchmarks by --dry-run; a stop after step 2, and going on. Stand-ins are only
nvidia-smi, ncu, compute-sanitizer and the device's figures. Sets up and builds what is missing."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
import programs  # noqa: E402

TOOLS = ("nvidia-smi", "ncu", "compute-sanitizer")


def stand_ins(folder):
    for name in (*programs.PROGRAMS, *(f"path/{tool}" for tool in TOOLS)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(HERE / "stand_in", folder / name)
    programs.count_instructions(folder / "kernels.json")


def first_contact(folder, out, *arguments, shows=True, **variables):
    env = {**os.environ, "PATH": f"{folder}/path:{os.environ['PATH']}", **variables}
    done = subprocess.run([sys.executable, HERE / "first_contact", "--bin", folder, "--out", out, *arguments],
                          stdout=None if shows else subprocess.PIPE, stderr=None if shows else subprocess.STDOUT, text=True, env=env)
    return done.returncode, done.stdout or ""


def expect(holds, what, output=""):
    print(("holds  " if holds else "FAILS  ") + what, flush=True)
    if not holds:
        sys.exit(output or 1)


def drill(folder, work):
    """What goes wrong is seen, named, and costs no more than itself."""
    print("\n# The harness, with programs that stand in", flush=True)
    code, output = first_contact(folder, work / "case", "--step", "1", shows=False, QRL_STAND_IN_FAILS="case")
    expect(code == 1 and "1 == 2 at a.cpp:3" in output, "a failing case is named with what it said", output)
    code, output = first_contact(folder, work / "hang", "--step", "1", "--limit", "14", shows=False, QRL_STAND_IN_FAILS="hang")
    expect(code == 1 and "no report" in output, "a hanging case ends with the time of its step", output)
    code, output = first_contact(folder, work / "crash", "--step", "1", shows=False, QRL_STAND_IN_FAILS="crash")
    expect(code == 1 and "exit code -11" in output and "1 of 2 cases" in output, "a program that dies costs its case alone", output)


def main():
    missing = [name for name, path in programs.PROGRAMS.items() if not (programs.ROOT / "build" / path).exists()]
    if missing or not (programs.ROOT / "build" / "tests" / "test_cuda").exists():
        subprocess.run([programs.ROOT / "scripts" / "build", "--tests"], env={**os.environ, "QRL_CUDA": "on"}, check=True)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        folder, out = work / "programs", work / "out"
        stand_ins(folder)
        drill(folder, work)
        print("\n# All steps, every command line with the real program; a stop after step 2", flush=True)
        real = {"QRL_STAND_IN_REAL": str(programs.ROOT / "build")}
        for step in ("1", "2"):
            code, _ = first_contact(folder, out, "--step", step, **real)
            expect(code == 0, f"step {step}")
        before = json.loads((out / "first_contact.json").read_text())["parts"]
        print("\n# Going on after the stop", flush=True)
        code, _ = first_contact(folder, out, **real)
        after = json.loads((out / "first_contact.json").read_text())["parts"]
        expect(code == 0 and all(after[name] == before[name] for name in before), "steps 3 to 5, without the first two again")
        files = sorted(out.iterdir())
        expect(len(files) <= 6 and all(file.stat().st_size < 16e6 for file in files),
               f"{len(files)} files of at most {max(file.stat().st_size for file in files) / 1e6:.1f} MB")
        print(f"rehearsed in {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
