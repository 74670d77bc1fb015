"""Where the programs of scripts/gpu are, packing them for another machine, and running commands within a time."""
import functools
import hashlib
import importlib.util
import json
import lzma
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Name, and where a build folder has it. A packed archive has all in bin.
PROGRAMS = {"qrl-train": "qrl-train", "qrl-bench": "qrl-bench", "test_cuda_device": "tests/test_cuda_device", "test_learner": "tests/test_learner"}
PROBES = {"gpu_probes": "tests/gpu_probes"}  # minutes to build, so that only --pack does it
BUILD = ROOT / "build"
RECIPE = pathlib.Path("recipes") / "countdown_quickstart.yaml"
# What every Linux has, what the driver has, and what is too large to carry.
NOT_PACKED = re.compile(r"^(linux-vdso|ld-linux|libc|libm|libdl|librt|libutil|libpthread|libcuda|libtorch_cpu|libc10|libgomp"
                        r"|libcudart|libcupti|libcublasLt)\b")
MAX_PACKED_MB = 45
TRACE = "libqrl_trace.so"


def stop(text):
    print(f"error: {text}", file=sys.stderr)
    sys.exit(2)


def program(name):
    """The program's path, or None: of the packed archive that this file is in, else of the build folder."""
    places = (ROOT / "bin" / name, BUILD / {**PROGRAMS, **PROBES}[name])
    return next((path for path in places if path.exists()), None)


def digest():
    """Tells programs apart that one commit's working trees made."""
    return hashlib.sha256(b"".join(program(name).read_bytes() for name in PROGRAMS)).hexdigest()[:16]


def commit():
    """The commit that the scripts are of, and the programs where they were built from it."""
    packed = ROOT / "COMMIT"
    if packed.exists():
        return packed.read_text().strip()
    said = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=12"], capture_output=True, text=True)
    return said.stdout.strip() or "unknown"


# ---- packing

def make_cold_start():
    """Trains the quickstart's cold start on the CPU, unless build/gpu_cold_start has it. Returns its checkpoint."""
    folder = BUILD / "gpu_cold_start"
    done = subprocess.run([program("qrl-train"), "sft", ROOT / RECIPE, "--set", f"trainer.default_local_dir={folder}"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    made = sorted((folder / "checkpoints").glob("sft_*"), key=lambda path: int(path.name[4:]))
    if done.returncode != 0 or not made:
        stop(f"qrl-train sft: exit code {done.returncode}: {done.stderr[-500:]}")
    return made[-1]


@functools.cache
def cold_start():
    """The model folder that trainings begin from."""
    packed = ROOT / "cold_start"
    return packed if packed.exists() else make_cold_start()


def find_cuda(*names):
    """The first file of such a name in the library path, the CUDA toolkit, and python3's and LibTorch's packages; or None."""
    nvcc = pathlib.Path(shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc")
    places = [*filter(None, environment()[0]["LD_LIBRARY_PATH"].split(":")), os.environ.get("CUDA_HOME", "/usr/local/cuda"),
              nvcc.resolve().parent.parent, *(pathlib.Path(site) / "nvidia" / "cu13" for site in (ROOT / ".deps" / "libtorch", *sys.path))]
    return next((path for place in places for name in names if (path := pathlib.Path(place) / name).exists()), None)


def build_shared(source, target):
    """Builds a shared library of C where CUPTI's headers are. Returns why it was not built, or nothing."""
    if (found := find_cuda("include/cupti.h", "extras/CUPTI/include/cupti.h")) is None:
        return "no cupti.h: it comes with the CUDA toolkit (CUDA_HOME says where that is)"
    done = subprocess.run(["cc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-isystem", found.parent,
                           source, "-ldl", "-o", target], capture_output=True, text=True)
    return done.stderr[-500:] if done.returncode != 0 else ""


def build_probes():
    """Builds what only an archive has. Returns its names and places."""
    done = subprocess.run(["cmake", "--build", BUILD, "--target", *PROBES], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        stop(f"cmake --build {BUILD} --target {' '.join(PROBES)}: exit code {done.returncode}: {done.stderr[-500:]}")
    return PROBES


def gather(target, probes):
    """Copies stripped programs, their libraries except LibTorch's, scripts, recipes, and a cold start to a folder."""
    for folder in ("bin", "lib", "third_party"):
        (target / folder).mkdir(parents=True)
    for name, path in {**PROGRAMS, **probes}.items():
        if not (built := BUILD / path).exists():
            stop(f"{built}: expected a program, got none: build it with QRL_CUDA=on scripts/build --tests")
        shutil.copy2(built, target / "bin" / name)
        subprocess.run(["strip", target / "bin" / name], check=True)
        listed = subprocess.run(["ldd", built], capture_output=True, text=True).stdout
        for library, found in re.findall(r"^\s*(\S+) => (/\S+)", listed, re.M):
            if not NOT_PACKED.match(library):
                shutil.copy2(found, target / "lib" / library)
    for folder in ("scripts/gpu", "recipes", "datasets"):
        shutil.copytree(ROOT / folder, target / folder, ignore=shutil.ignore_patterns("__pycache__", "*.safetensors"))  # no fetched weights
    shutil.copy2(ROOT / "third_party" / "libtorch.txt", target / "third_party")
    shutil.copytree(make_cold_start(), target / "cold_start", ignore=lambda _, names: [
        name for name in names if name not in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "generation_config.json")])
    (target / "COMMIT").write_text(commit() + "\n")
    if why := build_shared(ROOT / "scripts" / "gpu" / "trace.c", target / "lib" / TRACE):
        stop(f"scripts/gpu/trace.c: {why}")


def pack(target):
    """Writes what `gather` gathers as a .tar.xz of at most MAX_PACKED_MB, in a folder named qrl-gpu."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.open("wb").close()
    except OSError as error:
        stop(f"--pack {target}: expected a file that can be written, got {error.strerror}")
    with tempfile.TemporaryDirectory() as name:
        gather(pathlib.Path(name) / "qrl-gpu", build_probes())
        # The programs hold the same kernels, which a window over all of them finds again.
        window = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 1 << 28}]
        with lzma.open(target, "wb", filters=window) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(pathlib.Path(name) / "qrl-gpu", "qrl-gpu")
    size_mb = target.stat().st_size / 1e6
    print(f"packed {size_mb:.1f} MB of {commit()} into {target}")
    if size_mb > MAX_PACKED_MB:
        stop(f"{target}: expected at most {MAX_PACKED_MB} MB, got {size_mb:.1f}")


# ---- running

@functools.cache
def environment():
    """Variables for our programs, with the packed libraries and then torch's in the path; and which torch that is."""
    paths = [str(ROOT / "lib")] if (ROOT / "lib").is_dir() else []
    libtorch = ROOT / ".deps" / "libtorch" / "torch" / "lib"
    torch = f"LibTorch in {libtorch}"
    if not libtorch.is_dir():
        spec = importlib.util.find_spec("torch")  # not imported: that takes seconds
        folder = pathlib.Path(spec.origin).parent if spec and spec.origin else None
        found = re.search(r"^__version__ = '(\S+)'", (folder / "version.py").read_text(), re.M) if folder else None
        version = found[1] if found else "none"
        plain, _, build = version.partition("+")
        wanted = re.search(r"^torch==(\S+)", (ROOT / "third_party" / "libtorch.txt").read_text(), re.M)[1]
        torch = f"python3's torch: {wanted} for CUDA 13 wanted, found {version}{f' at {folder}' if folder else ''}"
        if plain == wanted and build[:4] in ("", "cu13"):
            paths += [str(folder / "lib"), str(folder.parent / "nvidia" / "cu13" / "lib")]
    paths += [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(paths)}, torch


def set_words(settings):
    return [word for setting in settings for word in ("--set", setting)]


running = set()  # process groups that a Runner of any thread has started


def end_all():
    """Ends every program that is still running, with what it started."""
    for group in list(running):
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass


class OutOfTime(Exception):
    """The budget ended before a command did."""


class Runner:
    """Runs commands until a time is over and keeps what they say in a log. Threads may share it."""

    def __init__(self, budget_s, log=None):
        self.until = time.monotonic() + budget_s
        self.log, self.lock = log, threading.Lock()

    def left_s(self):
        return self.until - time.monotonic()

    def keep(self, text):
        if self.log is None:
            return
        with self.lock, open(self.log, "a") as log:
            log.write(text)

    def run(self, command, limit_s, variables=None, is_tool=False):
        """(exit code, output, seconds). Code 124: not done within limit_s, 127: not started. OutOfTime: not done when the budget ended.
        A tool has its environment untouched."""
        begin, left_s = time.monotonic(), max(1, self.left_s())
        words = [str(word) for word in command]
        env = {**(os.environ if is_tool else environment()[0]), **(variables or {})}
        with tempfile.TemporaryFile() as said:  # not a pipe, which a tool's child may hold open for ever
            try:
                process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, env=env,
                                           start_new_session=True)
            except OSError as error:
                self.keep(f"$ {' '.join(words)}\n{error}\n")
                return 127, str(error), 0.0
            running.add(process.pid)
            try:
                code, late = process.wait(min(limit_s, left_s)), ""
            except subprocess.TimeoutExpired:
                code, late = 124, f"\nnot done in {min(limit_s, left_s):.0f} s"
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                running.discard(process.pid)
            said.seek(0)
            output = said.read().decode(errors="replace") + late
        seconds = time.monotonic() - begin
        self.keep(f"$ {' '.join(words)}\n{output}\n# exit code {code} after {seconds:.1f} s\n")
        if late and left_s < limit_s:
            raise OutOfTime(f"the budget ended {seconds:.0f} s after it began")
        return code, output, seconds


def why(code, output):
    """Why a command failed, in one line: its error where it names one, else what it said last."""
    lines = [line for line in output.splitlines() if line.strip()]
    named = [line for line in lines if line.startswith("error: ")]
    return f"exit code {code}: {(named[-1] if named else ' '.join(' '.join(lines).split())[-300:])[:400]}"


def objects(output):
    """The JSON objects among the lines of an output, without one that was cut off."""
    return [json.loads(line) for line in output.splitlines() if line.startswith('{"') and line.endswith("}")]
