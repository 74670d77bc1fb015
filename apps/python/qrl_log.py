#!/usr/bin/env python3
"""Sends the metrics of a run to Weights & Biases or MLflow while it trains.

    python3 qrl_log.py wandb|mlflow RUN [--project NAME] [--name NAME] [--once]

RUN is a run folder. Needs a Python with wandb or mlflow. Follows metrics.jsonl until the run ends: no process holds its lock, and
no new row came for ten seconds. Each start of this script sends a row once; a row that a resume wrote again is skipped.

--once  send the rows that exist, and exit
exit: 0; 2 bad arguments, no such run, or the module is missing
"""
import argparse
import importlib
import json
import pathlib
import sys
import time


def new_rows(file, position):
    """Whole rows behind a byte of the file, and the byte behind them. A file that became shorter is read from its start."""
    if not file.exists():
        return [], 0
    with open(file, "rb") as source:
        source.seek(position if position <= file.stat().st_size else 0)
        start, text = source.tell(), source.read()
    end = text.rfind(b"\n") + 1
    return [json.loads(line) for line in text[:end].splitlines() if line.strip()], start + end


def is_running(run):
    """Whether a process holds the run's lock. /proc/locks shows it; trying the lock could stop a run that starts just now."""
    lock = run / ".lock"
    return lock.exists() and any(f":{lock.stat().st_ino} " in line for line in open("/proc/locks", encoding="utf-8") if "FLOCK" in line)


def sender(service, run, project, name):
    """A function of (step, metrics)."""
    module = importlib.import_module(service)
    if service == "wandb":
        logger = module.init(project=project, name=name, dir=str(run))
        return lambda step, metrics: logger.log(metrics, step=step)
    module.set_experiment(project)
    module.start_run(run_name=name)
    # MLflow's names hold no "@"
    return lambda step, metrics: module.log_metrics({key.replace("@", "_at_"): value for key, value in metrics.items()}, step=step)


def follow(run, send, once, wait_s=2.0, patience_s=10.0):
    position, sent, idle_s = 0, -1, 0.0
    while True:
        rows, position = new_rows(run / "metrics.jsonl", position)
        for row in rows:
            metrics = {key: value for key, value in row.items() if key != "step" and isinstance(value, (int, float))}
            if metrics and row["step"] > sent:
                send(row["step"], metrics)
                sent = row["step"]
        idle_s = 0.0 if rows else idle_s + wait_s
        if once or (idle_s >= patience_s and not is_running(run)):
            return
        time.sleep(wait_s)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("service", choices=("wandb", "mlflow"))
    parser.add_argument("run", metavar="RUN", type=pathlib.Path)
    parser.add_argument("--project", default="qrl-train")
    parser.add_argument("--name")
    parser.add_argument("--once", action="store_true")
    args = parser.parse_args()
    if not args.run.is_dir():
        parser.error(f"RUN: expected a run folder, got {str(args.run)!r}")
    try:
        send = sender(args.service, args.run, args.project, args.name or args.run.resolve().name)
    except ImportError as error:
        parser.error(f"{args.service} is not in this Python ({sys.executable}): {error}")
    follow(args.run, send, args.once)
    return 0


if __name__ == "__main__":
    sys.exit(main())
