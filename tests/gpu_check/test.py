#!/usr/bin/env python3
"""scripts/gpu/check and first_contact with programs that stand in: its table, its JSON, its exit codes; each failure must be seen."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CHECK = HERE.parent.parent / "scripts" / "gpu" / "check"


def check(folder, *arguments, fails="", script=CHECK):
    # No python3 with transformers is asked for its speed: of the peers only their messages without them are looked at.
    env = {**os.environ, "QRL_STAND_IN_FAILS": fails, "PATH": f"{folder}/path:{os.environ['PATH']}"}
    out = folder / "check.json"
    out.unlink(missing_ok=True)
    done = subprocess.run([sys.executable, script, "--bin", folder, "--out", out, *arguments], capture_output=True, text=True,
                          env=env, timeout=120)
    return done.returncode, done.stdout + done.stderr, json.loads(out.read_text()) if out.exists() else []


def expect(holds, what, output=""):
    if not holds:
        sys.exit(f"{what}\n{output}")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for program in ("qrl-train", "qrl-bench", "test_cuda_device", "test_learner", "gpu_probe"):
            shutil.copy(CHECK.parent / "stand_in", folder / program)
        (folder / "path").mkdir()
        (folder / "kernels.json").write_text("{}")
        peer = folder / "path" / "python3"
        peer.write_text('#!/bin/sh\ncase "$*" in\n*gpu/peers*) echo \'{"torch": "2", "transformers": "5", "attention": "sdpa", '
                        '"torch_matmul_tflops": 700, "context512_batch1_tokens_per_s": 25, "context512_batch64_tokens_per_s": null, '
                        '"context512_batch64_tokens_per_s_error": "no memory"}\' ;;\n*"import torch"*) echo 2.10.0+cu128 /a/torch ;;\n*) exec ' + sys.executable + ' "$@" ;;\nesac\n')
        peer.chmod(0o755)

        code, output, rows = check(folder)
        expect(code == 0 and rows, "all of it holds, with exit code 0", output)
        shown = output[output.index("| check | | |"):]
        expect(len(shown) < 13000, f"a short table, not of {len(shown)} characters")
        table = {row["check"]: row for row in rows}
        for check_name, said in (("ticks int4, 8B, sequences of 512", "16: 4000 tok/s, 70% of"),
                                 ("ticks bf16, 8B, sequences of 2,048", "512: no room"),
                                 ("int4 over bf16", "2.50 times at 16 x 512"), ("fp8 over bf16", "1.75 times at 512 x 512"),
                                 ("int8 over fp8", "1.00 times at 64 x 512"), ("ticks int8, 8B: limits", "publish 30 ms"),
                                 ("attention bf16, a layer of 8B, 512 positions", "65% of reading, 0.90 times flashinfer_decode's speed"),
                                 ("transformers, 8B, 1 x 512", "bf16 4.0 times; int8 7.0 times"),
                                 ("transformers, 8B, 64 x 512", "no memory"), ("decode bf16, batch 64: graphs", "the tokens of"),
                                 ("bitwise on the device, int8 weights, bf16 KV", "0 of 16384 log-probs differ by a bit; step +10%"),
                                 ("operations against the CPU", "1 of 1 cases")):
            expect(said in table.get(check_name, {"what": ""})["what"], f"{check_name}: {said}", output)
        code, output, rows = check(folder, "--quick")
        expect(code == 0 and len(rows) == 5, "--quick is the libraries, the operations, the learner's and two resumed runs", output)
        code, output, rows = check(folder, fails="crash")
        cases = rows[1]["cases"] if rows else []
        expect(code == 1 and [case["holds"] for case in cases] == [True, False] and "exit code -11" in cases[1]["why"] and
               len(rows) > 30, "a case that ends the program costs no other, and no other check", output)
        code, output, rows = check(folder, fails="form")
        expect(code == 1 and "scripts/gpu itself: KeyError" in output and any(row["check"] == "peers" for row in rows),
               "an answer of another form costs no other check", output)
        code, output, rows = check(folder, "--only", "bench-decode,resume")
        expect(code == 0 and [row["check"].split()[0] for row in rows] == ["libraries"] + ["decode"] * 8 + ["save,"] * 2, "--only", output)
        code, output, rows = check(folder, "--budget", "9")
        expect(code == 1 and len(rows) == 13 and all("left out" in row["what"] for row in rows[1:]), "--budget", output)
        code, output, rows = check(folder, "--only", "operations", fails="case")
        expect("1 == 2 at a.cpp:3" in output and "1 == 2 at a.cpp:3" in rows[1]["cases"][0]["why"], "what a case says", output)
        expect("QRL_CUDA_OVERLAP" not in output, "what holds in neither way is not said to", output)
        code, output, rows = check(folder, "--only", "operations", fails="overlap")
        expect(code == 1 and "holds with QRL_CUDA_OVERLAP=0" in output and "1 == 2" in rows[1]["cases"][0]["why"],
               "a case that holds where kernels do not overlap", output)
        for fails, said in (("driver", "wanted, found one for CUDA 12.4"), ("torch", "cannot open shared object file")):
            code, output, rows = check(folder, "--only", "operations", fails=fails)
            expect(code == 1 and rows[0]["check"] == "libraries" and said in rows[0]["what"],
                   f"a {fails} of another version is named first", output)
        # Where scripts/setup has put no LibTorch python3's torch is taken, and named when it is another one.
        elsewhere = folder / "elsewhere" / "scripts" / "gpu" / "check"
        shutil.copytree(CHECK.parent, elsewhere.parent)
        shutil.copytree(HERE.parent.parent / "third_party", folder / "elsewhere" / "third_party")
        code, output, rows = check(folder, "--only", "operations", fails="torch", script=elsewhere)
        expect("torch: 2.11.0 for CUDA 13 wanted, found 2.10.0+cu128 at /a/torch" in rows[0]["what"], "python3's torch is named", output)
        for fails, part, row in (("case", "operations", "FAILS  operations against the CPU"),
                                 ("bits", "bitwise", "FAILS  bitwise on the device, int8 weights, int8 KV"),
                                 ("weights", "resume", "FAILS  save, resume (rollout.device)"),
                                 ("weights", "adapters", "FAILS  adapters, save, resume"),
                                 ("gap", "adapters", "FAILS  adapters, rollout.bitwise"),
                                 ("tokens", "bench-decode", "FAILS  decode int8, batch 64: graphs"),
                                 ("ticks", "bench-ticks", "FAILS  ticks int4, 8B")):
            code, output, _ = check(folder, "--only", part, fails=fails)
            expect(code == 1 and row in output, f"{fails} is seen", output)

        check_first_contact(folder)


def first_contact(folder, out, *arguments, fails=""):
    env = {**os.environ, "QRL_STAND_IN_FAILS": fails, "PATH": f"{folder}/path:{os.environ['PATH']}"}
    done = subprocess.run([sys.executable, CHECK.parent / "first_contact", "--bin", folder, "--out", out, *arguments],
                          capture_output=True, text=True, env=env, timeout=120)
    file = out / "first_contact.json"
    parts = json.loads(file.read_text())["parts"] if done.returncode < 2 else {}
    return done.returncode, done.stdout + done.stderr, parts


def check_first_contact(folder):
    for tool in ("nvidia-smi", "ncu", "compute-sanitizer"):
        shutil.copy(CHECK.parent / "stand_in", folder / "path" / tool)
    code, output, parts = first_contact(folder, folder / "whole")
    expect(code == 0 and len(parts) == 18 and all(part["state"] == "done" for part in parts.values()), "all five steps", output)
    expect("-> kernels may begin before the one before has ended" in output, "a figure's decision stands below it", output)
    expect("1: 70%, estimated 50% MISS" in output and "off by more than a fifth" in output, "a miss of the estimate is marked", output)
    files = sorted(file.name for file in (folder / "whole").iterdir())
    expect(files == ["first_contact.json", *(f"step{n}.log" for n in range(1, 6))], f"one JSON and a log a step: {files}")
    expect("$ nvidia-smi" in (folder / "whole" / "step1.log").read_text(), "a log holds the command lines")
    code, output, _ = first_contact(folder, folder / "probe", "--step", "1", fails="probe")
    expect(code == 1 and "FAILS  probe: chain" in output and "-> QRL_CUDA_OVERLAP=0 for all" in output, "a failing probe", output)

    # Stopped within a part, and going on: what is done is not done again, the part that was cut off counts as failed.
    out = folder / "stopped"
    first_contact(folder, out, "--step", "1")
    file = out / "first_contact.json"
    record = json.loads(file.read_text())
    record["parts"]["learner"]["state"] = "under way"
    file.write_text(json.dumps(record))
    code, output, parts = first_contact(folder, out, "--step", "1")
    expect(code == 1 and "operations: done in an earlier call" in output and parts["learner"]["state"] == "cut off" and
           "did not end: the program was stopped in it" in output, "a call that goes on", output)
    code, output, parts = first_contact(folder, out, "--step", "1", "--again", "learner")
    expect(code == 0 and parts["learner"]["state"] == "done", "--again", output)
    code, output, parts = first_contact(folder, folder / "late", "--step", "2", "--limit", "9")
    expect(code == 1 and all(part["state"] == "left out" for part in parts.values()), "a step without time", output)
    code, output, _ = first_contact(folder, out, "--again", "nothing")
    expect(code == 2 and "expected some of device, libraries" in output, "--again of an unknown part", output)
    file.write_text("{")
    code, output, _ = first_contact(folder, out)
    expect(code == 2 and "move it away to begin anew" in output, "a damaged first_contact.json", output)


main()
