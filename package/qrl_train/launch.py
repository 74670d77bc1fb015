"""Owns the console script: finds torch without importing it, hands its folder to the program, and becomes the program."""
import importlib.util
import os
import pathlib
import platform
import re
import sys

from qrl_train.pins import PYARROW, TORCH

PACKAGE = pathlib.Path(__file__).resolve().parent
PROGRAM = PACKAGE / "bin" / "qrl-train"
BEFORE = "QRL_LIBRARY_PATH_BEFORE"  # the program restores the user's own LD_LIBRARY_PATH from it (src/base/process.cpp)


def refuse(where, expected, got, what_to_do):
    """Ends the process with exit code 2 and one line, as the program does."""
    print(f"error: {where}: expected {expected}, got {got}; {what_to_do}", file=sys.stderr)
    raise SystemExit(2)


def folder_of(name):
    """Returns the folder of a package that could be imported, without importing it; None if there is none."""
    spec = importlib.util.find_spec(name)
    places = list(spec.submodule_search_locations or ()) if spec else []
    return pathlib.Path(places[0]) if places else None


def version_in(folder, file):
    """Returns the version in a package's generated file, or the empty string."""
    try:
        text = (folder / file).read_text(encoding="utf-8")
    except OSError:
        return ""
    found = re.search(r"""(?m)^__version__\s*(?::[^=]*)?=\s*(?:version\s*=\s*)?['"]([^'"]+)['"]""", text)
    return found.group(1) if found else ""


def torch_libraries():
    """Returns the folder of torch's libraries. Refuses another version: the program is compiled for one."""
    folder = folder_of("torch")
    command = f"{sys.executable} -m pip install torch=={TORCH}"
    if folder is None:
        refuse("torch", f"version {TORCH} for {sys.executable}", "none", command)
    version = version_in(folder, "version.py")
    if version.partition("+")[0] != TORCH:
        refuse("torch", f"version {TORCH}", f"{version or 'no version'} at {folder}", f"{command}, in a venv of its own")
    if not (folder / "lib" / "libtorch_cpu.so").is_file():
        refuse("torch", "libtorch_cpu.so", f"none in {folder / 'lib'}", command)
    return folder / "lib"


def environment():
    """Returns the environment in which the loader finds the program's libraries, torch's and pyarrow's."""
    before = os.environ.get("LD_LIBRARY_PATH", "")
    folders = [PACKAGE / "lib", torch_libraries()]
    pyarrow = folder_of("pyarrow")
    if pyarrow is not None and (pyarrow / f"libarrow.so.{PYARROW}").exists():
        folders.append(pyarrow)
    path = ":".join([*map(str, folders), *([before] if before else [])])
    return {**os.environ, "LD_LIBRARY_PATH": path, BEFORE: before}


def main():
    if platform.machine() != "x86_64":
        refuse("qrl-train", "an x86-64 processor", platform.machine(), "no other is supported")
    try:
        os.execve(PROGRAM, ["qrl-train", *sys.argv[1:]], environment())
    except OSError as error:
        refuse("qrl-train", f"the program {PROGRAM}", error.strerror, "install the package again")
