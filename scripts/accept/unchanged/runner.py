"""Runs one program in a folder of its own, by paths that are the same for every program."""
import concurrent.futures
import os
import pathlib
import shutil
import subprocess

import results

THREADS = 2  # of a process that runs alone; each of several ranks has one. Bits depend on their number.
TIMEOUT_S = 3600
MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "-np")


class Failed(Exception):
    """A program that did not do what a case requires."""


def environment():
    """This process's, without settings of qrl-train that would make the two programs differ from what users run."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("QRL_")}
    return {**kept, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


class Runner:
    """`program` in the new folder `folder`. Its `recipes`, `datasets` and `tests` are those of `tree`, `own_recipes`
    those of the program's own sources, `data` the shared data and `fixtures` what the base wrote."""

    def __init__(self, program, folder, tree, own_tree, fixtures, data):
        shutil.rmtree(folder, ignore_errors=True)
        self.program, self.folder = program, results.empty_folder(folder)
        links = {name: tree / name for name in ("recipes", "datasets", "tests")}
        links |= {"fixtures": fixtures, "own_recipes": own_tree / "recipes"}
        if data is not None:
            links["data"] = data
        for name, target in links.items():
            (self.folder / name).symlink_to(pathlib.Path(target).resolve())

    def run(self, *arguments, stdin=b"", ranks=1):
        """The program's exit code and what it said, as subprocess gives them."""
        launcher = [*MPIRUN, str(ranks)] if ranks > 1 else []
        try:
            return subprocess.run([*launcher, str(self.program), *map(str, arguments)], cwd=self.folder, input=stdin,
                                  capture_output=True, env=environment(), timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"not done after {TIMEOUT_S} s: qrl-train {' '.join(map(str, arguments))}") from error

    def call(self, *arguments, **how):
        """Standard output of the program; raises Failed when its exit code is not 0."""
        done = self.run(*arguments, **how)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
            raise Failed(f"exit code {done.returncode} of qrl-train {' '.join(map(str, arguments))}: {' '.join(said[-2:])}")
        return done.stdout

    def each(self, do, items):
        """What do(item) gives for every item, THREADS at a time: for commands that take no longer than the program's start."""
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(do, items))

    def train(self, recipe, settings, run="run", ranks=1, command=(), arguments=()):
        """Trains into the folder `run`; returns its path and standard output."""
        threads = 1 if ranks > 1 else THREADS
        flags = [f"trainer.default_local_dir={run}", f"trainer.threads={threads}", *settings]
        words = [word for setting in flags for word in ("--set", setting)]
        said = self.call(*command, recipe, *words, *arguments, ranks=ranks)
        return self.folder / run, said

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)
