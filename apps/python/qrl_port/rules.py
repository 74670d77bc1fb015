"""Owns the rules of other_trainers.yaml: how a value becomes one of a recipe where copying would change its meaning."""
from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from qrl_port import Read

if TYPE_CHECKING:
    from qrl_port.translate import Row, Translation

Rule = Callable[["Translation", Read, "Row"], None]
RULES: dict[str, Rule] = {}
MOST_PROMPTS = 1_048_576
SIZES_OF_TRL = ("per_device_train_batch_size", "gradient_accumulation_steps", "steps_per_generation", "generation_batch_size")


def rule(function: Rule) -> Rule:
    RULES[function.__name__] = function
    return function


def is_true(value: Any) -> bool:
    return str(value).lower() in ("true", "1")


@rule
def flag(t: Translation, read: Read, row: Row) -> None:
    """Sets a switch; a section's own names are read for themselves."""
    t.put(row.keys()[0], is_true(read.value), read)


@rule
def unless(t: Translation, read: Read, row: Row) -> None:
    """Sets KEY: VALUE where the flag is false."""
    if is_true(read.value):
        t.skip(read, "nothing to set")
    else:
        key, _, value = row.key.partition(": ")
        t.put(key, int(value) if value.isdigit() else value, read, row.note)


@rule
def model(t: Translation, read: Read, row: Row) -> None:
    t.put("model.path", read.value, read)


@rule
def modules(t: Translation, read: Read, row: Row) -> None:
    t.put("lora.target_modules", read.value if read.value == "all-linear" or isinstance(read.value, list) else [read.value], read)


RULES["list"] = lambda t, read, row: t.put(row.keys()[0], read.value if isinstance(read.value, list) else [read.value], read) if read.value else (
    t.skip(read, "nothing to set"))


@rule
def files(t: Translation, read: Read, row: Row) -> None:
    """Sets files of prompts. A data set of the Hub becomes the folder into which hf downloads it, and a split."""
    key, value = row.keys()[0], read.value
    if read.kind == "load_dataset":
        hub(t, read, key, *value)
    elif isinstance(value, str) and re.fullmatch(r"[\w.-]+/[\w.-]+", value) and not value.endswith((".json", ".jsonl", ".parquet", ".csv")):
        split = t.given.get("dataset_train_split") or "train"
        hub(t, read, key, value, t.given.get("dataset_config"), split)
    elif value is None:
        t.skip(read, "nothing to set")
    else:
        t.put(key, value if isinstance(value, list) else str(value).split(","), read)


def hub(t: Translation, read: Read, key: str, name: str, config: Any, split: str) -> None:
    part = re.sub(r"\[.*", "", str(split))
    notes = [f"hf download --repo-type dataset {name} --local-dir {name}"]
    if config:
        notes.append(f"of its configuration {config}")
    if part != split:
        notes.append(f"the script takes {split}: data.{'train' if key == 'data.train_files' else 'val'}_max_samples")
    t.put(key, [f"{name}:{part}"], read, "; ".join([*notes, *([read.note] if read.note else [])]))


@rule
def part(t: Translation, read: Read, row: Row) -> None:
    """Is a part of a data set's name, which `files` has used."""
    setting = t.settings.get(row.keys()[0])
    if setting is None or read.value is None:
        t.omit(read, f"see {row.key} ({row.note})")
    else:
        setting.names.append(read.name)


@rule
def batch(t: Translation, read: Read, row: Row) -> None:
    """Is a factor of the sizes that `sizes` computes at the end."""
    t.batch_reads.append(read)


@rule
def longest(t: Translation, read: Read, row: Row) -> None:
    """Sets the length that is left: the whole sequence has prompt and response."""
    lengths = ("data.max_prompt_length", "data.max_response_length")
    absent = [key for key in lengths if key not in t.settings or not t.settings[key].names]
    whole = int(read.value) if isinstance(read.value, (int, float)) else 0
    other = [key for key in lengths if key not in absent]
    if len(absent) == 1 and whole > t.tokens(other[0]):
        t.put(absent[0], whole - t.tokens(other[0]), read, f"{whole} tokens of a sequence − {t.tokens(other[0])}")
    else:
        t.skip(read, row.note)


@rule
def samples(t: Translation, read: Read, row: Row) -> None:
    """Turns samples of a micro-batch into tokens."""
    if not isinstance(read.value, int):
        t.skip(read, "nothing to set")
        return
    tokens = read.value * t.longest()
    note = f"{read.value} samples × ({t.tokens('data.max_prompt_length')} + {t.tokens('data.max_response_length')}) tokens"
    most = 1_048_576
    t.put("actor.max_tokens_per_micro_batch", min(tokens, most), read, note + (f", at most {most}" if tokens > most else ""))


@rule
def tokens(t: Translation, read: Read, row: Row) -> None:
    """Sets tokens of a micro-batch, which has room for the longest sequence at least."""
    least = t.longest()
    value = read.value if isinstance(read.value, int) else least
    t.put("actor.max_tokens_per_micro_batch", max(value, least), read, f"raised from {value}: the longest sequence" if value < least else "")


@rule
def gpu(t: Translation, read: Read, row: Row) -> None:
    t.omit(read, "see rollout.gpu_memory_utilization, which needs trainer.device: cuda")


@rule
def overlong(t: Translation, read: Read, row: Row) -> None:
    """Sets what happens to a prompt that is too long, where none are filtered."""
    setting = t.settings.get(row.keys()[0])
    if setting is not None and setting.value == "filter":
        t.skip(read, "prompts that are too long are filtered")
    else:
        t.set_value(row.keys()[0], read)


@rule
def top_k(t: Translation, read: Read, row: Row) -> None:
    t.put("rollout.top_k", -1 if read.value in (None, 0, -1) else read.value, read)


@rule
def off_is_zero(t: Translation, read: Read, row: Row) -> None:
    """Sets a coefficient to 0 where its switch is off."""
    if not is_true(read.value):
        t.settings.pop(row.keys()[0], None) if read.kind == "default" and not t.settings.get(row.keys()[0]) else None
        t.put(row.keys()[0], 0, Read(read.name, read.value, read.line, read.kind, read.note), "")
    else:
        t.skip(read, f"the coefficient is {row.key}")


@rule
def clip(t: Translation, read: Read, row: Row) -> None:
    """Sets both sides of the clip where the script does not name a side of its own."""
    loss = t.settings.get("algorithm.name")
    word = loss.value if loss else "grpo"
    if word in ("cispo", "sapo", "dppo_tv", "dppo_kl"):
        t.omit(read, f"{word} has no such clip")
        return
    for key in ("algorithm.clip_ratio_low", "algorithm.clip_ratio_high"):
        if key not in t.settings or not t.settings[key].names:
            t.put(key, read.value, read)
    if not any(read.name in setting.names for setting in t.settings.values()):
        t.skip(read, "both sides have values of their own")


@rule
def cap(t: Translation, read: Read, row: Row) -> None:
    """Sets the upper side. TRL's cap of cispo is the largest ratio, here it is 1 less."""
    loss = t.settings.get("algorithm.name")
    if read.value is None:
        t.skip(read, "nothing to set")
    elif loss and loss.value == "cispo":
        t.put("algorithm.clip_ratio_high", round(read.value - 1, 12), read, f"ratios up to {read.value}: a cap of 1 + this")
    else:
        t.put("algorithm.clip_ratio_high", read.value, read)


@rule
def pair(t: Translation, read: Read, row: Row) -> None:
    if isinstance(read.value, list) and len(read.value) == 2:
        for key, value in zip(row.keys(), read.value):
            t.put(key, value, read)
    else:
        t.omit(read, "expected two numbers")


@rule
def unbiased(t: Translation, read: Read, row: Row) -> None:
    coefficient = t.settings.get("algorithm.kl_loss_coef")
    if is_true(read.value) and coefficient and coefficient.value:
        t.put("algorithm.kl_loss_type", "unbiased", read, row.note)
    else:
        t.skip(read, "nothing to set")


@rule
def ratio(t: Translation, read: Read, row: Row) -> None:
    """Sets a share of the updates for warm-up; 0 leaves the number of updates."""
    if read.value:
        t.put("optim.lr_warmup_ratio", read.value, read)
        before = t.settings.pop("optim.lr_warmup_steps", None)
        for name in before.names if before else []:
            t.settings["optim.lr_warmup_ratio"].names.append(name)
    elif "optim.lr_warmup_steps" in t.settings and t.settings["optim.lr_warmup_steps"].names:
        t.skip(read, "nothing to set")
    else:
        t.put("optim.lr_warmup_steps", 0, read)


@rule
def warmup(t: Translation, read: Read, row: Row) -> None:
    """Sets updates of warm-up; below 1 it is a share of them, and a negative number leaves the ratio."""
    if isinstance(read.value, float) and 0 < read.value < 1:
        t.put("optim.lr_warmup_ratio", read.value, read)
        t.settings.pop("optim.lr_warmup_steps", None)
    elif (read.value or 0) < 0 or "optim.lr_warmup_ratio" in t.settings:
        t.skip(read, "nothing to set")
    else:
        t.put("optim.lr_warmup_steps", int(read.value or 0), read)


RULES["beta1"] = lambda t, read, row: betas(t, read, 0)
RULES["beta2"] = lambda t, read, row: betas(t, read, 1)


def betas(t: Translation, read: Read, place: int) -> None:
    values = list(t.settings["optim.betas"].value) if "optim.betas" in t.settings else [0.9, 0.999]
    names = t.settings["optim.betas"].names if "optim.betas" in t.settings else []
    values[place] = read.value
    t.settings.pop("optim.betas", None)
    t.put("optim.betas", values, read)
    t.settings["optim.betas"].names[:0] = names


@rule
def updates(t: Translation, read: Read, row: Row) -> None:
    """Is counted in updates there and in steps here; `sizes` knows how many updates a step has."""
    t.update_reads.append((read, row.keys()[0]))


@rule
def strategy(t: Translation, read: Read, row: Row) -> None:
    """Sets 0 for "no"; "steps" has a number of its own."""
    if str(read.value).lower() in ("no", "false"):
        t.put(row.keys()[0], 0, read)
    elif str(read.value) == "steps":
        t.skip(read, f"steps of {row.key}")
    else:
        t.omit(read, f"see {row.key} (steps)")


@rule
def epochs(t: Translation, read: Read, row: Row) -> None:
    """Sets passes over the prompts, where no number of steps ends the run before."""
    if read.value is None or t.number("max_steps", -1) > 0 or t.number("total_training_steps", -1) > 0:
        t.skip(read, "a number of steps ends the run")
        return
    whole = max(1, math.ceil(read.value))
    t.put("trainer.total_epochs", whole, read, "" if whole == read.value else f"raised from {read.value}: epochs are whole")


@rule
def never_is_zero(t: Translation, read: Read, row: Row) -> None:
    t.put(row.keys()[0], max(0, int(read.value or 0)), read)


@rule
def logs(t: Translation, read: Read, row: Row) -> None:
    """Sets what is written beside metrics.jsonl."""
    words = [str(one).lower() for one in (read.value if isinstance(read.value, list) else [read.value])]
    others = [word for word in words if word not in ("tensorboard", "wandb", "console", "none", "all", "true", "false")]
    if others and read.name != "use_wandb":  # whose text is a key of the service
        t.omit(read, f"{', '.join(others)}: see {row.key} ({row.note})")
        return
    t.put("trainer.wandb", "wandb" in words or "all" in words or (read.name == "use_wandb" and words not in (["false"], ["none"])), read)
    if read.name != "use_wandb":
        t.put("trainer.tensorboard", "tensorboard" in words or "all" in words, read)


@rule
def folder(t: Translation, read: Read, row: Row) -> None:
    """Names the run folder where the script has no folder of its own."""
    setting = t.settings.get("trainer.default_local_dir")
    if setting is None or (len(setting.names) == 1 and read.name.endswith("experiment_name") and setting.names[0].endswith("project_name")):
        before = setting.names if setting else []
        t.settings.pop("trainer.default_local_dir", None)
        t.put("trainer.default_local_dir", f"runs/{read.value}", read)
        t.settings["trainer.default_local_dir"].names[:0] = before
    else:
        t.skip(read, "the run has its folder's name")


@rule
def command(t: Translation, read: Read, row: Row) -> None:
    """Makes a reward function the program that judges."""
    t.reward_reads.append(read)


@rule
def environment(t: Translation, read: Read, row: Row) -> None:
    """Makes tools and environments the program that answers the model's turns."""
    t.environment_reads.append(read)


@rule
def calls(t: Translation, read: Read, row: Row) -> None:
    """Sets the turns: one more than those that call tools."""
    if isinstance(read.value, int) and read.value >= 0:
        t.put("environment.max_turns", read.value + 1, read, row.note)
    else:
        t.omit(read, "see environment.max_turns, which has a limit")


@rule
def weights(t: Translation, read: Read, row: Row) -> None:
    names = t.script.rewards
    if read.value is None:
        t.skip(read, "each function has the weight 1")
    elif names and isinstance(read.value, list) and len(names) == len(read.value):
        t.put("reward.weights", dict(zip(names, read.value)), read)
    else:
        t.omit(read, f"see {row.key} ({row.note})")


def FINAL(t: Translation) -> None:  # noqa: N802
    """Computes what depends on several names: batch sizes, numbers of steps, the reward's command."""
    sizes(t)
    play(t)
    judge(t)
    if "trainer.total_training_steps" in t.settings and (epochs := t.settings.pop("trainer.total_epochs", None)):
        for read in t.read_names:
            if read.name in epochs.names:
                t.skip(read, "a number of steps ends the run")
    for key, off in (("eval.freq", 0), ("trainer.save_freq", 0)):
        if key in t.settings and isinstance(t.settings[key].value, (int, float)) and t.settings[key].value < 0:
            t.settings[key].value = off
    for key, name, what in (("model.path", "MODEL", "a model folder or OWNER/NAME"), ("data.train_files", ["train_rows.jsonl"], "files of the script's rows")):
        if key not in t.settings:
            t.settings[key] = t.setting(name, f"to be filled in: {what}")
    if t.script.trainer == "rloo":
        t.put("algorithm.adv_estimator", "rloo", Read("RLOOTrainer", "", 0, "default", "rloo"))
    if not t.settings.get("data.val_files") and "eval.freq" in t.settings and not t.settings["eval.freq"].names:
        t.settings["eval.freq"].value = 0
    if t.script.trainer in ("trl", "rloo", "verl"):
        t.arithmetic.append("Samples come from int8 weights here, where TRL and veRL sample in bf16: quant.rollout.weights; the gap is corrected by "
                            "rollout_correction.method, tis unless set.")


def factor(t: Translation, name: str, otherwise: Any) -> int:
    value = t.number(name, otherwise)
    return max(1, int(value))


def sizes(t: Translation) -> None:
    """Writes the arithmetic of batch sizes in full, and sets prompts of an update and of a step."""
    reads = {read.name.rpartition(".")[2]: read for read in t.batch_reads}
    first = next((read for read in reads.values() if read.kind != "default"), None) or next(iter(reads.values()), None)
    per_step = 1.0
    if t.script.trainer in ("trl", "rloo") and first is not None:
        per_step = sizes_of_trl(t, {name: read for name, read in reads.items() if name in SIZES_OF_TRL}, first)
    elif t.script.trainer == "openrlhf" and "train_batch_size" in reads:
        n = factor(t, "n_samples_per_prompt", 1)
        prompts = max(1, math.ceil(factor(t, "train_batch_size", 128) / n))
        t.arithmetic.append(f"train_batch_size {factor(t, 'train_batch_size', 128)} samples / n_samples_per_prompt {n} = {prompts} prompts an update "
                            "(actor.mini_batch_size)")
        t.put("actor.mini_batch_size", prompts, reads["train_batch_size"])
    elif "train_batch_size" in reads:
        t.put("data.train_batch_size", reads["train_batch_size"].value, reads["train_batch_size"])
    divide(t)
    for read, key in t.update_reads:
        steps_of_updates(t, read, key, per_step)


def sizes_of_trl(t: Translation, reads: dict[str, Read], first: Read) -> float:
    """Returns the updates of a step."""
    ranks = t.script.processes or 1
    device, accumulation = factor(t, "per_device_train_batch_size", 8), factor(t, "gradient_accumulation_steps", 1)
    n, passes = factor(t, "num_generations", 8), factor(t, "num_iterations", 1)
    rounds = factor(t, "steps_per_generation", accumulation)
    update, step = device * accumulation * ranks, device * rounds * ranks
    processes = f"{ranks} process" + ("es" if ranks > 1 else "")
    formula = f"per_device_train_batch_size {device} × steps_per_generation {rounds} × {processes}"
    if isinstance(t.given.get("generation_batch_size"), int):
        step = factor(t, "generation_batch_size", step)
        formula = f"generation_batch_size {step}"
    mini, whole = max(1, math.ceil(update / n)), max(1, math.ceil(step / n))
    t.arithmetic.append(f"Prompts of an update: per_device_train_batch_size {device} × gradient_accumulation_steps {accumulation} × {processes} = {update} "
                        f"responses; / num_generations {n} = {number_of(update / n)}" + rounded(update / n, mini) + " (actor.mini_batch_size)")
    t.arithmetic.append(f"Prompts of a step: {formula} = {step} responses; / num_generations {n} = {number_of(step / n)}" + rounded(step / n, whole)
                        + " (data.train_batch_size)")
    for key, value in (("actor.mini_batch_size", mini), ("data.train_batch_size", whole)):
        t.put(key, value, first)
        t.settings[key].names = [read.name for read in reads.values() if read.kind != "default"]
        t.settings[key].notes = ["the arithmetic is above"]
    return step / update * passes


def divide(t: Translation) -> None:
    """Lowers the prompts of an update to a divisor of those of a step."""
    mini, whole = t.settings.get("actor.mini_batch_size"), t.settings.get("data.train_batch_size")
    if not mini or not whole or not isinstance(mini.value, int) or not isinstance(whole.value, int) or mini.value < 1 or whole.value < 1:
        return
    if whole.value > MOST_PROMPTS:
        return  # the recipe's reader refuses it
    divisor = max(one for one in range(1, min(mini.value, whole.value) + 1) if whole.value % one == 0)
    if divisor != mini.value:
        t.arithmetic.append(f"Prompts of an update: {mini.value} lowered to {divisor}, which divides the {whole.value} prompts of a step "
                            "(actor.mini_batch_size)")
        mini.value = divisor


def steps_of_updates(t: Translation, read: Read, key: str, per_step: float) -> None:
    value = read.value
    if not isinstance(value, (int, float)) or value <= 0:
        t.skip(read, "nothing to set")
    elif 0 < value < 1:
        t.omit(read, f"a share of the run: see {key} (steps)")
    elif key == "eval.freq" and "eval.freq" in t.settings and t.settings["eval.freq"].names and t.settings["eval.freq"].value == 0:
        t.skip(read, "evaluations are off")
    else:
        steps = max(1, math.ceil(value / per_step))
        t.put(key, steps, read, "" if per_step == 1 else f"{number_of(value)} updates / {number_of(per_step)} updates a step")


def play(t: Translation) -> None:
    """Sets the program that answers the model's turns, with the reward functions that judge them."""
    given = [read for read in t.environment_reads if read.value not in (None, "", [], False)]
    for read in t.environment_reads:
        if read not in given:
            t.skip(read, "nothing to set")
    argument = environment_of(t, given)
    note = "port --out writes this file" if t.script.factory or t.script.tools else ""
    for read in given if argument else []:
        t.put("environment.command", ["python3", "-m", "qrl_env", argument], read, note)
    if not argument:
        for read in given:
            t.omit(read, "see environment.command")
        return
    if t.script.trainer == "openrlhf":
        t.put("environment.style", "continue", given[0], "its feedback has the template's marks")
    if t.script.trainer != "verl":
        judges = [read for read in t.reward_reads if read.name == "reward_funcs"] if t.script.rewards else []
        t.put("reward.verifier", "environment", (judges or given)[0], "the environment's program judges")
        t.reward_reads = [read for read in t.reward_reads if read not in judges]


def environment_of(t: Translation, reads: list[Read]) -> str:
    """Returns the argument of qrl_env; "" for values that are no names of the script and no files."""
    script = t.script
    if script.factory or script.tools:
        kind = "trl" if script.factory else "tools"
        rewards = ":" + ",".join(script.rewards) if script.rewards else ""
        return f"{kind}:{t.functions_file}:{','.join([*script.factory, *script.tools])}{rewards}"
    files = list(dict.fromkeys(read.value for read in reads if isinstance(read.value, str)))
    if script.trainer == "openrlhf":
        return f"openrlhf:{files[0]}" if files else ""
    return f"verl_tools:{','.join(files)}" if files and script.trainer == "verl" else ""


def judge(t: Translation) -> None:
    """Sets the program or the verifier that judges."""
    reads = t.reward_reads
    path = next((read for read in reads if read.name.endswith("custom_reward_function.path")), None)
    name = next((read for read in reads if read.name.endswith("custom_reward_function.name")), None)
    others = [read for read in reads if read not in (path, name)]
    if path is not None and isinstance(path.value, str):
        function = name.value if name is not None and isinstance(name.value, str) else "compute_score"
        t.put("reward.verifier", "command", path)
        t.put("reward.command", ["python3", "-m", "qrl_reward", f"verl:{path.value}:{function}"], path)
        if name is not None:
            t.settings["reward.command"].names.append(name.name)
    elif path is not None or name is not None:
        for read in (path, name):
            if read is not None:
                t.skip(read, "nothing to set")
    for read in others:
        if read.name == "reward_funcs" and t.script.rewards:
            t.put("reward.verifier", "command", read)
            t.put("reward.command", ["python3", "-m", "qrl_reward", f"trl:{t.functions_file}:{','.join(t.script.rewards)}"], read,
                  "port --out writes this file")
        else:
            t.omit(read, "see reward.command")
    if t.script.trainer == "verl" and "reward.verifier" not in t.settings:
        t.put("reward.verifier", "math", Read("custom_reward_function", "", 0, "default", "verl"),
              "whose function is that of the rows' data_source; reward.by_source has others")


def number_of(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else f"{value:g}"


def rounded(value: float, whole: int) -> str:
    return "" if value == whole else f", rounded up to {whole}"
