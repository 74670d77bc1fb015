"""Whether what a GPU computes is right, and the same each time: the jobs of scripts/gpu/check --part correct."""
import json
import pathlib
import re
import shutil
import tempfile
import xml.etree.ElementTree as xml

import programs
from programs import ROOT, program

SHARDS = 6
ALONE = "holds alone"
# The small model of the quickstart, from its cold start, with little to evaluate.
SMALL = ["model.init.config=", "sft.steps=0", "quant.learner.forward=bf16", "rollout.bitwise=false", "eval.n=1", "data.val_generator.size=16", "data.val_files=[]", "trainer.threads=3"]
# On the CPU other micro-batches or bf16 rollouts leave rewards 0.02 to 0.03 apart by this measure, another seed 0.07.
CURVE_STEPS, MAX_CURVE_DISTANCE, MAX_GAP_RATIO = 20, 0.05, 3.0
BOTH_CURVES = f"quickstart, {CURVE_STEPS} steps, both devices"
CURVES = {device: f"quickstart, {CURVE_STEPS} steps, {device}" for device in ("cuda", "cpu")}


class NoGpu(Exception):
    """There is no GPU here: nothing can be checked."""


def require_gpu(runner):
    """Raises NoGpu where there is none. Returns its name, driver, clocks and memory."""
    query = "name,driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.limit,memory.total"
    code, output, _ = runner.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], 30, is_tool=True)
    if code != 0 or not output.strip():
        raise NoGpu(" ".join(output.split())[-200:] or "nvidia-smi lists no GPU")
    return output.strip().splitlines()[0]


def libraries(runner):
    """Driver, cuBLASLt, LibTorch, NCCL: which version is wanted, which is here."""
    code, output, _ = runner.run([program("qrl-train"), "check", "gpu"], 60)
    found = [line.strip() for line in output.splitlines() if line.strip()]
    if code not in (0, 2):  # the loader's words: the program has not begun
        found = [f"qrl-train does not start: {programs.why(code, output)}", programs.environment()[1]]
    return {"holds": code == 0, "what": "; ".join(found)}


# ---- cases of the test programs

def escaped(case):
    """A name that Catch2 does not take for a pattern."""
    return re.sub(r"([\\,\[\]*~\"])", r"\\\1", case)


def names_of(runner, command):
    """The cases that a test program has; none where it does not start. Its exit code says whether there are some."""
    code, output, _ = runner.run([*command, "--list-test-names-only"], 60)
    return [line.strip() for line in output.splitlines() if line.strip()] if code in (0, 1) else []


def run_cases(runner, path, names, limit_s, variables=None):
    """Each case with whether it holds and why not, and the seconds. One that was skipped does not hold."""
    with tempfile.TemporaryDirectory() as folder:
        junit = pathlib.Path(folder) / "cases.xml"
        code, output, seconds = runner.run([path, ",".join(map(escaped, names)), "-r", "junit", "-o", junit], limit_s, variables)
        try:
            found = {case.get("name"): case for case in xml.parse(junit).getroot().iter("testcase")}
        except (OSError, xml.ParseError):  # the program ended before it wrote the report
            found = {}
    cases = []
    for name in names:
        # Sections are cases of their own there: "name/section".
        own = [case for key, case in found.items() if key == name or key.startswith(name + "/")]
        bad = [each for case in own for each in (*case.iter("failure"), *case.iter("error"))]
        why = " ".join(" ".join(f"{each.get('message', '')} {each.text or ''}" for each in bad).split())[:1500]
        if not own or (code not in (0, 1) and not bad):
            why = programs.why(code, output)
        cases.append({"case": name, "holds": not why, **({"why": why} if why else {})})
    return cases, seconds


def cases_job(path, names, limit_s):
    def job(runner):
        if not names:
            return {"holds": False, "what": f"{path.name} lists no case: it does not start"}
        cases, seconds = run_cases(runner, path, names, limit_s)
        return row_of(cases, f"in {seconds:.0f} s")
    return job


def row_of(cases, how):
    good = sum(case["holds"] for case in cases)
    bad = "; ".join(f"{case['case']}: {case['why'][:160]}" for case in cases if not case["holds"])
    return {"holds": not bad, "what": f"{good} of {len(cases)} cases {how}{f': {bad}' if bad else ''}"[:600], "cases": cases}


def examine(runner, path, row):
    """Runs what failed again when nothing else runs: alone, without overlapping kernels, under memcheck."""
    failed = [case for case in row["cases"] if not case["holds"]]
    for case in failed:
        name = [case["case"]]
        alone = run_cases(runner, path, name, 60)[0][0]
        if alone["holds"]:
            case["why"] = f"{ALONE}; beside others: {case['why']}"
            continue
        apart = run_cases(runner, path, name, 60, {"QRL_CUDA_OVERLAP": "0"})[0][0]
        code, output, _ = sanitize(runner, "memcheck", [str(path), escaped(case["case"])], 60)
        case["why"] = (f"{alone['why']} | with QRL_CUDA_OVERLAP=0 it {'holds' if apart['holds'] else 'fails'} | memcheck, exit code "
                       f"{code}: {' '.join(line for line in output.splitlines() if '=========' in line)[:800]}")
    if any(case["why"].startswith(ALONE) for case in failed):  # together, when no other program runs
        now = {case["case"]: case["holds"] for case in run_cases(runner, path, [case["case"] for case in row["cases"]], 90)[0]}
        for case in failed:
            if case["why"].startswith(ALONE) and now[case["case"]]:
                case |= {"holds": True, "why": f"holds when no other program runs; {case['why']}"}
    return row_of(row["cases"], f"and {len(failed)} again")


# ---- trainings

def small_run(folder, steps, settings):
    overrides = [f"trainer.default_local_dir={folder}", f"model.path={programs.cold_start()}", *SMALL, f"trainer.total_training_steps={steps}", *settings]
    return [program("qrl-train"), ROOT / programs.RECIPE, *programs.set_words(overrides)]


def learning(folder):
    """The steps' rows without times and evaluations, of which a run that was cut has one more."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if not key.startswith(("timing_s/", "perf/", "val"))} for row in rows if "critic/score/mean" in row]


CUT_RUNS = {"rollout.device": (["rollout.device=cuda"], "model"), "trainer.device": (["trainer.device=cuda"], "model"),
            "adapters, bitwise int8": (["trainer.device=cuda", "lora.rank=8", "quant.learner.forward=low_bit",
                                        "quant.rollout.weights=int8", "optim.lr=1e-3", "rollout.bitwise=true"], "adapter_model"),
            "adapters, rollout.device": (["rollout.device=cuda", "lora.rank=8", "optim.lr=1e-3"], "adapter_model")}


def cut_job(work, name):
    """4 steps have the bits of 2 and 2, whose ticks have the same rows. With rollout.bitwise the gap is 0."""
    settings, stored = CUT_RUNS[name]

    def job(runner):
        for folder, steps in (("whole", 4), ("cut", 2), ("cut", 4)):
            code, output, _ = runner.run(small_run(work / name / folder, steps, [*settings, "eval.freq=0"]), 60)
            if code != 0:
                return {"holds": False, "what": f"{folder}, {steps} steps: {programs.why(code, output)}"}
        weights = [(work / name / folder / "checkpoints" / "step_4" / f"{stored}.safetensors").read_bytes() for folder in ("whole", "cut")]
        whole, cut = learning(work / name / "whole"), learning(work / name / "cut")
        gaps = [row["mismatch/k3_kl"] for row in whole]  # null: a step whose groups are all flat
        bitwise = "rollout.bitwise=true" in settings
        exact = set(gaps) in ({0.0}, {0.0, None})
        return {"holds": whole == cut and weights[0] == weights[1] and (exact or not bitwise),
                "what": f"metrics {'equal' if whole == cut else 'DIFFER'}, weights {'equal' if weights[0] == weights[1] else 'DIFFER'}"
                        f"; k3 {gaps}{', 0 wanted' if bitwise else ''}"}
    return job


def curve_job(work, device):
    """A training of CURVE_STEPS steps whose rewards and gap compare_curves reads."""
    def job(runner):
        settings = [f"trainer.device={device}", f"trainer.save_freq={CURVE_STEPS}", f"eval.freq={CURVE_STEPS}"]
        code, output, seconds = runner.run(small_run(work / f"curve-{device}", CURVE_STEPS, settings), 110)
        if code != 0:
            return {"holds": False, "what": programs.why(code, output)}
        rows = learning(work / f"curve-{device}")
        rewards, gap = [row["critic/score/mean"] for row in rows], mean([row["mismatch/k3_kl"] or 0.0 for row in rows])
        return {"holds": len(rows) == CURVE_STEPS, "what": f"reward {mean(rewards[:5]):.3f} -> {mean(rewards[-5:]):.3f}, k3 {gap:.2e}, {seconds:.0f} s",
                "rewards": rewards, "gap": gap}
    return job


def mean(values):
    return sum(values) / len(values) if values else float("nan")


def compare_curves(gpu, cpu):
    """The row of the GPU's training beside the CPU's, of the same prompts and random numbers."""
    distance = mean([(a - b) ** 2 for a, b in zip(gpu["rewards"], cpu["rewards"])]) ** 0.5
    ratio = gpu["gap"] / cpu["gap"]
    return {"holds": distance <= MAX_CURVE_DISTANCE and ratio <= MAX_GAP_RATIO,
            "what": f"rewards of a step differ by {distance:.3f} (root of the mean square; at most {MAX_CURVE_DISTANCE}), mean "
                    f"{mean(gpu['rewards']):.3f} and {mean(cpu['rewards']):.3f}; k3 {ratio:.2f} times the CPU's (at most {MAX_GAP_RATIO:.0f})"}


# ---- tools

SUMMARY = " SUMMARY: "  # memcheck: ERROR SUMMARY, racecheck: RACECHECK SUMMARY
SIX_CASES = "device KV: copied slots*,device embedding*,device swiglu*,streamed GEMMs: a row*,device attention: NaN*,CUDA graph: repeats*"
SANITIZED = (("memcheck", "six small cases", SIX_CASES), ("racecheck", "six small cases", SIX_CASES),
             ("memcheck", "a decoder", "CUDA graphs: one per*"))  # racecheck may take long for libraries' kernels


def sanitize(runner, tool, command, limit_s):
    """Runs a program under compute-sanitizer: (exit code, 9 where it found an error, output, seconds)."""
    under = ["compute-sanitizer", "--tool", tool, "--error-exitcode", 9, "--target-processes", "all"]
    # Our libraries are the program's alone, not the tool's.
    ours = [shutil.which("env"), f"LD_LIBRARY_PATH={programs.environment()[0]['LD_LIBRARY_PATH']}"]
    done = runner.run([*under, *ours, *command], limit_s, is_tool=True)
    # A sanitizer that does not follow env to the program says nothing of it.
    return done if SUMMARY in done[1] or done[0] in (124, 127) else runner.run([*under, *command], limit_s)


def sanitizer_job(tool, cases):
    def job(runner):
        if shutil.which("compute-sanitizer") is None:
            return {"holds": None, "left_out": True, "what": "left out: compute-sanitizer is not installed here"}
        code, output, seconds = sanitize(runner, tool, [str(program("test_cuda_device")), cases], 100)
        return {"holds": code == 0 and SUMMARY in output, "what": f"exit code {code} in {seconds:.0f} s; {''.join(output.strip()[-100:].splitlines()[-1:])}"}
    return job


def jobs(runner, work):
    """Name and job, those first that take longest or say most. Each returns a row: holds, what and figures."""
    learner, device = program("test_learner"), program("test_cuda_device")
    programs.cold_start()
    found, listing = {"libraries": libraries}, programs.Runner(60, runner.log)
    for name in names_of(listing, [learner, "[gpu]"]) or [""]:
        found[f"learner: {name or 'cases'}"] = cases_job(learner, [name] if name else [], 110)
    cases = names_of(listing, [device])
    for i in range(SHARDS):
        found[f"device cases, {i + 1} of {SHARDS}"] = cases_job(device, cases[i::SHARDS], 100)
    for tool, what, patterns in SANITIZED:
        found[f"compute-sanitizer {tool}, {what}"] = sanitizer_job(tool, patterns)
    for where, name in CURVES.items():
        found[name] = curve_job(work, where)
    for name in CUT_RUNS:
        found[f"cut and resumed, {name}"] = cut_job(work, name)
    return found
