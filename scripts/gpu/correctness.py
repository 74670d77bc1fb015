"""Whether what a GPU computes is right, and the same each time: the parts of scripts/gpu/check that hold or fail."""
import json
import re
import shutil

from programs import ROOT, escaped

OPERATIONS = "operations against the CPU"
RESULT = re.compile(r"^held-out countdown mean@8: (\d\.\d{3}) -> (\d\.\d{3})$", re.M)


class NoGpu(Exception):
    """There is no GPU here: nothing can be checked."""


def check_libraries(session):
    """Driver, cuBLASLt, LibTorch, NCCL: which version is wanted, which is here. Said before anything else is tried."""
    code, output, _ = session.run([session.programs.train, "check", "gpu"], 60)
    found = [line.strip() for line in output.splitlines() if line.strip()]
    if code not in (0, 2):  # the loader's words: the program has not begun
        found = [f"qrl-train does not start (exit code {code}): {' '.join(found)[-300:]}", session.programs.torch]
    session.note("libraries", code == 0, "; ".join(found))


def check_cases(session, name, command):
    """A test program's cases, each in the row's JSON with what it said; none at all is a failure."""
    seconds, output, cases, code = session.cases_of(command, 300)
    if code == 4 and name == OPERATIONS:
        raise NoGpu(next((line.strip() for line in output.splitlines() if "NVIDIA" in line), "no GPU"))
    # A case that ends the program, or leaves the device with an error, takes the others with it: each again, alone.
    whole = bool(cases)
    if not whole:
        session.say(f"exit code {code}, no report: each case by itself\n{output[-1000:]}")
        listed = session.run([*command, "--list-test-names-only"], 60)[1]
        cases = [{"case": line.strip(), "holds": False} for line in listed.splitlines() if line.strip()]
    for case in cases:
        if case["holds"] or session.left_s() < 10:
            continue
        alone_s, said, found, alone_code = session.cases_of([command[0], escaped(case["case"])], 60)
        case |= found[0] if found else {"why": f"exit code {alone_code} after {alone_s:.0f} s: {said[-500:]}"}
        if case["holds"] and whole:
            case |= {"holds": False, "why": "holds alone, not behind the others"}
        elif not case["holds"] and session.left_s() > 10:
            apart = session.cases_of([command[0], escaped(case["case"])], 60, {**session.env, "QRL_CUDA_OVERLAP": "0"})[2]
            if apart and apart[0]["holds"]:
                case["why"] = f"holds with QRL_CUDA_OVERLAP=0, kernels one after the other; else: {case.get('why', '')}"
        if not case["holds"]:
            session.say(f"FAILS  {case['case']}\n{case.get('why', 'not run alone')[:500]}")
    good = sum(case["holds"] for case in cases)
    session.note(name, code == 0 and good == len(cases) and good > 0, f"{good} of {len(cases)} cases in {seconds:.0f} s",
         cases=cases)


def trained(session, folder, recipe, settings, limit_s):
    command = [session.programs.train, recipe, "--set", f"trainer.default_local_dir={folder}"]
    for setting in settings:
        command += ["--set", setting]
    return session.run(command, limit_s)


def metrics(folder):
    text = (folder / "metrics.jsonl").read_text()
    return [{key: value for key, value in json.loads(line).items() if not key.startswith(("timing_s/", "perf/"))}
            for line in text.splitlines()]


def check_same_when_cut(session, name, work, settings, stored):
    """A resumed run has the ticks of a whole one, row for row, and so its bits. Ticks of another number of rows would not do:
    a row of bf16 or fp8 may then differ in the last bit, except with rollout.bitwise. Returns the whole run's metrics."""
    # bf16, and responses of more than FlashAttention's block of 128 keys.
    recipe = ROOT / "recipes" / "countdown_quickstart.yaml"
    for folder, steps in (("whole", (4,)), ("cut", (2, 4))):
        for total in steps:
            code, output, _ = trained(session, work / folder, recipe,
                                      [*settings, "sft.steps=60", "eval.freq=0", f"trainer.total_training_steps={total}"], 120)
            if code != 0:
                return session.note(name, False, f"exit code {code}: {output[-400:]}")
    # The run that was cut evaluates at its first end, too.
    def learning(folder):
        return [{key: value for key, value in row.items() if not key.startswith("val")} for row in metrics(work / folder)]
    weights = [(work / folder / "checkpoints" / "step_4" / stored).read_bytes() for folder in ("whole", "cut")]
    session.note(name, learning("whole") == learning("cut") and weights[0] == weights[1],
         "4 steps are the bits of 2 and 2, whose ticks have the same rows: metrics and weights")
    return learning("whole")


def check_resume(session, device):
    check_same_when_cut(session, f"save, resume ({device})", session.work / device, [f"{device}=cuda"], "model.safetensors")


def check_adapters(session):
    """Adapters on an int8 base that sampler and learner share, and on a bf16 base of the CPU's learner."""
    name = "adapters, save, resume"
    rows = check_same_when_cut(session, name, session.work / "adapters",
                               ["trainer.device=cuda", "lora.rank=8", "quant.learner.forward=low_bit", "quant.rollout.weights=int8",
                                "optim.lr=1e-3", "rollout.bitwise=true"], "adapter_model.safetensors")
    if rows is not None:
        gaps = [row["mismatch/k3_kl"] for row in rows]
        session.note("adapters, rollout.bitwise", all(gap == 0 for gap in gaps), f"k3 of the steps: {gaps}")
    check_same_when_cut(session, name + " (rollout.device)", session.work / "adapters-sampler",
                        ["rollout.device=cuda", "lora.rank=8", "optim.lr=1e-3"], "adapter_model.safetensors")


def check_learning(session, device):
    name = f"the quickstart learns ({device})"
    code, output, seconds = trained(session, session.work / f"quickstart-{device}",
                                    ROOT / "recipes" / "countdown_quickstart.yaml", [f"{device}=cuda"], 300)
    result = RESULT.findall(output)
    if code != 0 or not result:
        return session.note(name, False, f"exit code {code}: {output[-400:]}")
    before, after = map(float, result[-1])
    session.note(name, after - before >= 0.15, f"held-out {before:.3f} -> {after:.3f} in {seconds:.0f} s",
         before=before, after=after, seconds=seconds)


def check_sanitizer(session):
    tool = shutil.which("compute-sanitizer", path=session.env["PATH"])
    if tool is None:
        return session.note("compute-sanitizer", None, "not installed here")
    small = "copied slots*,embedding*,swiglu*,streamed GEMMs of a row*,NaN among keys*,a graph does*"
    # A whole decoder has libraries' kernels in it, which racecheck may take long for.
    for check, what, cases in (("memcheck", "six small cases", small), ("racecheck", "six small cases", small),
                               ("memcheck", "a decoder", "graphs are few*")):
        code, output, seconds = session.run([tool, "--tool", check, "--error-exitcode", "9",
                                             session.programs.tests, cases], 120)
        last = output.strip().splitlines()[-1:] or [""]
        session.note(f"compute-sanitizer {check}, {what}", code == 0, f"{seconds:.0f} s; {last[0][-80:]}")


def check_bitwise(session):
    """A step learns from what it drew: `bench step` ends where a log-prob is a bit away from the sampler's."""
    step = ["--shape", "86m", "--rounds", 2, "--set", "trainer.device=cuda", "--set", "quant.learner.forward=low_bit",
            "--set", "actor.activation_checkpointing=true"]
    for weights, kv in (("int8", "int8"), ("int8", "bf16")):
        name = f"bitwise on the device, {weights} weights, {kv} KV"
        formats = ["--set", f"quant.rollout.weights={weights}", "--set", f"quant.rollout.kv_cache={kv}"]
        plain, error = session.figures_of("step", *step, *formats)
        figures, bitwise_error = session.figures_of("step", *step, *formats, "--set", "rollout.bitwise=true")
        if plain is None or figures is None:
            session.note(name, False, bitwise_error or error)
            continue
        costs = ", ".join(f"{what} {figures[key] / plain[key] - 1:+.0%}"
                          for what, key in (("step", "step_s"), ("draw", "gen_s"), ("learner", "learner_s")))
        session.note(name, figures["bitwise_tokens_differing"] == 0 and figures["k3_kl"] == 0,
             f"{figures['bitwise_tokens_differing']} of {figures['bitwise_tokens_compared']} log-probs differ by a bit; {costs}",
             **figures, plain=plain)
