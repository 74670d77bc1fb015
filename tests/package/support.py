"""The wheel that scripts/package makes of a build, and packages torch and pyarrow made of .deps, which must not be imported."""
import atexit
import functools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
DEPS = ROOT / ".deps"
TINY = ROOT / "tests/train/tiny.yaml"
# What a launcher of MPI or a Python of the caller's own would change.
FOREIGN = ("PYTHON", "OMPI_", "PMI_", "PMIX_", "SLURM_", "VIRTUAL_ENV", "LD_LIBRARY_PATH")

work = pathlib.Path(tempfile.mkdtemp(prefix="qrl-package-")).resolve()
atexit.register(shutil.rmtree, work, ignore_errors=True)


def variables(**more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    return {**kept, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_BREAK_SYSTEM_PACKAGES": "1", **more}


def run(*words, **options):
    """Returns the exit code of a command, and what it printed."""
    options = {"env": variables(), "cwd": work, **options}
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    return done.returncode, done.stdout


def require(*words, **options):
    """Returns what a command printed; fails unless it succeeded."""
    code, said = run(*words, **options)
    assert code == 0, said
    return said


@functools.cache
def stage():
    """Returns an install tree of the build, without the paths of .deps, as scripts/package builds it."""
    require("cmake", "--install", BUILD, "--prefix", work / "stage", "--strip")
    files = [work / "stage/bin/qrl-train", *(work / "stage/lib/qrl-train").glob("*.so")]
    (work / "rpath.cmake").write_text("".join(f'file(RPATH_REMOVE FILE "{file}")\n' for file in files))
    require("cmake", "-P", work / "rpath.cmake")
    return work / "stage"


def pack(out):
    """Packs the install tree, and returns the wheel."""
    require(ROOT / "scripts/package", "wheel", "--stage", stage(), "--out", work / out)
    return next((work / out).glob("qrl_train-*.whl"))


@functools.cache
def wheel():
    return pack("wheel")


def make_package(site, name, version, folders):
    """Makes an installed package out of {path below site: place of .deps}, so that pip takes its requirement for met."""
    info = site / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "INSTALLER").write_text("tests\n")
    (info / "RECORD").write_text("")
    (site / name).mkdir(exist_ok=True)
    (site / name / "__init__.py").write_text(f"raise SystemExit('{name} was imported')\n")
    for path, place in folders.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).symlink_to(DEPS / place)


def make_torch(site, version, real=True):
    """Makes a package torch of a version; `real`: with libraries."""
    libraries = {"torch/lib": "libtorch/torch/lib", "nvidia": "libtorch/nvidia"} if real else {}
    make_package(site, "torch", version, libraries)
    (site / "torch/version.py").write_text(f"from typing import Optional\n__version__ = '{version}'\ncuda: Optional[str] = None\n")
    return site


def make_pyarrow(site):
    files = {f"pyarrow/{file.name}": f"arrow/pyarrow/{file.name}" for file in (DEPS / "arrow/pyarrow").glob("lib*.so.*")}
    version = next((DEPS / "arrow").glob("pyarrow-*.dist-info")).name.removeprefix("pyarrow-").removesuffix(".dist-info")
    make_package(site, "pyarrow", version, files)
