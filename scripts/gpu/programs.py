"""What scripts/gpu/check and scripts/gpu/first_contact share: the packed programs, running them within a time, what is noted."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAMS = {"qrl-train": "qrl-train", "qrl-bench": "qrl-bench", "test_cuda_device": "tests/test_cuda_device", "test_learner": "tests/test_learner",
            "gpu_probe": "cuda/gpu_probe"}  # name, and where a build folder has it
# What every Linux has, what the driver brings, and what is too large to carry.
NOT_PACKED = re.compile(r"^(linux-vdso|ld-linux|libc|libm|libdl|librt|libpthread|libcuda|libtorch_cpu|libc10|libgomp"
                        r"|libcudart|libcupti|libcublasLt)\b")
MAX_PACKED_MIB = 40
MAX_LOG_BYTES = 8 << 20  # one log


def pack(target):
    """Writes the stripped programs and the libraries they need, except LibTorch's, as a .tar.xz."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name) / "packed"
        gather(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(target, "w:xz", preset=3) as archive:
            archive.add(folder, "packed")
    size_mib = target.stat().st_size / 2**20
    print(f"packed {size_mib:.0f} MiB into {target}")
    if size_mib > MAX_PACKED_MIB:
        sys.exit(f"{target}: expected at most {MAX_PACKED_MIB} MiB, got {size_mib:.0f}")


def count_instructions(target):
    """scripts/gpu/kernels --json into a file: what the kernels of build/cuda are made of, for estimates of their speed."""
    with open(target, "w") as out:
        done = subprocess.run([ROOT / "scripts" / "gpu" / "kernels", "--json"], stdout=out, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"scripts/gpu/kernels --json: exit code {done.returncode}: {done.stderr[-500:]}")


def gather(target):
    (target / "lib").mkdir(parents=True, exist_ok=True)
    count_instructions(target / "kernels.json")
    for name, path in PROGRAMS.items():
        program = ROOT / "build" / path
        if not program.exists():
            sys.exit(f"{program} is missing: build with QRL_CUDA=on scripts/build --tests")
        shutil.copy2(program, target / name)
        subprocess.run(["strip", target / name], check=True)
        listed = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
        for library, found in re.findall(r"^\s*(\S+) => (/\S+)", listed, re.M):
            if not NOT_PACKED.match(library):
                shutil.copy2(found, target / "lib" / library)


def wanted_torch():
    return re.search(r"^torch==(\S+)", (ROOT / "third_party" / "libtorch.txt").read_text(), re.M)[1]


def environment(folder):
    """Where the programs find their libraries: the packed ones, then torch's; and which torch that is."""
    paths = [str(folder / "lib")] if (folder / "lib").is_dir() else []
    libtorch = ROOT / ".deps" / "libtorch" / "torch" / "lib"
    torch = f"LibTorch in {libtorch}"
    if not libtorch.is_dir():
        asked = subprocess.run(["python3", "-c", "import torch; print(torch.__version__, torch.__path__[0])"],
                               capture_output=True, text=True)
        version, _, path = asked.stdout.strip().partition(" ")
        plain, _, build = version.partition("+")
        fits = plain == wanted_torch() and build[:4] in ("", "cu13")
        torch = f"python3's torch: {wanted_torch()} for CUDA 13 wanted, found {f'{version} at {path}' if version else 'none'}"
        if fits:
            site = pathlib.Path(path).parent
            paths += [str(pathlib.Path(path) / "lib"), str(site / "nvidia" / "cu13" / "lib")]
    paths += [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(paths)}, torch


class Found:
    """The programs of a packed archive or of a build folder, as attributes and with the environment they need."""

    def __init__(self, where, work):
        folder = where.resolve()
        if folder.is_file():
            with tarfile.open(folder) as archive:
                archive.extractall(work, filter="data")
            folder = work / "packed"
        found = {name: next((path for path in (folder / name, folder / path) if path.exists()), None)
                 for name, path in PROGRAMS.items()}
        missing = [name for name, path in found.items() if path is None]
        if missing:
            print(f"error: {folder}: expected {', '.join(PROGRAMS)}, got no {', '.join(missing)}: build them with "
                  "QRL_CUDA=on scripts/build --tests, or give --bin", file=sys.stderr)
            sys.exit(2)
        self.train, self.bench, self.tests, self.learner, self.probe = found.values()
        self.kernels = folder / "kernels.json"
        if not self.kernels.exists():  # a build folder
            self.kernels = work / "kernels.json"
            count_instructions(self.kernels)
        self.env, self.torch = environment(folder)


class Session:
    """Runs programs until a time is over, notes what was found and keeps it in a file."""

    def __init__(self, programs, work, budget_s, on_row=None, log=None):
        self.programs, self.work, self.log = programs, work, log
        self.env = programs.env
        work.mkdir(parents=True, exist_ok=True)
        self.until = time.monotonic() + budget_s
        self.rows, self.on_row = [], on_row or (lambda: None)
        self.left_out = False

    def left_s(self):
        return self.until - time.monotonic()

    def note(self, name, holds, what, **figures):
        """holds: True, False, or None for what was measured or could not be asked."""
        self.rows.append({"check": name, "holds": holds, "what": what, **figures})
        self.say({True: "holds  ", False: "FAILS  ", None: "       "}[holds] + f"{name}: {what}")
        self.on_row()

    def say(self, text):
        print(text, flush=True)
        self.keep(text + "\n")

    def keep(self, text):
        if self.log is None:
            return
        with open(self.log, "a") as log:
            if log.tell() + len(text) < MAX_LOG_BYTES:
                log.write(text)

    def run(self, command, limit_s, env=None):
        """(exit code, output, seconds); a command that runs out of time has code 124."""
        start = time.monotonic()
        limit_s = max(1, min(limit_s, self.left_s()))
        words = [str(word) for word in command]
        self.keep("$ " + " ".join(words) + "\n")
        try:
            process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env or self.env,
                                       start_new_session=True)
        except OSError as error:
            self.keep(f"{error}\n")
            return 127, str(error), 0.0
        late = ""
        try:
            output = process.communicate(timeout=limit_s)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # a profiler's child holds the pipe, too
            output, late = process.communicate()[0], f"\nnot done in {limit_s:.0f} s"
        code, output = 124 if late else process.returncode, output.decode(errors="replace") + late
        seconds = time.monotonic() - start
        self.keep(f"{output}\n# exit code {code} after {seconds:.1f} s\n")
        return code, output, seconds

    def figures_of(self, what, *arguments, limit_s=180):
        """A benchmark's JSON object, or None and what went wrong."""
        code, output, _ = self.run([self.programs.bench, what, "--json", *arguments], limit_s)
        found = [line for line in output.splitlines() if line.startswith('{"')]
        return (json.loads(found[-1]), "") if code == 0 and found else (None, f"exit code {code}: {output[-300:]}")

    def cases_of(self, command, limit_s, env=None):
        """(seconds, output, cases, exit code) of a run of a test program; no cases where it left no whole report."""
        junit = self.work / "cases.xml"
        junit.unlink(missing_ok=True)
        code, output, seconds = self.run([*command, "-r", "junit", "-o", junit], limit_s, env)
        try:
            found = list(xml.parse(junit).getroot().iter("testcase"))
        except (OSError, xml.ParseError):
            return seconds, output, [], code
        cases = []
        for case in found:
            bad = [*case.iter("failure"), *case.iter("error")]
            said = " ".join(f"{each.get('message', '')} {each.text or ''}".strip() for each in bad)[:2000]
            cases.append({"case": case.get("name"), "holds": not bad, "seconds": float(case.get("time", 0)),
                          **({"why": said} if bad else {})})
        return seconds, output, cases, code


def escaped(case):
    """A name that Catch2 does not take for a pattern."""
    return re.sub(r"([\\,\[\]*~\"])", r"\\\1", case)


def write_json(path, value):
    """Replaces the file at once, so that a reader never meets half of it."""
    written = path.with_name(path.name + ".tmp")
    written.write_text(json.dumps(value, indent=1) + "\n")
    written.replace(path)
