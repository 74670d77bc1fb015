#!/usr/bin/env python3
"""The top of scripts/ has what users run, every script that a file of the repository names exists, and commands start anywhere."""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOP = {"setup", "build", "test", "run", "bench", "dev", "lint", "package"}  # package: makes what users install
FOLDERS = {"accept", "common", "fetch", "golden", "gpu", "peers", "science"}
NEEDS_OTHERS = {"golden", "peers"}  # whose imports come from environments of their own
NAMED = re.compile(r"(?<![\w./-])(?:\.\./)*(scripts/[a-z0-9_]+(?:/[a-z0-9_]+)*(?:\.[a-z]+)?)(?![\w*{<$/-])")
MADE_UP = ("tests/ladder/scripts_test.py", "tests/ladder/check_docs_test.cpp")  # these name scripts that must not exist
BINARY = {".png", ".bin", ".safetensors", ".parquet", ".gguf", ".model"}


def missing(text, has):
    """Names of scripts in the text for which has(path) is false, in order."""
    return [name for name in dict.fromkeys(NAMED.findall(text)) if not has(name)]


def misplaced(names):
    """Names directly below scripts/ that are neither a user's command nor a folder of the layout."""
    return sorted({pathlib.PurePath(name).parts[1] for name in names if name.startswith("scripts/")} - TOP - FOLDERS)


def is_command(path):
    """Whether the file is a program in Python that imports nothing beyond this repository and Python's library."""
    parts = path.relative_to(ROOT / "scripts").parts
    return len(parts) <= 2 and parts[0] not in NEEDS_OTHERS and os.access(path, os.X_OK) and path.read_text().startswith("#!/usr/bin/env python3")


def help_fault(path):
    """What is wrong with `path --help` in another folder: it exits with 0 and names the command by its path; None if so."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, path, "--help"], cwd=folder, capture_output=True, text=True, timeout=60)
    name = path.relative_to(ROOT).as_posix()
    if done.returncode != 0:
        return f"{name} --help: expected exit code 0, got {done.returncode}: {done.stderr.strip()[-400:]}"
    return None if name in done.stdout else f"{name} --help: expected its own path in the usage, got {done.stdout[:200]!r}"


def main():
    known = {"scripts/setup", "scripts/gpu/check", "scripts/golden/fp8.py"}
    assert missing("scripts/setup, scripts/none.py, [x](../scripts/gone.md), scripts/gpu/check or scripts/gpu/*", known.__contains__) == [
        "scripts/none.py", "scripts/gone.md"]
    assert missing("scripts/golden/fp8.py scripts/golden/fp9.py", known.__contains__) == ["scripts/golden/fp9.py"]
    assert misplaced(["scripts/dev", "scripts/gpu/check", "scripts/check_docs", "docs/gpu.md"]) == ["check_docs"]

    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    names = [name for name in listed.stdout.split("\0") if (ROOT / name).is_file()]
    faults = [f"scripts/{name}: expected one of {', '.join(sorted(TOP))} or a file in a folder ({', '.join(sorted(FOLDERS))})"
              for name in misplaced(names)]
    for name in names:
        if pathlib.PurePath(name).suffix not in BINARY and name not in MADE_UP:
            text = (ROOT / name).read_text(errors="replace")
            faults += [f"{name}: expected names of scripts that exist, got {script}" for script in missing(text, lambda script: (ROOT / script).exists())]
    commands = [ROOT / name for name in names if name.startswith("scripts/") and is_command(ROOT / name)]
    assert len(commands) >= 20, commands
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        faults += filter(None, pool.map(help_fault, commands))
    sys.exit("\n".join(faults) or None)


if __name__ == "__main__":
    main()
