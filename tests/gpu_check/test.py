#!/usr/bin/env python3
"""scripts/gpu/check, profile and kernels without a GPU: each command line, programs' answers, the packed archive, ptxas's figures.

usage: test.py BUILD CMAKE"""
import contextlib
import io
import json
import os
import pathlib
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock
from xml.sax import saxutils

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GPU = ROOT / "scripts" / "gpu"
sys.path.insert(0, str(GPU))
sys.dont_write_bytecode = True
import correct  # noqa: E402
import figures  # noqa: E402
import probes  # noqa: E402
import programs  # noqa: E402
import ranks  # noqa: E402
import steps  # noqa: E402

CMAKE = sys.argv.pop(2)
programs.BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
if programs.program("test_cuda_device") is None:
    programs.PROGRAMS["test_cuda_device"] = "tests/test_cuda"  # built without CUDA: the same cases, emulated
CHECK = runpy.run_path(str(GPU / "check"))
MODEL = ROOT / "recipes" / "models" / "quickstart"
CASES = ["first case", 'second [of two], "quoted"', *(f"case {letter}" for letter in "abcdefghijkl")]
ANSWERS = {
    **{word: {"kernel": "a tile", "error": 1e-4} for word in probes.DECIDES},
    "step": {"steps": [{"step_s": 2.0, "host_gib": 3.0, "graphs": 40, "graph_mib": 60.0, "graph_share": 0.99, "gpu_gib": 20.0}] * 8, "step_s": 1.7, "gen_s": 0.9, "gen_tokens_per_s": 17e3, "learner_s": 0.7, "publish_s": 0.02, "gap_probe_s": 0.05, "k3_kl": 0.0},
    "learner": {"learner_s": 0.4, "learner_tokens_per_s": 4e4, "learner_share_of_limit": 0.5, "ceiling_gpu_matmul_tflops": 740, "forward_s": 0.1},
    "ticks": {"read_gb_per_s": 3100, "ceiling_gpu_matmul_tflops": 740, "rewrite_s": 0.03} | {
        f"context512_batch{batch}_{key}": value for batch in figures.BATCHES for key, value in (("us", 7000.0), ("tokens_per_s", 145.0), ("share_of_limit", 0.7))},
    "products": {f"layer_rows{rows}_{key}": 1.5 for rows in figures.ROWS for key in ("us", "tflops", "share_of_read")},
    "attention": {"batch1_us": 1.5, "batch1_share_of_read": 0.5}, "decode": {"decode_1_us": 8000.0}, "train": {"train_s": 0.5}, "gemm": {"bf16_16_us": 1.0},
    "profile": {"steps": 6, "span_us": 10.0, "idle_us": 1.0, "kernels": 3.0, "rows": [{"kernel": "a_kernel", "exposed_us": 1.0, "calls": 2}]}}


def without_gpu(words):
    """Gives a command line to its program in the form that needs no GPU. Returns what that said; it must take it."""
    name = pathlib.Path(words[0]).name
    if "-r" in words:
        words = words[:words.index("-r")]
    dry = ["--list-test-names-only" if name.startswith("test_") else "--list" if name == "gpu_probes" else "--help" if words[0] == sys.executable else "--dry-run"]
    dry += ["--allow-absent"] if name == "qrl-train" else []
    done = subprocess.run(words + [word for word in dry if word not in words], capture_output=True, text=True, env=programs.environment()[0])
    taken = {"profile": (3, 4)}.get(name, (0, 1) if name.startswith("test_") else (0,))  # profile: no CUPTI, or no kernel was run
    assert done.returncode in taken and done.stdout + done.stderr, f"{words}: exit code {done.returncode}: {(done.stdout + done.stderr)[-600:]}"
    return done.stdout


class Card(programs.Runner):
    """A runner whose programs answer as on a GPU; with `really` the programs have taken each command line before. `fails`: what goes wrong."""

    def __init__(self, fails="", really=False):
        super().__init__(600)
        self.fails, self.really, self.ran = fails, really, []

    def run(self, command, limit_s, variables=None, is_tool=False):
        words = [str(word) for word in command]
        self.ran.append((words, is_tool))
        if words[0] == "compute-sanitizer":
            if self.fails == "follow" and is_tool:
                return 0, "no process was found", 0.1
            assert is_tool == ("LD_LIBRARY_PATH" in " ".join(words)), words
            words = [word for word in words[words.index("all") + 1:] if "=" not in word and pathlib.Path(word).name != "env"]
        name, asked = pathlib.Path(words[0]).name, [case for case in CASES if "--list" in words[-1] or correct.escaped(case) in words[1]]
        if self.really and words[1:] != ["check", "gpu"]:
            said = without_gpu(words)
            asked = [line.strip() for line in said.splitlines() if line.strip()]
        if name.startswith("test_"):
            return self.cases(words, variables, asked)
        if name == "qrl-train":
            return self.train(words)
        key = name if name in ANSWERS else next(word for word in words if word in ANSWERS)
        if key == self.fails:
            return 1, "some line\nerror: no memory\n", 0.1
        answer = {"estimated_gpu_bytes": 40 * 2**30} if "--dry-run" in words else {"other": 1} if self.fails == f"form of {key}" else ANSWERS[key]
        return 0, "some line\n" + json.dumps(answer) + "\n", 0.1

    def cases(self, words, variables, asked):
        if "--list" in words[-1]:
            return (127, "cannot open shared object file", 0.1) if self.fails == "loader" else (1, "\n".join(asked) + "\n", 0.1)
        if self.fails == "late" and len(asked) == 1:
            raise programs.OutOfTime("the budget ended 3 s after it began")
        bad = CASES[0] in asked and (self.fails == "case" or (self.fails == "overlap" and not variables) or
                                     (self.fails in ("together", "late") and len(asked) > 1))
        if self.fails == "crash" and CASES[0] in asked:
            return -11, "Segmentation fault", 0.1
        if "-o" in words:
            failure = '<failure message="1 == 2">at a.cpp:3</failure>'
            lines = "".join(f"<testcase name={saxutils.quoteattr(case)}>{failure if bad and case == CASES[0] else ''}</testcase>" for case in asked)
            pathlib.Path(words[words.index("-o") + 1]).write_text(f"<testsuites><testsuite>{lines}</testsuite></testsuites>")
        return (4, "SKIPPED: no GPU", 0.1) if self.fails == "skip" else (int(bad), "========= ERROR SUMMARY: 0 errors", 0.1)

    def train(self, words):
        if words[1:] == ["check", "gpu"]:
            return (2, "driver: 13.0 wanted, found 12.4", 0.1) if self.fails == "driver" else (0, "driver: 13.0 wanted, found 13.0\n", 0.1)
        given = dict(word.split("=", 1) for word in words if "=" in word)
        folder, steps = pathlib.Path(given["trainer.default_local_dir"]), int(given["trainer.total_training_steps"])
        if self.fails == "train":
            return 2, "some line\nerror: no memory\nhelp", 0.1
        stored = folder / "checkpoints" / f"step_{steps}" / ("adapter_model" if "lora.rank" in given else "model")
        stored.parent.mkdir(parents=True)
        stored.with_suffix(".safetensors").write_text(folder.name if self.fails == "weights" else "weights")
        gap = 0.25 if self.fails == "gap" else 0.0 if given.get("rollout.bitwise") == "true" else 4e-4
        score = 0.9 if self.fails == "curve" and given.get("trainer.device") == "cuda" else 0.3
        if self.fails == "ranks" and "--ranks" in words:
            return 2, "some line\nerror: rank 1 is lost\n", 0.1
        times = {"timing_s/publish": 0.002, "timing_s/update_actor": 0.05}
        rows = [{"step": i, **times, "critic/score/mean": score, "mismatch/k3_kl": None if i == 1 or self.fails == "flat" else gap} for i in range(1, steps + 1)]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [{"step": 0, "val/mean": 1}, *rows]))
        return 0, "", 0.1


class Rows(unittest.TestCase):
    """check's parts over a Card; the record lies in a folder of its own."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(mock.patch.object(programs, "cold_start", lambda: MODEL))
        self.enterContext(mock.patch.object(shutil, "which", lambda name: name))
        self.enterContext(mock.patch.object(probes, "program", lambda name: name))
        self.enterContext(contextlib.redirect_stdout(io.StringIO()))

    def record(self, device="an H100", digest="1234"):
        return CHECK["Record"](self.folder, {"commit": "abc", "programs": digest, "device": device})

    def check(self, part, fails="", really=False, anew=True, budget_s=600):
        """The card and the record of one call; anew: without what earlier ones found."""
        if anew:
            (self.folder / "check.json").unlink(missing_ok=True)
        card, record = Card(fails, really), self.record()
        card.until += budget_s - 600
        with mock.patch.object(programs, "Runner", lambda budget_s, log: card), tempfile.TemporaryDirectory() as work:
            CHECK["CHECKS"][part](record, None, 0, pathlib.Path(work))
        return card, record

    def failing(self, record):
        return {name for name, row in record.rows.items() if row["holds"] is False}

    def test_every_command_line_of_correct_is_taken_by_its_program(self):
        card, record = self.check("correct", really=True)
        self.assertEqual(self.failing(record), set())
        self.assertEqual(sum(words[0] == "compute-sanitizer" for words, _ in card.ran), 3)
        for pattern in {pattern for _, _, patterns in correct.SANITIZED for pattern in patterns.split(",")}:
            self.assertTrue(without_gpu([str(programs.program("test_cuda_device")), pattern]).strip(), f"{pattern}: no such case")
        self.assertIn("quickstart, 20 steps, both devices", record.rows)
        self.assertIn("k3 [None, 0.0, 0.0, 0.0]", record.rows["cut and resumed, adapters, bitwise int8"]["what"])

    def test_every_command_line_of_figures_is_taken_by_its_program(self):
        _, record = self.check("figures", really=True)
        self.assertEqual((self.failing(record), list(record.rows)), (set(), list(figures.figures())))
        self.assertIn("256: 145 tok/s, 70%", record.rows["ticks 8B, int4 int8, 512 positions"]["what"])
        self.assertIn("decode_1_us 8000 (ours 1.14 times its speed)", record.rows["torch, decoding 8B bf16 in a CUDA graph"]["what"])

    def test_every_command_line_of_probes_is_taken_by_its_program(self):
        self.enterContext(mock.patch.object(probes, "program", programs.program))
        _, record = self.check("probes", really=True)
        self.assertEqual((self.failing(record), list(record.rows)), (set(), list(probes.jobs())))
        left = {name for name, row in record.rows.items() if row.get("left_out")}
        self.assertEqual(left, set() if programs.program("gpu_probes") else {f"probe {word}" for word in ("rows", "mixed", "tiles", "guesses")})
        self.assertIn("Decides whether FP8's backward pass", record.rows["probe scales"]["what"])
        self.enterContext(mock.patch.object(probes, "program", lambda name: name))
        refuted = {"scales_error": "AssertionError: the CPU's reference is 0.5 away"}
        with mock.patch.dict(ANSWERS, {"scales": refuted}):
            self.assertEqual(self.failing(self.check("probes")[1]), {"probe scales"})
        with mock.patch.dict(ANSWERS, {"scales": {"scales_error": "RuntimeError: not supported"}}):  # a refusal is a result
            self.assertEqual(self.failing(self.check("probes")[1]), set())

    def test_every_command_line_of_steps_is_taken_by_its_program(self):
        card, record = self.check("steps", really=True)
        self.assertEqual((self.failing(record), list(record.rows)), (set(), list(steps.rows())))
        self.assertEqual([words[-2:] for words, _ in card.ran], [["--shortest", "1"]] * 2)
        self.assertIn("99.0% of decode ticks by graph", next(iter(record.rows.values()))["what"])
        grown = [{**ANSWERS["step"]["steps"][0], "gpu_gib": gib, "graph_mib": mib} for gib, mib in ((20.0, 10.0),) * 6 + ((20.5, 300.0),)]
        with mock.patch.dict(ANSWERS, {"step": {**ANSWERS["step"], "steps": grown}}):
            _, record = self.check("steps")
        (name,) = self.failing(record)
        self.assertIn("graphs take 300 MiB, planned 256; gpu_gib grows from 20.00 to 20.50", record.rows[name]["what"])

    def test_every_command_line_of_ranks_is_taken_by_its_program(self):
        card, record = self.check("ranks", really=True)
        self.assertEqual((self.failing(record), len(record.rows)), (set(), 3))
        self.assertTrue(without_gpu([str(programs.program("test_learner")), "[ranks]"]).strip(), "no case of [ranks]")
        self.assertEqual(sum(words[-2:] == ["--ranks", "2"] for words, _ in card.ran), 2)
        self.assertIn("2 ranks: publish 2.0 ms, update 50 ms", record.rows["two ranks through host memory"]["what"])
        _, record = self.check("ranks", "ranks")
        self.assertEqual(len(self.failing(record)), 2)
        self.assertIn("error: rank 1 is lost", record.rows["two ranks through host memory"]["what"])

    def test_what_is_wrong_is_seen_and_costs_no_other_row(self):
        for fails, named, said in (("weights", "cut and resumed, rollout.device", "weights DIFFER"), ("driver", "libraries", "found 12.4"),
                                   ("gap", "cut and resumed, adapters, bitwise int8", "0 wanted"),
                                   ("flat", "cut and resumed, adapters, bitwise int8", "[None, None, None, None]"), ("train", "quickstart, 20 steps, cpu", "error: no memory"),
                                   ("curve", "quickstart, 20 steps, both devices", "differ by 0.600")):
            _, record = self.check("correct", fails)
            self.assertIn(named, self.failing(record), fails)
            self.assertIn(said, record.rows[named]["what"])
            self.assertTrue(any(row["holds"] for row in record.rows.values()), fails)
        for fails, named, said in (("learner", "learner", "error: no memory"), ("form of products", "GEMMs", "another form")):
            _, record = self.check("figures", fails)
            self.assertEqual(self.failing(record), {name for name in figures.figures() if name.startswith(named)})
            self.assertTrue(all(said in record.rows[name]["what"] for name in self.failing(record)))

    def test_a_failing_case_runs_again_alone_apart_and_under_memcheck(self):
        for fails, said in (("case", "QRL_CUDA_OVERLAP=0 it fails | memcheck"), ("overlap", "QRL_CUDA_OVERLAP=0 it holds"), ("crash", "exit code -11"),
                            ("skip", "SKIPPED: no GPU"), ("together", "holds alone; beside others: 1 == 2 at a.cpp:3")):
            _, record = self.check("correct", fails)
            cases = [case for row in record.rows.values() if row["holds"] is False for case in row.get("cases", [])]
            self.assertTrue(any(said in case.get("why", "") for case in cases), (fails, cases))
        _, record = self.check("correct", "late")  # what the budget ends is left out, and what failed before stays so
        self.assertEqual(self.failing(record), {"device cases, 1 of 6"})
        self.assertEqual(record.rows[f"learner: {CASES[0]}"]["what"], "left out: the budget ended 3 s after it began")
        _, record = self.check("correct", "loader")
        self.assertLessEqual({"device cases, 1 of 6", "learner: cases"}, self.failing(record))
        _, record = self.check("correct", anew=False)  # what it lacked now exists
        self.assertFalse(self.failing(record))
        cases = [{"case": CASES[0], "holds": False, "why": "memory"}, {"case": CASES[1], "holds": True}]  # beside other programs alone
        self.assertTrue(correct.examine(Card(), programs.program("test_learner"), {"cases": cases})["holds"])
        self.assertIn("holds when no other program runs", cases[0]["why"])

    def test_a_sanitizer_that_does_not_follow_env_gets_the_program_itself(self):
        for fails, ran in (("", [True]), ("follow", [True, False])):
            card = Card(fails)
            self.assertTrue(correct.sanitizer_job(*correct.SANITIZED[2][::2])(card)["holds"])
            self.assertEqual([is_tool for _, is_tool in card.ran], ran)

    def test_peak_memory_stands_beside_the_estimate_and_fails_beyond_15_percent(self):
        tool = self.folder / "nvidia-smi"
        for peak_mib, holds in ((40960, None), (48500, False), (46000, None), (36000, None), (34000, False)):
            tool.write_text(f"#!/bin/sh\necho 600\necho {peak_mib + 600}\necho 20000\nsleep 60\n")
            tool.chmod(0o755)
            with mock.patch.dict(os.environ, {"PATH": f"{self.folder}:{os.environ['PATH']}"}):
                row = figures.measure(Card(), figures.model("learner", "86m"), {})
            self.assertIn(f"GPU memory {peak_mib / 1024:.1f} GiB at most, --dry-run estimates 40.0", row["what"])
            self.assertEqual(("more than 15% apart" in row["what"], row["holds"]), (holds is False, holds), peak_mib)

    def test_a_later_call_repeats_what_failed_or_was_left_out(self):
        self.check("figures", "learner")
        card, record = self.check("figures", anew=False)
        self.assertEqual(({words[1] for words, _ in card.ran}, self.failing(record)), ({"learner"}, set()))
        for part in CHECK["PARTS_S"]:
            _, record = self.check(part, budget_s=1)
            self.assertTrue(all(row["left_out"] for row in record.rows.values()))
            card, record = self.check(part, anew=False)
            self.assertFalse([name for name, row in record.rows.items() if row.get("left_out")])

    def test_a_record_of_another_gpu_or_no_record_is_refused(self):
        self.record().put("correct", "libraries", {"holds": True, "what": "found"})
        def spoiled(text):
            return lambda: self.record().file.write_text(text) and self.record()
        others = [lambda: self.record("an H200"), lambda: self.record(digest="5678")]
        for spoil in (*others, *map(spoiled, ("{", "[]", "null", '{"rows": {"a": 1}}'))):
            with self.assertRaises(SystemExit) as ended, contextlib.redirect_stderr(io.StringIO()) as said:
                spoil()
            self.assertEqual(ended.exception.code, 2)
            self.assertIn("check.json: expected", said.getvalue())


class Programs(unittest.TestCase):
    def test_without_a_gpu_one_line_is_said_and_the_exit_code_is_4(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "nvidia-smi").write_text("#!/bin/sh\necho No devices were found\nexit 6\n")
            (folder / "nvidia-smi").chmod(0o755)
            for path, said in ((f"{folder}:{os.environ['PATH']}", "No devices were found"), ("", "nvidia-smi")):
                done = subprocess.run([sys.executable, GPU / "check", "--out", folder / "out"], capture_output=True, text=True, env={**os.environ, "PATH": path})
                self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (4, "", 1), done.stderr)
                self.assertIn(said, done.stderr)
                self.assertFalse((folder / "out").exists())
        for arguments in (["--part", "none"], ["--pack", "x.tar.xz", "--part", "correct"], ["--pack", "/proc/none/x"], ["word"],
                          *(["--budget", value] for value in ("0", "-5", "nan", "inf", "soon"))):
            self.assertEqual(subprocess.run([sys.executable, GPU / "check", *arguments], capture_output=True).returncode, 2)

    def test_the_exit_code_is_1_where_something_was_left_out_and_0_where_all_held(self):
        with tempfile.TemporaryDirectory() as name, mock.patch.object(correct, "require_gpu", lambda _: "An H100, 580"):
            for budget, measured, wanted in (("1", None, 1), ("60", {"holds": None, "what": "fast"}, 0), ("60", {"holds": False, "what": "no"}, 1)):
                arguments = ["check", "--part", "figures", "--out", f"{name}/{wanted}{budget}", "--budget", budget]
                with mock.patch.object(sys, "argv", arguments), mock.patch.object(figures, "measure", lambda *_: dict(measured)), \
                        contextlib.redirect_stdout(io.StringIO()):
                    self.assertEqual(CHECK["main"](), wanted)
                found = json.loads((pathlib.Path(arguments[4]) / "check.json").read_text())
                self.assertEqual({bool(row.get("left_out")) for row in found["rows"].values()}, {measured is None})
                self.assertEqual(found["programs"], programs.digest())

    def test_a_command_ends_with_the_check_that_started_it(self):
        with tempfile.TemporaryDirectory() as name:
            pid_file = pathlib.Path(name) / "pid"
            script = (f"import sys; sys.path.insert(0, {str(GPU)!r}); import programs; "
                      f"programs.Runner(60).run(['sh', '-c', 'echo $$ > {pid_file}; exec sleep 47'], 50)")
            process = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)
            while not (pid_file.exists() and pid_file.read_text().strip()):
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            process.wait()
            with self.assertRaises(ProcessLookupError):
                os.kill(int(pid_file.read_text()), 0)

    def test_time_output_and_environment_of_a_command(self):
        runner = programs.Runner(60)
        code, said, _ = runner.run(["sh", "-c", "echo begun; sleep 3600 & wait"], 3)
        self.assertEqual((code, said), (124, "begun\n\nnot done in 3 s"))
        self.assertEqual(runner.run(["/nowhere/tool"], 1)[0], 127)
        with self.assertRaises(programs.OutOfTime):
            programs.Runner(1).run(["sleep", "3600"], 30)
        show = ["sh", "-c", "echo $LD_LIBRARY_PATH"]
        with mock.patch.object(programs, "environment", lambda: ({**os.environ, "LD_LIBRARY_PATH": "/ours"}, "")):
            said = [runner.run(show, 5, is_tool=is_tool)[1].strip() for is_tool in (False, True)]
        self.assertEqual(said, ["/ours", os.environ.get("LD_LIBRARY_PATH", "")])

    def test_a_packed_archive_runs_from_its_own_folder(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name) / "qrl-gpu"
            with mock.patch.object(programs, "make_cold_start", lambda: MODEL), mock.patch.object(programs, "build_shared", lambda *_: ""):
                programs.gather(folder, {})
            self.assertEqual({path.name for path in (folder / "bin").iterdir()}, set(programs.PROGRAMS))
            self.assertFalse([path.name for path in (folder / "lib").iterdir() if path.name.startswith(("libtorch", "libc.so", "libcuda"))])
            self.assertTrue((folder / "cold_start" / "config.json").exists())
            done = subprocess.run([sys.executable, folder / "scripts" / "gpu" / "check"], capture_output=True, text=True, cwd=name, env={**os.environ, "PATH": ""})
            self.assertEqual((done.returncode, done.stdout), (4, ""), done.stderr)
            show = ("import sys; sys.path.insert(0, 'qrl-gpu/scripts/gpu'); import programs as its; "
                    "print(its.program('qrl-train'), its.commit(), its.digest())")
            done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, cwd=name, check=True)
            *packed, digest = done.stdout.split()
            self.assertEqual(packed, [str(folder / "bin" / "qrl-train"), programs.commit()])
            self.assertNotEqual(digest, programs.digest())  # these are stripped
            libraries = f"{folder / 'lib'}:{ROOT / '.deps' / 'libtorch' / 'torch' / 'lib'}"
            done = subprocess.run([folder / "bin" / "qrl-bench", "--help"], capture_output=True, text=True, env={**os.environ, "LD_LIBRARY_PATH": libraries})
            self.assertEqual(done.returncode, 0, done.stderr)


# A CUPTI that has recorded one kernel of a process when it ends.
CUPTI = """
#include <cupti.h>
static CUpti_BuffersCallbackRequestFunc request;
static CUpti_BuffersCallbackCompleteFunc complete;
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc a, CUpti_BuffersCallbackCompleteFunc b) {
  request = a, complete = b;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) { return (void)kind, CUPTI_SUCCESS; }
CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, CUpti_Activity **record) {
  if (*record != 0) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *(CUpti_ActivityKernel10 *)buffer = (CUpti_ActivityKernel10){
      .kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, .start = 1000, .end = 6000, .gridX = 2, .gridY = 3, .gridZ = 1,
      .blockX = 32, .blockY = 4, .blockZ = 1, .registersPerThread = 40, .staticSharedMemory = 8, .name = "a_kernel"};
  *record = (CUpti_Activity *)buffer;
  return (void)valid, CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(uint32_t flag) {
  uint8_t *buffer;
  size_t size, most;
  request(&buffer, &size, &most);
  complete(0, 0, buffer, size, flag);
  return CUPTI_SUCCESS;
}
"""


class Profile(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "traces"
        self.folder.mkdir()
        # Three steps of 100 us: a kernel of 10 us, one of 20 with another of 5 below it, 30 us idle, a copy of 5.
        lines = []
        for at in (1_000_000, 1_100_000, 1_200_000):
            lines += [f"{at + 65_000} {at + 70_000} 4 0 0 0 0 0 copy", f"{at} {at + 10_000} 8 1 1 128 0 20 _ZN3qrl12embed_kernelEv",
                      *(f"{at + begin} {at + 35_000} 2 1 1 256 64 40 _ZN3qrl13other_kernelILi3EEEv" for begin in (15_000, 30_000))]
        self.file = self.folder / "77"
        self.file.write_text("".join(line + "\n" for line in lines))

    def profile(self, *arguments, **more):
        done = subprocess.run([sys.executable, GPU / "profile", *arguments], capture_output=True, text=True, **more)
        return done.returncode, done.stdout, done.stderr

    def test_a_table_of_a_made_up_trace(self):
        (self.folder / "78").write_text("1000 2000 1 1 1 32 0 8 alone\n")
        code, said, error = self.profile("--json", "--step", "embed_kernel", "--traces", self.folder)
        self.assertIn("process 78: expected a pattern of at least two", error)
        table = json.loads(said)
        self.assertEqual((code, table["process"], table["idle_before_us"]), (0, "77", {"copy": 30, "other_kernel 3": 5}))
        self.assertEqual([table[key] for key in ("steps", "span_us", "busy_us", "idle_us", "kernels")], [2, 100, 35, 65, 4])
        self.assertEqual([[row[key] for key in ("kernel", "total_us", "exposed_us", "calls", "least_us", "most_us", "grid")] for row in table["rows"]],
                         [["other_kernel 3", 25, 20, 2, 5, 20, "2x1x1"], ["embed_kernel", 10, 10, 1, 10, 10, "8x1x1"], ["copy", 5, 5, 1, 5, 5, "0x0x0"]])
        said = self.profile("--traces", self.folder)[1]
        self.assertIn("process 77, all: 270 us, 105 busy, 165 idle, 12 kernels", said)
        self.assertIn("| 30.0 | 30.0 | 3 | 10.0 | 10.0 | 10.0 | 8x1x1 x 128 | 20 | embed_kernel |", said)
        self.assertIn("process 78, all: 1 us", said)

    def test_what_is_no_trace_or_has_no_step_is_refused(self):
        self.assertEqual((self.profile("--step", "nothing", "--traces", self.folder)[0], self.profile()[0]), (2, 2))
        nowhere, whole = self.folder / "nowhere", self.file.read_text()
        for spoiled in (whole[:-1], whole + "QRL\n", whole.replace("128", "x")):
            self.file.write_text(spoiled)
            code, _, said = self.profile("--traces", self.folder)
            self.assertEqual((code, "77, line" in said), (2, True), said)
        for traces, *more in ((nowhere,), (self.file,), (self.folder, "--step", "["), (self.folder, "true"), (self.file / "x", "true")):
            code, _, said = self.profile("--traces", traces, *more)  # an older trace is not tabled as the new one
            self.assertEqual((code, said.count("Traceback")), (2, 0), more)

    def test_each_process_of_a_command_writes_a_trace_of_its_own(self):
        if why := programs.build_shared(GPU / "trace.c", self.folder / programs.TRACE):
            self.skipTest(why)
        for command, code in ((["true"], 4), (["false"], 1), (["/nowhere/command"], 1)):
            self.assertIn(self.profile(*command)[0], (code, 3))  # 3: no CUPTI
        (self.folder / "cupti.c").write_text(CUPTI)
        self.assertEqual(programs.build_shared(self.folder / "cupti.c", self.folder / "libcupti.so.13"), "")
        inject = "import ctypes, os, subprocess, sys\nctypes.CDLL(os.environ['CUDA_INJECTION64_PATH']).InitializeInjection()\n"
        # Two programs, and a copy of the first that ends without having used a GPU.
        command = f"{inject}if os.fork() == 0: sys.exit()\nos.wait()\nsubprocess.run([sys.executable, '-c', {inject!r}])"
        code, said, error = self.profile("--json", "--traces", self.folder / "new", sys.executable, "-c", command,
                                         env={**os.environ, "LD_LIBRARY_PATH": str(self.folder)})
        tables = [json.loads(line) for line in said.splitlines()]
        self.assertEqual((code, len(tables), len({table.pop("process") for table in tables})), (0, 2, 2), error)
        self.assertEqual(tables[0], tables[1])
        self.assertEqual([list(row.values()) for row in tables[0]["rows"]], [["a_kernel", 5, 5, 1, 5, 5, 5, "2x3x1", 128, 40, 8]])


def figures_of(frame, spills, name="_ZN3qrl18some_thing_kernelE", arch="sm_80", registers=40):
    """What ptxas says of a kernel."""
    return (f"ptxas info    : Compiling entry function '{name}' for '{arch}'\nptxas info    : Function properties for {name}\n"
            f"    {frame} bytes stack frame, {spills} bytes spill stores, {spills} bytes spill loads\n"
            f"ptxas info    : Used {registers} registers, used 1 barriers\n")


def elf_of(kernels):
    """What cuobjdump -elf says of kernels: symbol, bytes of code, threads of the launch bounds or None."""
    sections = "".join(f"   3b  2b600    {size:x}  0 80                     PROGBITS  2000006    3 1d00003a .text.{symbol}\n" for symbol, size, _ in kernels)
    bounds = "\t<0x9>\n\tAttribute:\tEIATTR_MAX_THREADS\n\tFormat:\tEIFMT_SVAL\n\tValue:\t0x{:x} 0x1 0x1 \n"
    return sections + "".join(f".nv.info.{symbol}\n\t<0x1>\n\tAttribute:\tEIATTR_CBANK_PARAM_SIZE\n{bounds.format(threads) if threads else ''}"
                              for symbol, _, threads in kernels) + ".nv.callgraph\n"


class Kernels(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def test_frames_spills_and_a_report_without_figures_fail(self):
        for text, said in ((figures_of(8, 0), "FAILS"), (figures_of(0, 4), "FAILS"), (figures_of(0, 0), "ok   "), ("nothing", "FAILS")):
            (self.folder / "rows.ptxas").write_text(text)
            run = subprocess.run([GPU / "kernels", "--objects", self.folder, "--tools", self.folder], capture_output=True, text=True)
            self.assertTrue(run.stdout.startswith(said), run.stdout)
            self.assertTrue(run.returncode == 1 or said == "ok   ")

    def test_instructions_and_blocks_at_once_of_hopper(self):
        # Registers are given to warps 256 at a time: 41 a thread are 1,536 a warp, so that 42 warps fit, five blocks of 8.
        wide, narrow, free = "_ZN3qrl10sum_kernelILi256ELNS_5RoundE3EEEv", "_ZN3qrl10one_kernelEv", "_ZN3qrl11free_kernelEv"
        (self.folder / "rows.ptxas").write_text("".join(figures_of(0, 0, name, "sm_90a", registers)
                                                        for name, registers in ((wide, 41), (narrow, 16), (free, 16))))
        tool = self.folder / "cuobjdump"
        tool.write_text(f"#!/bin/sh\n[ $1 = -elf ] && cat <<'END'\n{elf_of([(wide, 16 * 700, 256), (narrow, 64, 32), (free, 128, None)])}END\n")
        tool.chmod(0o755)
        run = subprocess.run([GPU / "kernels", "--objects", self.folder, "--tools", self.folder], capture_output=True, text=True)
        said = [" ".join(line.split()) for line in run.stdout.splitlines()]
        self.assertEqual(said[:3], [
            "ok rows sm_90a sum_kernel<256, 3> 41 registers, 700 instructions, 256 threads, 5 blocks a multiprocessor, 0 bytes spilled, 0 bytes stack frame",
            "ok rows sm_90a one_kernel 16 registers, 4 instructions, 32 threads, 32 blocks a multiprocessor, 0 bytes spilled, 0 bytes stack frame",
            "ok rows sm_90a free_kernel 16 registers, 8 instructions, 0 bytes spilled, 0 bytes stack frame"])

    def test_a_stack_frame_fails_the_build(self):
        for frame, code in ((16, 1), (0, 0)):
            compiler, built = self.folder / "compiler", self.folder / "o"
            compiler.write_text(f"#!/bin/sh\necho object > '{built}'\ncat >&2 <<END\n{figures_of(frame, 0)}END\n")
            compiler.chmod(0o755)
            command = [CMAKE, f"-DFIGURES={self.folder}/figures", f"-DOBJECT={built}", "-P", ROOT / "cuda/compile.cmake", "--", compiler]
            run = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual((run.returncode, built.exists(), "got 16 bytes stack frame" in run.stderr), (code, code == 0, code == 1))


if __name__ == "__main__":
    unittest.main(verbosity=2)  # prints the reason of a skip
