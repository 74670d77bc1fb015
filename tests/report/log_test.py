#!/usr/bin/env python3
"""apps/python/qrl_log.py with stand-ins for wandb and mlflow: what is sent, what is not, and how it ends.

usage: log_test.py
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "apps/python/qrl_log.py"
STAND_INS = {
    "wandb": """
import json, sys
class Run:
    def log(self, metrics, step):
        print(json.dumps(["log", step, metrics]))
def init(project, name, dir):
    print(json.dumps(["init", project, name]))
    return Run()
""",
    "mlflow": """
import json
def set_experiment(name): print(json.dumps(["experiment", name]))
def start_run(run_name): print(json.dumps(["run", run_name]))
def log_metrics(metrics, step): print(json.dumps(["log", step, metrics]))
""",
}
ROWS = [{"step": 0, "val/countdown/mean@8": 0.25, "mismatch/k3_kl": None}, {"step": 1, "critic/rewards/mean": 0.5},
        {"step": 1, "changed_on_resume": {"optim.lr": ["1", "2"]}}, {"step": 1, "critic/rewards/mean": 0.75},
        {"step": 2, "critic/rewards/mean": 1.0}]


def call(folder, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(folder / "modules")}
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], env=environment, capture_output=True, text=True, timeout=60)


def check(what, found, wanted):
    if found != wanted:
        sys.exit(f"{what}: expected {wanted}, got {found}")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "modules").mkdir()
        run = folder / "my_run"
        run.mkdir()
        text = "".join(json.dumps(row) + "\n" for row in ROWS) + '{"step": 3, "critic/rew'
        (run / "metrics.jsonl").write_text(text, encoding="utf-8")

        missing = call(folder, "wandb", str(run), "--once")
        check("exit without the module", missing.returncode, 2)
        check("its message", "wandb is not in this Python" in missing.stderr, True)
        for service, source in STAND_INS.items():
            (folder / "modules" / f"{service}.py").write_text(source, encoding="utf-8")
        check("exit without a run", call(folder, "wandb", str(folder / "none"), "--once").returncode, 2)

        sent = [json.loads(line) for line in call(folder, "wandb", str(run), "--once").stdout.splitlines()]
        check("wandb", sent, [["init", "qrl-train", "my_run"], ["log", 0, {"val/countdown/mean@8": 0.25}],
                              ["log", 1, {"critic/rewards/mean": 0.5}], ["log", 2, {"critic/rewards/mean": 1.0}]])
        sent = [json.loads(line) for line in call(folder, "mlflow", str(run), "--once", "--project", "p", "--name", "n").stdout.splitlines()]
        check("mlflow", sent[:3], [["experiment", "p"], ["run", "n"], ["log", 0, {"val/countdown/mean_at_8": 0.25}]])

        # Live: it ends by itself once no row comes and nobody holds the lock, with the row that came meanwhile.
        live = subprocess.Popen([sys.executable, "-u", str(SCRIPT), "wandb", str(run)], env={**os.environ, "PYTHONPATH": str(folder / "modules")},
                                stdout=subprocess.PIPE, text=True)
        for _ in range(4):
            live.stdout.readline()
        with open(run / "metrics.jsonl", "a", encoding="utf-8") as file:
            file.write('ards/mean": 0.125}\n')
        check("the row that came", json.loads(live.stdout.readline()), ["log", 3, {"critic/rewards/mean": 0.125}])
        check("exit", live.wait(timeout=40), 0)


if __name__ == "__main__":
    main()
