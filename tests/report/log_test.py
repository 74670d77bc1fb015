#!/usr/bin/env python3
"""Runs apps/python/qrl_log.py with fake wandb and mlflow modules, and with wandb itself in offline mode.

Checked: the values sent, a later start, kills, and the end.

usage: log_test.py      wandb: in this Python, or that of scripts/setup --tests
"""
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "apps/python")]
import made_runs  # noqa: E402 (libraries beside the tests and the script)
import qrl_log  # noqa: E402
import test_python  # noqa: E402

SCRIPT = ROOT / "apps/python/qrl_log.py"
STAND_INS = {
    "wandb": """
import json, os
class Error(Exception): pass
class Settings: mode = os.environ.get("WANDB_MODE", "online")
class Setup: settings = Settings()
def setup(): return Setup()
def login(prompt): return "WANDB_API_KEY" in os.environ
def Table(columns, data): return [columns[3], *(row[3] for row in data)]
class Run:
    url, offline = "https://there", False
    class config:
        def update(values, allow_val_change): print(json.dumps(["config", values, allow_val_change]), flush=True)
    def log(self, metrics, step):
        print(json.dumps(["log", step, metrics]), flush=True)
    def finish(self): print('["finish"]', flush=True)
def init(project, name, dir, id, resume, config):
    print(json.dumps(["init", project, name, id, resume, config]), flush=True)
    return Run()
""",
    "mlflow": """
import json
def set_experiment(name): print(json.dumps(["experiment", name]))
def start_run(run_name): print(json.dumps(["run", run_name]))
def log_params(pairs): print(json.dumps(["params", pairs]))
def log_metrics(metrics, step): print(json.dumps(["log", step, metrics]))
""",
}
ROWS = [{"step": 0, "val/countdown/mean@8": 0.25, "mismatch/k3_kl": None}, {"step": 1, "critic/rewards/mean": 0.5},
        {"step": 1, "changed_on_resume": {"optim.lr": ["1", "2"]}}, {"step": 1, "critic/rewards/mean": 0.75},
        {"step": 2, "critic/rewards/mean": 1.0}]
CONFIG = 'mode: null  # default\noptim:\n  lr: 5.0e-4  # r.yaml:2\n  betas: [0.9, 0.95]\nreward:\n  text: "a # b"  # r.yaml:4\n'
RECIPE = {"mode": None, "optim": {"lr": 5e-4, "betas": [0.9, 0.95]}, "reward": {"text": "a # b"}}


class Log(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "modules").mkdir()
        self.run_folder = self.folder / "my_run"
        self.run_folder.mkdir()
        text = "".join(json.dumps(row) + "\n" for row in ROWS) + '{"step": 3, "critic/rew'
        (self.run_folder / "metrics.jsonl").write_text(text, encoding="utf-8")
        (self.run_folder / "config.yaml").write_text(CONFIG, encoding="utf-8")

    def stand_in(self):
        for service, source in STAND_INS.items():
            (self.folder / "modules" / f"{service}.py").write_text(source, encoding="utf-8")

    def environment(self, **more):
        plain = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
        return {**plain, "PYTHONPATH": str(self.folder / "modules"), "HOME": str(self.folder), **more}

    def call(self, *arguments, python=("/usr/bin/env", "python3", "-S"), **more):
        return subprocess.run([*python, str(SCRIPT), *map(str, arguments)], env=self.environment(**more), capture_output=True, text=True, timeout=120)

    def sent(self, *arguments, **more):
        done = self.call(*arguments, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def append(self, text):
        with open(self.run_folder / "metrics.jsonl", "a", encoding="utf-8") as file:
            file.write(text)

    def test_what_is_missing_is_said(self):
        done = self.call("wandb", self.run_folder, "--once")
        self.assertEqual((done.returncode, done.stderr.startswith("wandb is not in this Python (")), (2, True), done.stderr)
        self.stand_in()
        for arguments, said in ((("wandb", self.folder / "none", "--once"), "expected a run folder, got '"), (("wandb",), "expected a run folder, got none"),
                                (("wandb", "--check"), "wandb has no login: run `wandb login`")):
            done = self.call(*arguments)
            self.assertEqual((done.returncode, said in done.stderr), (2, True), done.stderr)
        for more in ({"WANDB_API_KEY": "x"}, {"WANDB_MODE": "offline"}):
            self.assertEqual(self.call("wandb", "--check", **more).returncode, 0)

    def test_damage_is_said_in_one_line(self):
        self.stand_in()
        (self.folder / "modules/wandb.py").write_text(STAND_INS["wandb"].replace("def setup(): return Setup()", "def setup(): raise ValueError('mode\\n  bad')"))
        done = self.call("wandb", "--check", WANDB_MODE="banana")
        self.assertEqual((done.returncode, done.stderr), (2, "wandb does not start: mode bad; check the variables WANDB_…\n"))
        self.stand_in()
        for state in ("{", "[]", '{"x": 1}', '{"id": 5, "step": 1}'):
            (self.run_folder / "wandb_run.json").write_text(state)
            self.assertEqual(len(self.sent("wandb", self.run_folder, "--once")), 6, state)
        for line in ("no JSON", "[1]", '{"no step": 1}'):
            (self.run_folder / "wandb_run.json").unlink()
            (self.run_folder / "metrics.jsonl").write_text(json.dumps(ROWS[0]) + "\n" + line + "\n")
            done = self.call("wandb", self.run_folder, "--once")
            said = f"{self.run_folder}/metrics.jsonl: expected an object with a step in each line, got {line!r}; delete this line\n"
            self.assertEqual((done.returncode, done.stderr), (2, said))

    def test_a_step_is_sent_once_with_the_recipe_before(self):
        self.stand_in()
        sent = self.sent("wandb", self.run_folder, "--once")
        number = sent[0][3]
        self.assertEqual(sent, [["init", "qrl-train", "my_run", number, "allow", RECIPE], ["config", RECIPE, True],
                                ["log", 0, {"val/countdown/mean@8": 0.25}], ["log", 1, {"critic/rewards/mean": 0.5}],
                                ["log", 2, {"critic/rewards/mean": 1.0}], ["finish"]])
        self.append('ards/mean": 0.125}\n')  # a later start: the same run, the new row alone
        again = self.sent("wandb", self.run_folder, "--once")
        self.assertEqual((again[0][3], again[2:]), (number, [["log", 3, {"critic/rewards/mean": 0.125}], ["finish"]]))
        sent = self.sent("mlflow", self.run_folder, "--once", "--project", "p", "--name", "n")
        self.assertEqual(sent[:4], [["experiment", "p"], ["run", "n"], ["params", {"mode": "None", "optim.lr": "0.0005", "optim.betas": "[0.9, 0.95]",
                                    "reward.text": "a # b"}], ["log", 0, {"val/countdown/mean_at_8": 0.25}]])

    def test_samples_are_tables_at_evaluations_and_each_20_steps(self):
        self.stand_in()
        (self.run_folder / "metrics.jsonl").write_text("".join(json.dumps({"step": step, "x": 1}) + "\n" for step in range(41)))
        for step in (0, 1, 2, 20, 30):
            made_runs.write_lines(self.run_folder / f"rollouts/step_{step}.jsonl", [{"prompt": f"rollout {step}"}] * 100)
        made_runs.write_lines(self.run_folder / "validation/step_30.jsonl", [{"prompt": "held out"}])
        tables = {f"{line[1]} {name}": rows for line in self.sent("wandb", self.run_folder, "--once") if line[0] == "log"
                  for name, rows in line[2].items() if name != "x"}
        self.assertEqual({name: (rows[:2], len(rows)) for name, rows in tables.items()},
                         {f"{step} samples/rollouts": (["prompt", f"rollout {step}"], 1 + qrl_log.MAX_SAMPLES) for step in (0, 1, 20, 30)} |
                         {"30 samples/held_out": (["prompt", "held out"], 2)})

    def test_it_follows_a_run_and_ends_by_itself(self):
        """Live: it ends once no row comes and the lock is free, with the row that came meanwhile."""
        self.stand_in()
        command = [sys.executable, str(SCRIPT), "wandb", str(self.run_folder)]
        with subprocess.Popen(command, env=self.environment(), stdout=subprocess.PIPE, text=True) as live:
            for _ in range(5):
                live.stdout.readline()
            self.append('ards/mean": 0.125}\n')
            self.assertEqual(json.loads(live.stdout.readline()), ["log", 3, {"critic/rewards/mean": 0.125}])
            self.assertEqual(live.wait(timeout=60), 0)

    def test_as_a_child_it_ends_when_its_input_is_closed(self):
        self.stand_in()
        command = [sys.executable, str(SCRIPT), "wandb", str(self.run_folder), "--child"]
        with subprocess.Popen(command, env=self.environment(WANDB_API_KEY="x"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            for _ in range(5):
                child.stdout.readline()
            self.append('ards/mean": 0.125}\n')
            child.stdin.close()
            self.assertEqual([json.loads(line) for line in child.stdout], [["log", 3, {"critic/rewards/mean": 0.125}], ["finish"]])
            self.assertIn("W&B         https://there\n", child.stderr.read())
            self.assertEqual(child.wait(timeout=60), 0)

    def test_wandb_itself_offline(self):
        """Rows, recipe and tables are in the files of wandb; a kill −9 in between loses no row, and the run stays the same one."""
        if not test_python.has("wandb"):
            self.skipTest("no wandb here: scripts/setup --tests")
        run = made_runs.make_run(self.folder / "whole", 60)
        rows = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
        (run / "metrics.jsonl").write_text("".join(rows[:30]))
        command = [sys.executable, str(SCRIPT), "wandb", str(run), "--child"]
        environment = self.environment(WANDB_MODE="offline", PYTHONPATH="")
        state = run / "wandb_run.json"
        with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as killed:
            for _ in range(1200):
                if offline_records(run)[0]:
                    break
                time.sleep(0.05)
            killed.send_signal(signal.SIGKILL)
        number = json.loads(state.read_text())
        (run / "metrics.jsonl").write_text("".join(rows))
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(state.read_text()), {"id": number["id"], "step": 60})
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        steps, config, tables = offline_records(run)
        self.assertEqual(sorted(set(steps)), list(range(61)))
        self.assertEqual(config["optim"], {"lr": 5e-4})
        self.assertEqual(tables, {"0 samples/held_out", "60 samples/held_out", *(f"{step} samples/rollouts" for step in (1, 20, 40, 60))})


def offline_blocks(data):
    """Returns the records of a .wandb file: LevelDB's log in blocks of 32 KiB, behind 7 bytes. Leaves out what a kill cut off at the end."""
    block, at, record = 1 << 15, 7, b""
    while at + 7 <= len(data):
        left = block - at % block
        if left < 7:
            at += left
            continue
        _, size, kind = struct.unpack_from("<IHB", data, at)
        if kind == 0 or at + 7 + size > len(data):
            return
        record += data[at + 7:at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or the last piece
            yield record
            record = b""


def offline_records(run):
    """(steps, the newest recipe, {"STEP TABLE"}) of all offline runs in a run folder."""
    from wandb.proto import wandb_internal_pb2
    steps, config, tables = [], {}, set()
    for file in sorted(run.glob("wandb/offline-run-*/*.wandb")):
        for data in offline_blocks(file.read_bytes()):
            record = wandb_internal_pb2.Record.FromString(data)
            for item in (*record.run.config.update, *record.config.update):
                config[item.key] = json.loads(item.value_json)
            if record.HasField("history"):
                values = {"/".join(item.nested_key) or item.key: item.value_json for item in record.history.item}
                step = int(values["_step"]) if "_step" in values else record.history.step.num
                steps.append(step)
                tables |= {f"{step} {name.removesuffix('/_type')}" for name, value in values.items() if "table-file" in value}
    return steps, config, tables


if __name__ == "__main__":
    test_python.has("wandb")  # starts this script again where another Python has it
    unittest.main(verbosity=2)  # prints the reason of a skip
