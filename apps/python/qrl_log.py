#!/usr/bin/env python3
"""Sends a run's metrics, recipe and samples to Weights & Biases, or its metrics and recipe to MLflow, while it trains.

    python3 qrl_log.py wandb|mlflow RUN [--project NAME] [--name NAME] [--once]
    python3 qrl_log.py wandb --check

RUN is a run folder. Needs a Python with wandb or mlflow. Follows metrics.jsonl until the run ends: no process holds its lock, and
no new row came for ten seconds. Each row is sent once; a row that a resume wrote again is skipped. A run with trainer.wandb: true
starts this script by itself.

W&B: a later start continues the same W&B run (RUN/wandb_run.json has its id and the last step that surely arrived). At each evaluation a table has
the held-out responses that eval.dump keeps. At step 1, at each multiple of 20 and at evaluations another has the rollouts. W&B's own
variables hold: WANDB_PROJECT, WANDB_ENTITY, WANDB_MODE=offline.

--once   send the rows that exist, and exit
--check  exit at once: with 0 if wandb is here and logged in
exit: 0; 2 bad arguments, no such run, a damaged one, the module is missing, or no login
"""
import argparse
import collections
import importlib
import json
import os
import pathlib
import secrets
import select
import sys
import time

SAMPLES_EVERY = 20  # src/report/event_texts.cpp has the same steps
MAX_SAMPLES = 64
SAMPLE_COLUMNS = ("data_source", "prompt_id", "sample", "prompt", "response", "ground_truth", "score", "reward", "reason")
WAIT_S, PATIENCE_S = 2.0, 10.0
SURE_S = 60.0  # wandb hands rows on in the background; those of the last minute are sent again after a kill


class Damaged(Exception):
    """Says which line of a run folder is none of the trainer's."""


def row_of(line, file):
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict) or not isinstance(row.get("step"), int):
        raise Damaged(f"{file}: expected an object with a step in each line, got {line[:60].decode(errors='replace')!r}; delete this line")
    return row


def new_rows(file, position):
    """Whole rows behind a byte of the file, and the byte behind them. A file that became shorter is read from its start."""
    if not file.exists():
        return [], 0
    with open(file, "rb") as source:
        source.seek(position if position <= file.stat().st_size else 0)
        start, text = source.tell(), source.read()
    end = text.rfind(b"\n") + 1
    return [row_of(line, file) for line in text[:end].split(b"\n") if line.strip()], start + end


def is_running(run):
    """Whether a process holds the run's lock. /proc/locks shows it; trying the lock could stop a run that starts just now."""
    lock = run / ".lock"
    return lock.exists() and any(f":{lock.stat().st_ino} " in line for line in open("/proc/locks", encoding="utf-8") if "FLOCK" in line)


def scalar(text):
    try:
        return json.loads(text)
    except ValueError:
        return text


def recipe(run):
    """{section: {key: value}} of config.yaml, which has one key a line and the value's origin as comment."""
    file, root = run / "config.yaml", {}
    sections = [(-1, root)]
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else []:
        plain = line.split(" #")[0].rstrip() if '"' not in line else line[:line.rfind('"') + 1]
        indent, (name, colon, value) = len(plain) - len(plain.lstrip()), plain.strip().partition(":")
        if not colon or name.startswith("#"):
            continue
        while sections[-1][0] >= indent:
            sections.pop()
        if value.strip():
            sections[-1][1][name] = scalar(value.strip())
        else:
            sections.append((indent, sections[-1][1].setdefault(name, {})))
    return root


def flat(tree, before=""):
    """{"optim.lr": value} of nested dicts."""
    pairs = {}
    for key, value in tree.items():
        pairs |= flat(value, f"{before}{key}.") if isinstance(value, dict) else {before + key: value}
    return pairs


def samples(file):
    """Rows of a table of SAMPLE_COLUMNS, at most MAX_SAMPLES; none without the file."""
    rows = []
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else []:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        rows.append([value if isinstance(value := row.get(name), (int, float, str, type(None))) else json.dumps(value) for name in SAMPLE_COLUMNS])
        if len(rows) == MAX_SAMPLES:
            break
    return rows


def tables(run, step):
    """{name: rows} of a step's responses."""
    held_out = samples(run / f"validation/step_{step}.jsonl")
    wants_rollouts = bool(held_out) or step == 1 or step % SAMPLES_EVERY == 0
    rollouts = samples(run / f"rollouts/step_{step}.jsonl") if wants_rollouts else []
    return {name: rows for name, rows in (("samples/held_out", held_out), ("samples/rollouts", rollouts)) if rows}


def login_fault(wandb):
    """Why W&B would not take a run; None where it would, or where it writes to a folder alone."""
    try:
        mode = wandb.setup().settings.mode
    except Exception as error:  # pydantic's, of several lines
        return f"wandb does not start: {' '.join(str(error).split())[:200]}; check the variables WANDB_…"
    if mode in ("offline", "dryrun", "disabled"):
        return None
    try:
        is_in = wandb.login(prompt=False)
    except TypeError:  # before wandb 0.30
        is_in = bool(wandb.api.api_key)
    except wandb.Error as error:
        return f"wandb's login fails: {error}"
    return None if is_in else "wandb has no login: run `wandb login`, set WANDB_API_KEY, or set WANDB_MODE=offline"


class Wandb:
    """The W&B run of a run folder: the same one at each start."""

    def __init__(self, run, project, name, is_child):
        self.module = importlib.import_module("wandb")
        self.run, self.file = run, run / "wandb_run.json"
        try:
            self.state = json.loads(self.file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            self.state = None
        if not isinstance(self.state, dict) or not isinstance(self.state.get("id"), str) or not isinstance(self.state.get("step"), int):
            self.state = {"id": secrets.token_hex(4), "step": -1}  # none yet, or damaged
        self.sent, self.young = self.state["step"], collections.deque()  # young: (time, step) of rows that a kill could lose
        self.logger = self.module.init(project=project or os.environ.get("WANDB_PROJECT", "qrl-train"), name=name, dir=str(run),
                                       id=self.state["id"], resume="allow", config=recipe(run))
        self.logger.config.update(recipe(run), allow_val_change=True)  # keys that a resume changed
        self.save()
        if is_child:
            place = f"offline, in {run}/wandb: `wandb sync` sends it" if self.logger.offline else self.logger.url or "disabled by WANDB_MODE"
            print(f"W&B         {place}", file=sys.stderr, flush=True)

    def save(self):
        part = self.file.with_suffix(".part")
        part.write_text(json.dumps(self.state), encoding="utf-8")
        os.replace(part, self.file)

    def send(self, step, metrics):
        made = {name: self.module.Table(columns=list(SAMPLE_COLUMNS), data=rows) for name, rows in tables(self.run, step).items()}
        self.logger.log({**metrics, **made}, step=step)
        self.sent = step
        self.young.append((time.monotonic(), step))
        while self.young[0][0] < time.monotonic() - SURE_S:
            self.state["step"] = self.young.popleft()[1]
            self.save()

    def finish(self):
        self.logger.finish()
        self.state["step"] = self.sent
        self.save()


class Mlflow:
    sent = -1

    def __init__(self, run, project, name):
        self.module = importlib.import_module("mlflow")
        self.module.set_experiment(project or "qrl-train")
        self.module.start_run(run_name=name)
        pairs = list(flat(recipe(run)).items())
        for first in range(0, len(pairs), 100):  # its limit of a call
            self.module.log_params({key: str(value)[:500] for key, value in pairs[first:first + 100]})

    def send(self, step, metrics):
        # MLflow's names hold no "@"
        self.module.log_metrics({key.replace("@", "_at_"): value for key, value in metrics.items()}, step=step)
        self.sent = step

    def finish(self):
        pass


def wait(is_child):
    """Waits a while; True where the trainer has closed this script's input."""
    if not is_child:
        time.sleep(WAIT_S)
        return False
    readable, _, _ = select.select([sys.stdin], [], [], WAIT_S)
    return bool(readable)


def follow(run, service, once, is_child):
    position, idle_s, has_ended = 0, 0.0, once
    while True:
        rows, position = new_rows(run / "metrics.jsonl", position)
        for row in rows:
            metrics = {key: value for key, value in row.items() if key != "step" and isinstance(value, (int, float))}
            if metrics and row["step"] > service.sent:
                service.send(row["step"], metrics)
        idle_s = 0.0 if rows else idle_s + WAIT_S
        if has_ended or (not is_child and idle_s >= PATIENCE_S and not is_running(run)):
            return service.finish()
        has_ended = wait(is_child)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("service", choices=("wandb", "mlflow"))
    parser.add_argument("run", metavar="RUN", type=pathlib.Path, nargs="?")
    parser.add_argument("--project")
    parser.add_argument("--name")
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)  # of a run: follows until its input is closed
    args = parser.parse_args()
    if args.run is None and not args.check:
        parser.error("RUN: expected a run folder, got none")
    if args.run is not None and not args.run.is_dir():
        parser.error(f"RUN: expected a run folder, got {str(args.run)!r}")
    if args.child:  # one line on the terminal, which is the trainer's
        os.environ.setdefault("WANDB_SILENT", "true")
        os.environ.setdefault("WANDB_CONSOLE", "off")
    try:
        module = importlib.import_module(args.service)
    except ImportError as error:
        parser.exit(2, f"{args.service} is not in this Python ({sys.executable}): {error}\n")
    if args.service == "wandb" and (args.check or args.child) and (fault := login_fault(module)):
        parser.exit(2, fault + "\n")
    if args.check:
        return 0
    name = args.name or (None if "WANDB_NAME" in os.environ and args.service == "wandb" else args.run.resolve().name)
    service = Wandb(args.run, args.project, name, args.child) if args.service == "wandb" else Mlflow(args.run, args.project, name)
    try:
        follow(args.run, service, args.once, args.child)
    except Damaged as error:
        service.finish()
        parser.exit(2, f"{error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
