"""Claims about runs of the program: one line each, and the runs themselves, which are made once.

A library of the checks of scripts/accept that train, not a command.
"""
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))
import metrics

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECIPE = ROOT / "recipes" / "countdown_quickstart.yaml"
RESULT = re.compile(r"^held-out \w+ mean@8: (\d\.\d{3}) -> (\d\.\d{3})$", re.M)
# The defaults of 0.2, which the figures of docs/ are of; a run's settings override them.
LEARNER = ["quant.learner.forward=bf16", "rollout.bitwise=false"]
failed = False


def check(holds, text):
    """Prints the claim; a script whose claims do not all hold exits with exit_code()."""
    global failed
    failed |= not holds
    print(("ok    " if holds else "FAILS ") + text, flush=True)


def exit_code():
    return 1 if failed else 0


class Runs:
    """Runs of the program in one folder, which a finished one is only read from."""

    def __init__(self, options, name):
        self.program, self.steps = str(pathlib.Path(options.program).resolve()), getattr(options, "steps", None)
        if not os.access(self.program, os.X_OK):
            sys.exit(f"{name}: --program: expected the program, got {self.program}: build it (scripts/build)")
        self.work = pathlib.Path(options.work or tempfile.mkdtemp(prefix=f"{name}_")).resolve()
        self.work.mkdir(parents=True, exist_ok=True)
        print(f"runs go to {self.work}", flush=True)

    def execute(self, name, arguments, program=None, launcher=(), exit_code=0):
        """Standard output of the program; another exit code ends this script with 2 and what it said."""
        log = self.work / f"{name}.txt"
        done = subprocess.run([*launcher, str(program or self.program), *map(str, arguments)], capture_output=True, text=True, check=False)
        log.write_text(done.stdout + done.stderr)
        if done.returncode != exit_code:
            print(f"{name}: exit code {done.returncode}, expected {exit_code}; see {log}\n{done.stderr[-2000:]}", file=sys.stderr)
            sys.exit(2)
        return done.stdout

    def result(self, name, settings, launcher=(), recipe=RECIPE, exit_code=0):
        """(scores before and after or None, seconds) of a run in the folder of its name."""
        start = time.monotonic()
        said = self.execute(name, [recipe, *sets([f"trainer.default_local_dir={self.work / name}", *LEARNER, *settings])], launcher=launcher, exit_code=exit_code)
        found = RESULT.findall(said)
        return [float(score) for score in found[-1]] if found else None, time.monotonic() - start

    def cold_start(self, seed):
        folder = self.work / f"sft-seed{seed}"
        self.execute(f"sft-seed{seed}", ["sft", RECIPE, *sets([f"trainer.seed={seed}", f"trainer.default_local_dir={folder}"])])
        return last_checkpoint(folder, "sft")

    def train(self, name, seed, settings, cold_start=None):
        """(scores before and after, folder of the run). The cold start is the seed's own unless one is given."""
        folder = self.work / f"{name}-seed{seed}"
        common = [f"trainer.seed={seed}", f"sft.from={cold_start or self.cold_start(seed)}", f"trainer.total_training_steps={self.steps}",
                  f"trainer.save_freq={self.steps}"]
        scores, _ = self.result(f"{name}-seed{seed}", [*common, *settings])
        if scores is None:
            sys.exit(f"{name}: no held-out score in its output")
        return scores, folder


def last_checkpoint(folder, kind):
    """The newest checkpoint of a run folder; kind: sft or step."""
    return max((folder / "checkpoints").glob(f"{kind}_*"), key=lambda path: int(path.name.partition("_")[2]))


def sets(settings):
    """The arguments that set keys of a recipe."""
    return [word for setting in settings for word in ("--set", setting)]


def mean_of(folder, name):
    """Mean over the steps of a metric, or of the sum of those that begin with the name."""
    sums = [sum(value for key, value in row.items() if key.startswith(name) and value is not None)
            for row in metrics.read_rows(folder / "metrics.jsonl") if any(key.startswith(name) for key in row)]
    return statistics.fmean(sums) if sums else 0.0
