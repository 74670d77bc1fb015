"""Owns the console script: finds torch without importing it, hands its folder to the program, and becomes the program."""
from __future__ import annotations

import importlib.util
import os
import pathlib
import platform
import re
import subprocess
import sys

from qrl_train.elf import code_hash, require_whole
from qrl_train.pins import PYARROW, TORCH, TORCH_CODE

PACKAGE = pathlib.Path(__file__).resolve().parent
PROGRAM = PACKAGE / "bin" / "qrl-train"
BEFORE = "QRL_LIBRARY_PATH_BEFORE"  # the program restores the user's own LD_LIBRARY_PATH from it (src/base/process.cpp)
OLDEST_PYTHON = (3, 10)
OLDEST_GLIBC = (2, 35)  # that of the wheel's tag


class Refused(Exception):
    """Tells in one line, in the form of the program's errors, why this Python or machine cannot run the program."""

    def __init__(self, where: str, expected: str, got: str, what_to_do: str) -> None:
        super().__init__(f"{where}: expected {expected}, got {got}; {what_to_do}")


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def glibc() -> str | None:
    """Returns the version of glibc as a text; None where the C library is another, as musl."""
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")[2] or None
    except (ValueError, OSError):
        return None


def require_machine() -> None:
    """Refuses what pip refuses by the wheel's tag, for a package that came here without pip."""
    words = ".".join(map(str, OLDEST_PYTHON))
    if sys.version_info < OLDEST_PYTHON:
        raise Refused("python", f"{words} or newer", platform.python_version(), "install the package for another Python")
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise Refused("qrl-train", "Linux on an x86-64 processor", f"{platform.system()} on {platform.machine()}", "no other is supported")
    found, oldest = glibc(), ".".join(map(str, OLDEST_GLIBC))
    if found is None or numbers(found) < OLDEST_GLIBC:
        raise Refused("qrl-train", f"glibc {oldest} or newer", found or "another C library",
                      "use Debian 12, Ubuntu 22.04 or newer, or a container of one")


def folder_of(name: str) -> pathlib.Path | None:
    """Returns the folder of a package that could be imported, without importing it; None if there is none."""
    spec = importlib.util.find_spec(name)
    places = list(spec.submodule_search_locations or ()) if spec else []
    return pathlib.Path(places[0]) if places else None


def text_of(file: pathlib.Path) -> str:
    """Returns the text of a file, or the empty string if it cannot be read."""
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        return ""


def torch_version(folder: pathlib.Path) -> str:
    found = re.search(r"""(?m)^__version__\s*(?::[^=]*)?=\s*(?:version\s*=\s*)?['"]([^'"]+)['"]""", text_of(folder / "version.py"))
    return found.group(1) if found else ""


def torch_folder() -> pathlib.Path:
    """Returns torch's folder. Refuses another version: the program is compiled for one."""
    folder = folder_of("torch")
    command = f"{sys.executable} -m pip install torch=={TORCH}"
    if folder is None:
        raise Refused("torch", f"version {TORCH} for {sys.executable}", "none", command)
    version = torch_version(folder)
    if version.partition("+")[0] != TORCH:
        raise Refused("torch", f"version {TORCH}", f"{version or 'no version'} at {folder}", f"{command}, in a venv of its own")
    for name in ("libtorch_cpu.so", "libc10.so"):
        if not (folder / "lib" / name).is_file():
            raise Refused("torch", name, f"none in {folder / 'lib'}", command)
        try:
            require_whole(folder / "lib" / name)
        except OSError as error:
            raise Refused(str(folder / "lib" / name), "a whole library", str(error), f"{command} --force-reinstall") from None
    return folder


def environment() -> dict[str, str]:
    """Returns the environment in which the loader finds the program's libraries, torch's and pyarrow's."""
    require_machine()
    before = os.environ.get("LD_LIBRARY_PATH", "")
    folders = [PACKAGE / "lib", torch_folder() / "lib"]
    pyarrow = folder_of("pyarrow")
    if pyarrow is not None and (pyarrow / f"libarrow.so.{PYARROW}").exists():
        folders.append(pyarrow)
    path = ":".join([*map(str, folders), *([before] if before else [])])
    return {"QRL_PYTHON": sys.executable, **os.environ, "LD_LIBRARY_PATH": path, BEFORE: before}


def about_torch(folder: pathlib.Path) -> str:
    """Tells whether torch's CPU code is that which the tests run with; the wheels of PyPI for all Pythons have the same."""
    try:
        return "the code that it is tested with" if code_hash(folder / "lib" / "libtorch_cpu.so") == TORCH_CODE else "other code: results may round otherwise"
    except OSError as error:
        return f"unknown code ({error})"


def print_versions(variables: dict[str, str]) -> int:
    """Prints what the program says of itself, then what it cannot know. Returns the exit code."""
    code = subprocess.run([PROGRAM, "--version"], env=variables, check=False).returncode
    folder = torch_folder()
    print(f"python: {platform.python_version()} at {sys.executable}\ntorch's build: {torch_version(folder)}, {about_torch(folder)}", flush=True)
    return code


def main() -> None:
    try:
        variables = environment()
        if sys.argv[1:] == ["--version"]:
            raise SystemExit(print_versions(variables))
        os.execve(PROGRAM, ["qrl-train", *sys.argv[1:]], variables)
    except Refused as refused:
        print(f"error: {refused}", file=sys.stderr)
    except BrokenPipeError:  # the reader of --version has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise SystemExit(0) from None
    except OSError as error:
        print(f"error: {PROGRAM}: expected the program, got {error.strerror}; install the package again", file=sys.stderr)
    raise SystemExit(2)
