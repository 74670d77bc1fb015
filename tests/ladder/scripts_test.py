#!/usr/bin/env python3
"""The top of scripts/ has what every user runs, and each script that a file of the repository names is there."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOP = {"setup", "build", "test", "run", "bench", "dev", "lint"}
FOLDERS = {"accept", "common", "fetch", "golden", "gpu", "peers", "science"}
NAMED = re.compile(r"(?<![\w./-])scripts/[a-z_]+(?:/[a-z_]+)*(?:\.[a-z]+)?(?![\w*{<$/-])")
BINARY = {".png", ".bin", ".safetensors", ".parquet", ".gguf", ".model"}


def missing(text, has):
    """Names of scripts in the text that has(path) does not know, in order."""
    return [name for name in dict.fromkeys(NAMED.findall(text)) if not has(name)]


def main():
    assert missing("run scripts/setup, scripts/none.py, scripts/gpu/check or scripts/gpu/*", {"scripts/setup", "scripts/gpu/check"}.__contains__) == ["scripts/none.py"]
    faults = []
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")[:-1]
    top = {pathlib.PurePath(name).parts[1] for name in tracked if name.startswith("scripts/")}
    if top != TOP | FOLDERS:
        faults.append(f"scripts/: expected {sorted(TOP | FOLDERS)}, got {sorted(top)}: what few users run belongs in a folder")
    for name in tracked:
        path = ROOT / name
        if path.suffix in BINARY or name.startswith(("third_party/", "tests/ladder/scripts_test.py", "tests/ladder/check_docs_test.cpp")) or not path.is_file():
            continue
        text = path.read_text(errors="replace")
        faults += [f"{name}: {script} is not there" for script in missing(text, lambda script: (ROOT / script).exists())]
    sys.exit("\n".join(faults) or None)


if __name__ == "__main__":
    main()
