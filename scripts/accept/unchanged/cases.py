"""What scripts/accept/check_unchanged compares: trainings, as data, and commands, as functions.

A training's recipe and settings, a fixture's too, are the base's: the base's recipe files are read by both programs.
"""
import collections
import gzip
import json
import shutil

import results
from runner import Failed

# `recipe` is trained with `settings` for their number of steps; `quick`: part of --quick.
# `fixture` names a run folder that the base wrote: the training continues in a copy of it, without its checkpoint `drop`.
Training = collections.namedtuple("Training", "recipe settings ranks fixture drop quick", defaults=((), 1, None, None, True))
# `run(runner, out)` leaves files in `out`. `needs_data`: the shared data; `fixtures`: names of what the base wrote.
Command = collections.namedtuple("Command", "run needs_data fixtures quick", defaults=(False, (), True))

COUNTDOWN = "recipes/countdown_quickstart.yaml"
COLD = "sft.from=fixtures/{}/checkpoints/sft_{}"
COLD_COUNTDOWN = COLD.format("cold-countdown", 1800)
FEWER = ("sft.steps=600",)  # enough for some right answers
SHORT_COLD = ("sft.steps=20", "sft.save_freq=10")
SMALL = ("data.val_files=[]", "data.val_generator.size=32", "eval.n=2", "data.train_batch_size=8", "actor.mini_batch_size=4",
         "rollout.n=4", "trainer.total_training_steps=3", "eval.freq=3")
# What the resumed runs have: a checkpoint after two of four steps.
HALF = (COLD_COUNTDOWN, *SMALL, "trainer.total_training_steps=2", "trainer.save_freq=2")
WHOLE = ("trainer.total_training_steps=4",)
# The margin was the default once; scales of every update also see responses since then.
KV_ONCE = ("quant.rollout.kv_cache=fp8_e4m3", "quant.kv_calibration.when=once", "quant.kv_calibration.margin=1.05")
ZERO = ("trainer.zero_stage=1",)
PROFILE = ("quant.rollout.profile=auto",)
KL = ("algorithm.kl_loss_coef=0.01",)
# What these recipes name since the keys' defaults changed; an older base's files do not.
NAMED = ("quant.learner.forward=bf16", "rollout.bitwise=false", "quant.rollout.kv_cache=int8")
TOYS = (COUNTDOWN, "recipes/sudoku_4x4.yaml", "recipes/arithmetic_boxed.yaml")
QUICKSTART = ("trainer.seed=0", "trainer.save_freq=30", "trainer.max_ckpt_to_keep=2")

# Written by the base and read by both. A fixture: the command's words, recipe, settings, ranks.
FIXTURES = {
    "cold-countdown": (("sft",), COUNTDOWN, (), 1),
    "cold-sudoku": (("sft",), "recipes/sudoku_4x4.yaml", FEWER, 1),
    "cold-arithmetic": (("sft",), "recipes/arithmetic_boxed.yaml", FEWER, 1),
    "cold-short": (("sft",), COUNTDOWN, (*SHORT_COLD, *SMALL), 1),
    "step_2": ((), COUNTDOWN, HALF, 1),
    "kl": ((), COUNTDOWN, (*HALF, *KL), 1),
    "zero": ((), COUNTDOWN, (*HALF, *ZERO), 2),
    "profile": ((), COUNTDOWN, (*HALF, *PROFILE), 1),
    "kv-once": ((), COUNTDOWN, (*HALF, *KV_ONCE), 1),
    "muon": ((), COUNTDOWN, (*HALF, "optim.name=muon"), 1),
    "step_30": ((), COUNTDOWN, (COLD_COUNTDOWN, *QUICKSTART, "trainer.total_training_steps=30"), 1),
}

MODES = ("bf16", "flashrl", "fp8rl", "fp8rl_end_to_end", "qurl", "qarl", "ais")

# One of each loss, correction, KL estimator, aggregation and shaping, several to a run. Bounds are tight, so that they act.
VARIANTS = {
    "dr_grpo": ("algorithm.name=dr_grpo", "rollout_correction.method=icepop", "rollout_correction.threshold=1.01",
                "rollout_correction.threshold_low=0.99", "algorithm.kl_loss_coef=0.01", "algorithm.kl_loss_type=k2",
                "algorithm.loss_agg_mode=token-sum"),
    "dapo": ("algorithm.name=dapo", "rollout_correction.method=mis_prod", "rollout_correction.threshold=1.05",
             "algorithm.kl_loss_coef=0.01", "algorithm.kl_loss_type=k2", "algorithm.filter_groups.enable=true",
             "algorithm.filter_groups.on_exhausted=train_partial", "reward.overlong_buffer.enable=true",
             "reward.overlong_buffer.len=64"),
    "gspo": ("algorithm.name=gspo", "rollout_correction.method=mis_geo", "algorithm.kl_loss_coef=0.01", "reward.format=0.1"),
    "tbpo": ("algorithm.name=tbpo", "rollout_correction.method=tbpo", "algorithm.tbpo.mismatch_action=drop",
             "algorithm.tbpo.seq_tis_imp_ratio_cap=1.001"),
    "grpo-ais": ("rollout_correction.method=ais", "actor.ppo_epochs=2", "algorithm.loss_agg_mode=seq-mean-token-sum-norm",
                 "algorithm.norm_adv_by_std=false"),
    "grpo-acr": ("rollout_correction.acr=true", "rollout_correction.threshold=1.01", "actor.ppo_epochs=2", "optim.name=muon",
                 "actor.activation_checkpointing=true", "algorithm.mask_truncated=true", "data.max_response_length=24"),
    "grpo-none": ("rollout_correction.method=none", "rollout_correction.behaviour_in_ratio=true",
                  "algorithm.entropy_coef=0.001", "algorithm.clip_ratio_c=3",
                  "algorithm.loss_agg_mode=seq-mean-token-sum", "rollout.top_p=0.9", "rollout.top_k=50"),
}

# Formats of sampler and learner: those of scripts/accept/check_quickstart.
LOW_BIT, BF16_PAGES = "quant.learner.forward=low_bit", "quant.rollout.kv_cache=bf16"
FORMATS = {
    "fp32": ("quant.rollout.weights=fp32", "model.dtype=float32", "quant.rollout.kv_cache=fp32"),
    "fp8-tensor": ("quant.rollout.weights=fp8_e4m3", "quant.rollout.granularity=tensor", BF16_PAGES),
    "fp8-channel": ("quant.rollout.weights=fp8_e4m3", "quant.rollout.granularity=channel_token", LOW_BIT, BF16_PAGES),
    "fp8-block": ("quant.rollout.weights=fp8_e4m3", "quant.rollout.granularity=block128",
                  "quant.rollout.kv_cache=fp8_e4m3", LOW_BIT, "quant.learner.backward=fp8_e4m3"),
    "int4": ("quant.rollout.weights=int4", LOW_BIT, BF16_PAGES),
    "int4-int8": ("quant.rollout.weights=int4", "quant.rollout.activations=int8", "quant.learner.forward=fake_quant"),
    "int8": (LOW_BIT, "quant.learner.backward=int8", "quant.rollout.ignore=[down_proj]"),
    "bf16-learner": ("model.dtype=bfloat16", "sft.from=null", "sft.steps=6"),
}


def named(recipe, settings):
    """The settings, after those that the recipe names today."""
    return (*NAMED, *settings) if recipe in TOYS else settings


def written(runner, name):
    """Makes the fixture `name`; the base does, once."""
    command, recipe, settings, ranks = FIXTURES[name]
    runner.train(recipe, named(recipe, settings), run=f"made/{name}", ranks=ranks, command=command)
    return runner.folder / "made" / name


def train(training, runner, out):
    """A training's rows, checkpoint, result line and export."""
    run = runner.folder / "run"
    if training.fixture:
        shutil.copytree(runner.folder / "fixtures" / training.fixture, run)
        if training.drop:
            shutil.rmtree(run / "checkpoints" / training.drop)
    _, said = runner.train(training.recipe, named(training.recipe, training.settings), ranks=training.ranks)
    results.keep_run(out, run)
    lines = [line for line in said.decode(errors="replace").splitlines() if line.startswith("held-out ")]
    (out / "result.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    checkpoint = results.last_checkpoint(run).relative_to(runner.folder)
    runner.call("export", checkpoint, "--out", "exported")
    results.keep_hashes(out, "exported.sha256", {path.name: path for path in (runner.folder / "exported").iterdir()})


def data(runner, out):
    for name, arguments in {
            "countdown": ("countdown", "--size", 3000), "countdown_held_out": ("countdown", "--split", "held_out", "--seed", 7),
            "countdown_large": ("countdown", "--min-numbers", 2, "--max-numbers", 5, "--max-number", 99, "--max-target", 999),
            "sudoku": ("sudoku", "--size", 500), "sudoku_9": ("sudoku", "--grid-size", 9, "--min-empty", 20,
                                                             "--max-empty", 40, "--size", 60),
            "sudoku_held_out": ("sudoku", "--split", "held_out", "--size", 100),
            "arithmetic": ("arithmetic", "--size", 3000), "arithmetic_long": ("arithmetic", "--min-steps", 2, "--max-steps", 5),
            "arithmetic_held_out": ("arithmetic", "--split", "held_out", "--seed", 3)}.items():
        runner.call("data", *arguments, "--out", "made.jsonl")
        shutil.move(runner.folder / "made.jsonl", out / f"{name}.txt")  # bytes, not rows; the store may be on another file system


def rows_of(path):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def judge(runner, out):
    """Verdicts of every judge over the shared data, in every profile."""
    shared, datasets = runner.folder / "data" / "verifier", runner.folder / "data" / "datasets"

    def verdicts(name, rows, *arguments):
        lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
        (out / f"{name}.txt").write_bytes(runner.call("judge", *arguments, stdin=lines))

    math = [{"response": row["output"], "ground_truth": row["gold"]}
            for row in rows_of(shared / "real_outputs_math_sample.jsonl.gz")]
    math += [{"response": row["pred"], "ground_truth": row["gold"]} for row in rows_of(shared / "math_verifier_cases.jsonl")]
    math += [{"response": row["text"], "ground_truth": row["gold"]} for row in rows_of(shared / "verifier_hostile_math.jsonl")
             if row.get("text")]
    for profile in ("auto", "boxed", "gsm8k", "answer_is", "answer_tag", "text", "last_number"):
        verdicts(f"math_{profile}", math, "--verifier", "math", "--profile", profile)
    verdicts("math_default", math, "--verifier", "math")
    verdicts("math_value", math, "--verifier", "math", "--answer-form", "value")
    golds = [row["answer"] for name in ("gsm8k_train", "gsm8k_test", "math500", "olympiadbench", "svamp", "deepmath_roll_4994")
             for row in rows_of(datasets / f"{name}.jsonl") if isinstance(row.get("answer"), str)]
    verdicts("math_golds", [{"response": gold, "ground_truth": gold} for gold in golds], "--verifier", "math")
    countdown = [{"response": row["pred"], "numbers": row["numbers"], "target": row["target"]}
                 for row in rows_of(shared / "countdown_cases.jsonl")]
    for numbers in ("all", "subset"):
        verdicts(f"countdown_{numbers}", countdown, "--verifier", "countdown", "--numbers", numbers)
    sudoku = [{"response": row["pred"], "puzzle": row["puzzle"], "solution": row["solution"]}
              for row in rows_of(shared / "sudoku_cases.jsonl")]
    verdicts("sudoku", sudoku, "--verifier", "sudoku")
    verdicts("sudoku_own", [{"response": row["solution"], "puzzle": row["puzzle"]}
                            for row in rows_of(shared / "sudoku_generated.jsonl")], "--verifier", "sudoku")


def tokenize(runner, out):
    """Ids of the golden texts, as control tokens and plain, and the same back; every tokenizer of the shared data."""
    shared = runner.folder / "data" / "tokenizer"
    texts = [row["text"] for row in rows_of(shared / "qwen3_golden.jsonl.gz")]
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
    for name in ("qwen3", "phi2/tokenizer.json"):
        stem = name.partition("/")[0].removesuffix(".json")
        for flags in ((), ("--plain",), ("--add-special-tokens",)):
            said = runner.call("tokenize", shared / name, "--jsonl", *flags, stdin=lines)
            (out / f"{stem}{''.join(flags).replace('--', '_')}.txt").write_bytes(said)
        ids = [one for line in said.splitlines() for one in json.loads(line)["ids"]]
        words = " ".join(map(str, ids)).encode()
        (out / f"{stem}_decoded.txt").write_bytes(runner.call("tokenize", shared / name, "--decode", stdin=words))


def recipe_files(runner, folder):
    return sorted(path.relative_to(runner.folder / folder) for path in (runner.folder / folder).rglob("*.yaml"))


def shown_config(runner, recipe):
    """--print-config of a recipe, without the place of the folder in which the program runs."""
    return runner.call(recipe, "--print-config").replace(str(runner.folder).encode() + b"/", b"")


def print_config(runner, out):
    """--print-config of every recipe of the base."""
    names = recipe_files(runner, "recipes")
    for name, config in zip(names, runner.each(lambda name: shown_config(runner, "recipes" / name), names)):
        (out / f"{name.as_posix().replace('/', '_')}.txt").write_bytes(config)


def own_recipes(runner, out):
    """The values that --print-config shows of the program's own recipes that the base also has."""
    names = [name for name in recipe_files(runner, "recipes") if (runner.folder / "own_recipes" / name).exists()]
    for name, config in zip(names, runner.each(lambda name: shown_config(runner, "own_recipes" / name), names)):
        # The comments name lines of the recipe, which may have moved.
        lines = config.decode().replace("own_recipes/", "recipes/").splitlines()
        values = [line.partition("  # ")[0].rstrip() for line in lines]
        (out / f"{name.as_posix().replace('/', '_')}.txt").write_text("\n".join(values) + "\n", encoding="utf-8")


def checks(runner, out):
    """Exit codes of `check` over the malformed files of the shared data."""
    folder = runner.folder / "data" / "malformed"
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.parent != folder)
    codes = runner.each(lambda path: runner.run("check", path.parent.name, path).returncode, files)
    lines = [f"{path.relative_to(folder)} {code}\n" for path, code in zip(files, codes)]
    (out / "exit_codes.txt").write_text("".join(lines), encoding="utf-8")


def sampling(runner, out):
    """eval and generate of the base's cold start: figures, responses, the texts of generate."""
    cold = "fixtures/cold-countdown/checkpoints/sft_1800"
    small = ("--set", "data.val_files=[]", "--set", "data.val_generator.size=32", "--set", "eval.n=4", "--set",
             "trainer.threads=2")
    runner.call("eval", COUNTDOWN, *small, "--checkpoint", cold, "--out", "scored")
    scored = json.loads((runner.folder / "scored" / "results.json").read_text())
    (out / "results.txt").write_text(json.dumps(scored, indent=1, sort_keys=True), encoding="utf-8")
    results.keep_rows(out, "responses.jsonl", runner.folder / "scored" / "responses.jsonl")
    for name, flags in {"sampled": ("--n", 3, "--seed", 5), "greedy": ("--temperature", 0),
                        "bounded": ("--top-p", 0.9, "--top-k", 20, "--max-tokens", 30)}.items():
        (out / f"{name}.txt").write_bytes(runner.call(
            "generate", cold, "--prompt", "3 8 12 = 36\n", "--prompt", "1 2 3 = 6\n", "--json", *flags))


def profile(runner, out):
    runner.call("profile", COUNTDOWN, "--checkpoint", "fixtures/cold-countdown/checkpoints/sft_1800", "--out",
                "profile.safetensors")
    results.keep_hashes(out, "profile.sha256", {"profile.safetensors": runner.folder / "profile.safetensors"})


def export_logits(runner, out):
    runner.call("export", "fixtures/cold-countdown/checkpoints/sft_1800", "--out", "hf", "--dtype", "bfloat16", "--logits",
                "logits.safetensors")
    files = {"logits.safetensors": runner.folder / "logits.safetensors", "model": runner.folder / "hf" / "model.safetensors"}
    results.keep_hashes(out, "export.sha256", files)


def all_cases():
    """Name -> Training or Command, in the order in which they run."""
    cases = {
        "print-config": Command(print_config), "own recipes": Command(own_recipes, quick=False),
        "data": Command(data), "judge": Command(judge, needs_data=True),
        "tokenize": Command(tokenize, needs_data=True), "check": Command(checks, needs_data=True, quick=False),
        "eval and generate": Command(sampling, fixtures=("cold-countdown",)),
        "profile": Command(profile, fixtures=("cold-countdown",)), "export": Command(export_logits, fixtures=("cold-countdown",)),
        "cold start": Training(COUNTDOWN, (*SHORT_COLD, *SMALL)),
    }
    for mode in MODES:
        cases[f"mode {mode}"] = Training(f"recipes/countdown/{mode}.yaml", (COLD_COUNTDOWN, *SMALL))
    cases["bitwise"] = Training(COUNTDOWN, (COLD_COUNTDOWN, *SMALL, LOW_BIT, "rollout.bitwise=true"))
    cases["mpirun -np 2"] = Training(COUNTDOWN, (COLD_COUNTDOWN, *SMALL), 2)
    cases["mpirun -np 2, ZeRO"] = Training(COUNTDOWN, (COLD_COUNTDOWN, *SMALL, *ZERO), 2)
    cases["sudoku"] = Training("recipes/sudoku_4x4.yaml", (COLD.format("cold-sudoku", 600), *FEWER, *SMALL))
    cases["arithmetic"] = Training("recipes/arithmetic_boxed.yaml", (COLD.format("cold-arithmetic", 600), *FEWER, *SMALL))
    for name, settings in VARIANTS.items():
        cases[f"loss {name}"] = Training(COUNTDOWN, (COLD_COUNTDOWN, *SMALL, *settings))
    for name, settings in FORMATS.items():
        cases[f"format {name}"] = Training(COUNTDOWN, (COLD_COUNTDOWN, *SMALL, "trainer.total_training_steps=2", *settings))
    cases["resume cold start"] = Training(COUNTDOWN, (*SHORT_COLD, *SMALL), fixture="cold-short")
    cases["resume half a cold start"] = Training(COUNTDOWN, (*SHORT_COLD, *SMALL), fixture="cold-short", drop="sft_20")
    for name, settings, ranks in (("step_2", (), 1), ("kl", KL, 1), ("zero", ZERO, 2), ("profile", PROFILE, 1),
                                  ("kv-once", KV_ONCE, 1), ("muon", ("optim.name=muon",), 1)):
        cases[f"resume {name}"] = Training(COUNTDOWN, (*HALF, *settings, *WHOLE), ranks, name)
    for mode in MODES:
        cases[f"whole batch, {mode}"] = Training(
            f"recipes/countdown/{mode}.yaml", (COLD_COUNTDOWN, "trainer.total_training_steps=3", "eval.freq=3"), quick=False)
    cases["resume step_30"] = Training(COUNTDOWN, (COLD_COUNTDOWN, *QUICKSTART), fixture="step_30", quick=False)
    cases["quickstart"] = Training(COUNTDOWN, QUICKSTART, quick=False)
    return cases


def fixtures_of(case):
    """Names of the fixtures that a case reads."""
    if isinstance(case, Command):
        return set(case.fixtures)
    return {name for name in FIXTURES if name == case.fixture or any(f"fixtures/{name}/" in one for one in case.settings)}


def execute(case, runner, out):
    try:
        if isinstance(case, Training):
            train(case, runner, out)
        else:
            case.run(runner, out)
    except (OSError, ValueError, KeyError) as error:  # a file or a field that the case expects is missing
        raise Failed(f"{type(error).__name__}: {error}") from error
