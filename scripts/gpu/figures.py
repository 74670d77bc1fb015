"""How fast a GPU is: the rows of scripts/gpu/check --part figures, the most telling first, each alone on the card."""
import dataclasses
import functools
import subprocess
import sys
import tempfile
import time
from typing import Callable

import programs
from programs import ROOT, program

BATCHES, ROWS = (1, 16, 64, 256, 512), (1, 16, 64, 256, 512)
TICKS = {"fp8 channel_token": ("fp8_e4m3 channel_token", "fp8_e4m3"), "bf16": ("bf16", "bf16"), "int8": ("int8", "int8"),
         "int4": ("int4", "bf16"), "fp8 block128": ("fp8_e4m3 block128", "fp8_e4m3"), "int4 int8": ("int4 int8", "int8")}
FASTEST = "fp8 channel_token"
SAID = {"learner": "{learner_s:.3f} s, {learner_tokens_per_s:.0f} tok/s, {learner_share_of_limit:.0%} of "
                   "{ceiling_gpu_matmul_tflops:.0f} TFLOP/s; forward alone {forward_s:.3f} s",
        "step": "{step_s:.2f} s = {gen_s:.2f} generation ({gen_tokens_per_s:.0f} tok/s) + {learner_s:.2f} learner + "
                "{publish_s:.3f} publish + {gap_probe_s:.3f} gap probe"}
MEMORY = "; GPU memory {peak_gpu_gib:.1f} GiB at most, --dry-run estimates {estimated_gpu_gib:.1f}"
MEMORY_ERROR = 0.15  # of the estimate, at most
INT8, FP8, LOW_BIT = "quant.rollout.weights=int8", "quant.rollout.weights=fp8_e4m3", "quant.learner.forward=low_bit"
STRAIGHT, TURNED = "quant.rollout.rotation=none", "quant.rollout.rotation=hadamard"
E4M3 = "quant.rollout.kv_cache=fp8_e4m3"


@dataclasses.dataclass
class Figure:
    """A command that prints JSON, what the table says of it, and the seconds that it may take."""
    command: list
    said: str | Callable  # a form for the figures, or what makes text of them and of all rows measured before
    limit_s: int = 30
    watches_memory: bool = False
    is_tool: bool = False  # not one of our programs: its environment stays as it is
    variables: dict = dataclasses.field(default_factory=dict)  # more of its environment
    holds: Callable | None = None  # of the figures: what is wrong with them, or nothing


def each(numbers, prefix, form, end=""):
    """Says of each number the figures whose names begin with the prefix, then those of `end`; a number without time is passed over."""
    def said(figures, _):
        texts = []
        for number in numbers:
            start = prefix.format(number)
            own = {key.removeprefix(start): value for key, value in figures.items() if key.startswith(start)}
            if own.get("us") is not None:
                texts.append(f"{number}: {form.format(**own)}")
        if not texts:
            raise KeyError(prefix)
        return "; ".join(texts) + end.format(**figures)
    return said


def benchmark(said, name, shape, *words, **more):
    return Figure([program("qrl-bench"), name, "--json", "--shape", shape, *words], said, **more)


def of_list(numbers):
    return ",".join(map(str, numbers))


def ticks(name, batches=BATCHES, head="bf16", shape="8b", rotation="none", kept="all"):
    weights, kv = TICKS[name]
    said = each(batches, "context512_batch{}_", "{tokens_per_s:.0f} tok/s, {share_of_limit:.0%}",
                "; of {read_gb_per_s:.0f} GB/s and {ceiling_gpu_matmul_tflops:.0f} TFLOP/s; publish {rewrite_s:.3f} s")
    return benchmark(said, "ticks", shape, "--format", weights, "--lm-head", head, "--kv", kv, "--rotation", rotation, "--kept", kept, "--batch", of_list(batches),
                     "--context", 512)


def model(name, shape, *settings):
    words = ["--rounds", 3, *programs.set_words(["trainer.device=cuda", *settings])]
    return benchmark(SAID[name], name, shape, *words, limit_s=60, watches_memory=True)


def answers(shape, *settings):
    """A step of 128 prompts with 8 answers each."""
    figure = model("step", shape, *settings)
    return dataclasses.replace(figure, command=[*figure.command, "--prompts", 128, "--n", 8, "--prompt", 128, "--new", 256])


def products(weights):
    said = each(ROWS, "layer_rows{}_", "{us:.0f} us, {tflops:.0f} TFLOP/s, {share_of_read:.0%} of reading")
    return benchmark(said, "products", "8b", "--format", weights, "--rows", of_list(ROWS))


def attention(kv, context, batches=(1, 16, 64, 256)):
    return benchmark(each(batches, "batch{}_", "{us:.0f} us, {share_of_read:.0%} of reading"), "attention", "8b", "--format", kv,
                     "--context", context, "--batch", of_list(batches))


def said_torch(figures, rows):
    """torch's figures, and ours of this call in times of them."""
    ticks_8b = rows.get("ticks 8B, bf16, 512 positions", {}).get("figures", {})
    ours = {f"decode_{batch}_us": ticks_8b.get(f"context512_batch{batch}_us") for batch in BATCHES}
    for ours_name, theirs in (("bf16", "bf16"), ("fp8_e4m3 channel_token", "fp8 rows"), ("fp8_e4m3 block128", "fp8 blocks")):
        layer = rows.get(f"GEMMs of a layer of 8B, {ours_name}", {}).get("figures", {})
        ours |= {f"{theirs}_{count}_us": layer.get(f"layer_rows{count}_us") for count in ROWS}
    said = []
    for key, value in figures.items():
        beside = f" (ours {value / ours[key]:.2f} times its speed)" if ours.get(key) and value else ""
        said.append(f"{key} {value:.5g}{beside}" if isinstance(value, float) else f"{key} {value}")
    return "; ".join(said)


def torch(group):
    return Figure([sys.executable, ROOT / "scripts" / "gpu" / "torch_peer.py", group], said_torch, 40, is_tool=True)


def said_profile(figures, _):
    rows = "; ".join(f"{row['kernel'][:60]} {row['exposed_us']:.0f} us of {row['calls']:g}" for row in figures["rows"][:6])
    return f"{figures['steps']} steps of {figures['span_us']:.0f} us, {figures['idle_us']:.0f} idle, {figures['kernels']:.0f} kernels; {rows}"


def profile(pattern, command):
    return Figure([ROOT / "scripts" / "gpu" / "profile", "--json", "--step", pattern, *command], said_profile, 40, is_tool=True)


def figures():
    """All rows by name, in their order."""
    found = {f"ticks 8B, {name}, 512 positions": ticks(name) for name in TICKS}
    found |= {f"ticks 8B, {name}, lm_head in int8, 512 positions": ticks(name, head="int8") for name in (FASTEST, "int8")}
    found["ticks 8B, int8, rotated, 512 positions"] = ticks("int8", rotation="64")
    found["ticks SmolLM2-135M, fp8 channel_token, 512 positions"] = ticks(FASTEST, (64, 256, 512, 1024), shape="smollm2-135m")
    found |= {f"ticks SmolLM2-135M, fp8 channel_token, top-p 0.95, {rows}": ticks(FASTEST, (64, 256, 512, 1024), shape="smollm2-135m", kept=kept)
              for rows, kept in (("some 50 tokens kept", "some"), ("flat rows", "flat"))}
    found |= {"learner 1.5B, defaults": model("learner", "1.5b"), "learner 86M, defaults": model("learner", "86m"),
              "learner 1.5B, adapters of rank 32 on int8": model("learner", "1.5b", LOW_BIT, INT8, STRAIGHT, "lora.rank=32"),
              "step 1.5B, fp8": model("step", "1.5b", FP8), "step SmolLM2-135M, fp8, 1,024 answers of 256 tokens": answers("smollm2-135m", FP8, E4M3)}
    found |= {f"GEMMs of a layer of 8B, {weights}": products(weights) for weights, _ in TICKS.values()}
    found |= {"torch, decoding 8B bf16 in a CUDA graph": torch("decode"), "torch, a training step of 1.5B bf16": torch("train")}
    found |= {f"attention of a layer of 8B, {kv}, {context} positions": attention(kv, context)
              for context in (512, 2048) for kv in ("bf16", "fp8_e4m3", "int8")}
    wide = ["actor.activation_checkpointing=false", "actor.max_tokens_per_micro_batch=8704", "actor.logprob_chunk_tokens=4096"]
    return found | {
        "learner 1.5B, nothing recomputed, 8,704 tokens, chunks of 4,096": model("learner", "1.5b", *wide),
        "kernels of a tick of 8B, fp8, batch 64": profile("embed_kernel", ticks("fp8 channel_token", (64,)).command),
        "kernels of a learner's step, 1.5B": profile("adam", model("learner", "1.5b").command),
        "torch, GEMMs of a layer of 8B": torch("gemm"),
        "learner 1.5B, int8 low_bit": model("learner", "1.5b", LOW_BIT, INT8, STRAIGHT),
        "learner 1.5B, int8 low_bit, rotated": model("learner", "1.5b", LOW_BIT, INT8, TURNED),
        "learner 1.5B, int8 low_bit, bitwise": model("learner", "1.5b", LOW_BIT, INT8, STRAIGHT, "rollout.bitwise=true"),
        "learner 1.5B, fp8 low_bit": model("learner", "1.5b", LOW_BIT, FP8),
        "learner 1.5B, fp8 block128 forward and backward": model("learner", "1.5b", LOW_BIT, FP8, "quant.rollout.granularity=block128",
                                                                 "quant.learner.backward=fp8_e4m3"),
        "attention of a layer of 8B, bf16, 32,768 positions": attention("bf16", 32768, (1,))}


def watched(work):
    """What work() returns, and by how many GiB the GPU's memory in use rose; None where nvidia-smi says nothing."""
    # Line by line, since what lies in a buffer is lost when it is killed.
    command = ["stdbuf", "-oL", "nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-lms", "100"]
    with tempfile.TemporaryFile("w+") as said:
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.DEVNULL) as watch:
            try:
                time.sleep(0.3)  # so that its first lines are of the card without the program
                result = work()
            finally:
                watch.kill()
        said.seek(0)
        mib = [int(line) for line in said.read().split() if line.isdigit()]
    return result, (max(mib) - min(mib)) / 1024 if mib else None


def measure(runner, figure, rows):
    """Runs the command; a row of what it printed."""
    work = functools.partial(runner.run, figure.command, figure.limit_s, figure.variables, figure.is_tool)
    (code, output, _), peak_gib = watched(work) if figure.watches_memory else (work(), None)
    found = programs.objects(output)
    if code != 0 or not found:
        return {"holds": False, "what": programs.why(code, output)}
    shown = {key: value for each in found for key, value in each.items()}
    try:
        what = figure.said.format(**shown) if isinstance(figure.said, str) else figure.said(shown, rows)
        if peak_gib is not None and (planned := programs.objects(runner.run([*figure.command, "--dry-run"], 20)[1])):
            shown |= {"peak_gpu_gib": peak_gib, "estimated_gpu_gib": planned[-1]["estimated_gpu_bytes"] / 2**30}
            what += MEMORY.format(**shown)
            if abs(shown["estimated_gpu_gib"] - peak_gib) > MEMORY_ERROR * peak_gib:
                return {"holds": False, "what": f"{what}: more than {MEMORY_ERROR:.0%} apart", "figures": shown}
        if figure.holds is not None:
            wrong = figure.holds(shown)
            return {"holds": not wrong, "what": f"{what}{f': {wrong}' if wrong else ''}", "figures": shown}
        return {"holds": None, "what": what, "figures": shown}
    except (KeyError, TypeError, ValueError) as error:
        return {"holds": False, "what": f"figures of another form: {error!r}", "figures": shown}
