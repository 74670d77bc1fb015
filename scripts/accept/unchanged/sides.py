"""The two programs: built in git worktrees, or given; and what the base's left, kept by program and processor."""
import collections
import contextlib
import fcntl
import hashlib
import inspect
import json
import os
import pathlib
import platform
import shutil
import subprocess
import tempfile
import time

import cases
import results
import runner
from runner import Failed, Runner

ROOT = pathlib.Path(__file__).resolve().parents[3]
HOME = ROOT / "build-unchanged"  # ignored by git, as every build-*

# How cases are run and what is kept of them, at this process's start: what the base left under other code is made anew.
HOW = inspect.getsource(runner) + inspect.getsource(results) + inspect.getsource(cases).partition("\ndef ")[2]

# `tree`: sources whose recipes are the program's own; `build`: its build folder, None where the program was given.
Side = collections.namedtuple("Side", "name program tree build")


class CannotStart(Exception):
    """Something is missing that only the caller can give: exit code 2."""


def git(*arguments, folder=ROOT, env=None):
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, env=env)
    if done.returncode != 0:
        raise CannotStart(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def commit_of(name):
    try:
        return git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    except CannotStart:
        raise CannotStart(f"--base: expected a commit of this repository, got {name!r}") from None


def snapshot():
    """A commit of the tree as it is, changed and new files too, which no branch names."""
    with tempfile.TemporaryDirectory() as folder:
        index = pathlib.Path(folder) / "index"
        shutil.copy(ROOT / git("rev-parse", "--git-path", "index"), index)
        env = {**os.environ, "GIT_INDEX_FILE": str(index)}
        git("add", "--all", env=env)
        git("rm", "-r", "--quiet", "--cached", "--ignore-unmatch", ".deps", env=env)  # a link is not what .gitignore names
        tree = git("write-tree", env=env)
    if tree == git("rev-parse", "HEAD^{tree}"):
        return git("rev-parse", "HEAD")
    who = ("-c", "user.name=check_unchanged", "-c", "user.email=check_unchanged@localhost")
    return git(*who, "commit-tree", tree, "-p", "HEAD", "-m", "The tree that check_unchanged builds")


def checked_out(folder, commit):
    """The worktree `folder` at `commit`, without files of an earlier one."""
    if not (folder / ".git").exists():
        shutil.rmtree(folder, ignore_errors=True)
        git("worktree", "prune")
        folder.parent.mkdir(parents=True, exist_ok=True)
        git("worktree", "add", "--force", "--detach", str(folder), commit)
    elif git("rev-parse", "HEAD", folder=folder) != commit:
        git("checkout", "--quiet", "--force", "--detach", commit, folder=folder)
    git("clean", "--quiet", "--force", "-d", "--exclude=.deps", folder=folder)
    if not (folder / ".deps").exists():
        if not (ROOT / ".deps").exists():
            raise CannotStart(f"{ROOT}/.deps: expected LibTorch there, got nothing; run scripts/setup")
        (folder / ".deps").symlink_to((ROOT / ".deps").resolve())


def build(name, folder, commit, with_bench):
    """Builds qrl-train of `commit` in `folder`, qrl-bench too `with_bench` where there is such a target."""
    checked_out(folder, commit)
    env = {"CCACHE_BASEDIR": str(folder), "CCACHE_NOHASHDIR": "1", **os.environ}  # one cache for all worktrees
    log = HOME / f"{name}.log"
    log.parent.mkdir(exist_ok=True)

    def make(*command):
        with open(log, "a") as file:
            return subprocess.run(command, cwd=folder, env=env, stdout=file, stderr=subprocess.STDOUT).returncode == 0

    log.unlink(missing_ok=True)
    options = ["-DQRL_TESTS=OFF", "-DQRL_CUDA=off", "-DQRL_MPI=auto"]
    done = make("cmake", "--preset", "release", *options)
    targets = ["qrl-train"]
    if done and with_bench:
        known = subprocess.run(["ninja", "-C", "build", "-t", "query", "qrl-bench"], cwd=folder, capture_output=True)
        targets += ["qrl-bench"] if known.returncode == 0 else []
    if not done or not make("cmake", "--build", "build", "--parallel", str(os.cpu_count()), "--target", *targets):
        raise CannotStart(f"{name}: expected a build, got errors:\n{log.read_text()[-3000:]}")
    return Side(name, folder / "build" / "qrl-train", folder, folder / "build")


@contextlib.contextmanager
def locked(folder, on_wait):
    """Holds the folder's lock; `on_wait` is given the reason when another process has it."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait(f"waiting for another check_unchanged in {folder}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def built_base(store, commit, with_bench):
    return build("base", store / f"base-{commit[:12]}", commit, with_bench)


def built_head(with_bench):
    return build("head", HOME / "head", snapshot(), with_bench)


def given_head(program):
    """A program that was built already; its benchmarks are looked for beside it."""
    program = pathlib.Path(program).resolve()
    if not os.access(program, os.X_OK) or program.is_dir():
        raise CannotStart(f"--program: expected a program, got {str(program)!r}")
    return Side("head", program, ROOT, program.parent)


def processor():
    """What the bits of a program may depend on besides itself: name and instruction sets of the processor."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        return "\n".join(line for line in dict.fromkeys(lines) if line.startswith(("model name", "flags")))
    except OSError:
        return platform.processor()


def digest(*texts):
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def data_folder():
    """The shared data, None where there is none; a case that needs it then says so."""
    folder = pathlib.Path(os.environ.get("QRL_TEST_DATA", ROOT.parent / "shared" / "data"))
    return folder.resolve() if (folder / "verifier").is_dir() else None


class Base:
    """The base's fixtures and results. Each is made once and kept in `store` under the commit, the program's hash and the
    processor; a case's name is kept with a hash of what the case does, so that a changed case is made anew."""

    def __init__(self, side, store, commit, data, say):
        self.side, self.store, self.data, self.say = side, store, data, say
        key = f"{commit[:12]}-{results.sha256_of(side.program)[:12]}-{digest(processor())[:8]}"
        self.folder = store / "results" / key
        self.fixtures = self.folder / "fixtures"
        self.fixtures.mkdir(parents=True, exist_ok=True)

    def runner(self, name):
        return runner_of(self.side, self, name)

    def need_fixture(self, name):
        stamp = self.fixtures / f"{name}.json"
        made_by = digest(repr(cases.FIXTURES[name]))
        if stamp.exists() and json.loads(stamp.read_text()) == made_by:
            return
        for needed in sorted(other for other in cases.FIXTURES
                             if any(f"fixtures/{other}/" in one for one in cases.FIXTURES[name][2])):
            self.need_fixture(needed)
        self.say(f"base: making {name}")
        stamp.unlink(missing_ok=True)
        shutil.rmtree(self.fixtures / name, ignore_errors=True)
        made_in = self.runner(f"fixture-{name}")
        shutil.move(cases.written(made_in, name), self.fixtures / name)
        made_in.remove()
        stamp.write_text(json.dumps(made_by))

    def result(self, name, case):
        """The folder of the case's results and the seconds it took; makes both, and the case's fixtures, where they are not
        there."""
        with locked(self.store, self.say):
            for needed in sorted(cases.fixtures_of(case)):
                self.need_fixture(needed)
            return self.kept_result(name, case)

    def kept_result(self, name, case):
        does = repr(case) if isinstance(case, cases.Training) else case.run.__name__
        made_of = [repr(cases.FIXTURES[one]) for one in sorted(cases.fixtures_of(case))]
        folder = self.folder / "cases" / f"{file_name(name)}-{digest(does, HOW, str(self.data), *made_of)}"
        if not (folder / "seconds").exists():
            self.say(f"base: {name}")
            shutil.rmtree(folder, ignore_errors=True)
            seconds = run_case(self.runner(name), case, folder / "result")
            (folder / "seconds").write_text(f"{seconds:.1f}")
        return folder / "result", float((folder / "seconds").read_text())


def file_name(name):
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in name)


def runner_of(side, base, name):
    folder = HOME / "work" / side.name / file_name(name)
    return Runner(side.program, folder, base.side.tree, side.tree, base.fixtures, base.data)


def run_case(run_in, case, out):
    """Runs a case by the Runner `run_in` and leaves its results in the new folder `out`. Returns the seconds it took. The
    Runner's folder stays only where the case failed."""
    shutil.rmtree(out, ignore_errors=True)
    results.empty_folder(out)
    start = time.monotonic()
    try:
        cases.execute(case, run_in, out)
    except Failed as error:
        raise Failed(f"{error} (in {run_in.folder})") from error
    seconds = time.monotonic() - start
    run_in.remove()
    return seconds
