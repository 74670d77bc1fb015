"""Claims about runs of the quickstart: one line each, and the runs themselves, which are made once.

A library of scripts/accept/check_losses and scripts/accept/check_adapters, not a command.
"""
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))
import metrics

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECIPE = ROOT / "recipes" / "countdown_quickstart.yaml"
RESULT = re.compile(r"^held-out countdown mean@8: (\d\.\d{3}) -> (\d\.\d{3})$", re.M)
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
        self.program, self.steps = str(pathlib.Path(options.program).resolve()), options.steps
        self.work = pathlib.Path(options.work or tempfile.mkdtemp(prefix=f"{name}_")).resolve()
        self.work.mkdir(parents=True, exist_ok=True)
        print(f"runs go to {self.work}", flush=True)

    def execute(self, name, arguments, program=None):
        """Standard output of the program; an error ends this script with what it said."""
        log = self.work / f"{name}.txt"
        done = subprocess.run([str(program or self.program), *map(str, arguments)], capture_output=True, text=True, check=False)
        log.write_text(done.stdout + done.stderr)
        if done.returncode != 0:
            sys.exit(f"{name}: exit code {done.returncode}; see {log}")
        return done.stdout

    def cold_start(self, seed):
        folder = self.work / f"sft-seed{seed}"
        self.execute(f"sft-seed{seed}", ["sft", RECIPE, *sets([f"trainer.seed={seed}", f"trainer.default_local_dir={folder}"])])
        return max((folder / "checkpoints").glob("sft_*"), key=lambda path: int(path.name[4:]))

    def train(self, name, seed, settings, cold_start=None):
        """(scores before and after, folder of the run). The cold start is the seed's own unless one is given."""
        folder = self.work / f"{name}-seed{seed}"
        common = [f"trainer.seed={seed}", f"trainer.default_local_dir={folder}", f"sft.from={cold_start or self.cold_start(seed)}",
                  f"trainer.total_training_steps={self.steps}", f"trainer.save_freq={self.steps}"]
        scores = RESULT.search(self.execute(f"{name}-seed{seed}", [RECIPE, *sets([*common, *settings])]))
        if scores is None:
            sys.exit(f"{name}: no held-out score in its output")
        return [float(score) for score in scores.groups()], folder


def sets(settings):
    """The arguments that set keys of a recipe."""
    return [word for setting in settings for word in ("--set", setting)]


def mean_of(folder, name):
    """Mean over the steps of a metric, or of the sum of those that begin with the name."""
    sums = [sum(value for key, value in row.items() if key.startswith(name) and value is not None)
            for row in metrics.read_rows(folder / "metrics.jsonl") if any(key.startswith(name) for key in row)]
    return statistics.fmean(sums) if sums else 0.0
