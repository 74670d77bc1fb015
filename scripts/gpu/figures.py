"""How fast a GPU is: the rows of scripts/gpu/check --part figures, the most telling first, each alone on the card."""
import dataclasses
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
INT8, FP8, LOW_BIT = "quant.rollout.weights=int8", "quant.rollout.weights=fp8_e4m3", "quant.learner.forward=low_bit"


@dataclasses.dataclass
class Figure:
    """A command that prints JSON, what the table says of it, and the seconds that it may take."""
    command: list
    said: Callable  # of the figures and all rows measured before
    limit_s: int = 30
    variables: dict = dataclasses.field(default_factory=dict)
    watches_memory: bool = False
    is_tool: bool = False  # not one of our programs: its environment stays as it is


def of_list(names):
    return ",".join(map(str, names))


def said_ticks(figures, _):
    said = []
    for batch in BATCHES:
        key = f"context512_batch{batch}"
        if figures.get(key + "_us") is not None:
            said.append(f"{batch}: {figures[key + '_tokens_per_s']:.0f} tok/s, {figures[key + '_share_of_limit']:.0%}")
    return "; ".join(said) + (f"; of {figures['read_gb_per_s']:.0f} GB/s and {figures['ceiling_gpu_matmul_tflops']:.0f} TFLOP/s; "
                              f"publish {figures['rewrite_s'] * 1e3:.0f} ms")


def ticks(name, batches=BATCHES, variables=None):
    weights, kv = TICKS[name]
    return Figure([program("qrl-bench"), "ticks", "--json", "--shape", "8b", "--format", weights, "--kv", kv, "--batch", of_list(batches),
                   "--context", 512], said_ticks, variables=variables or {})


def said_overlap(figures, rows):
    with_it = rows.get("ticks 8B, fp8 channel_token, 512 positions", {}).get("figures", {})
    gains = [f"{batch}: {figures[f'context512_batch{batch}_us'] / with_it[f'context512_batch{batch}_us'] - 1:+.1%} speed" for batch in (1, 64)
             if with_it.get(f"context512_batch{batch}_us")]
    return "what overlapping kernels gain; " + "; ".join(gains)


def said_learner(figures, _):
    return (f"{figures['learner_s']:.3f} s, {figures['learner_tokens_per_s']:.0f} tok/s, {figures['learner_share_of_limit']:.0%} of "
            f"{figures['ceiling_gpu_matmul_tflops']:.0f} TFLOP/s; forward alone {figures['forward_s']:.3f} s{said_memory(figures)}")


def said_memory(figures):
    if "peak_gpu_gib" not in figures:
        return ""
    return f"; GPU memory {figures['peak_gpu_gib']:.1f} GiB at most, --dry-run estimates {figures.get('estimated_gpu_gib', float('nan')):.1f}"


def model(said, limit_s, bench, shape, *settings):
    return Figure([program("qrl-bench"), bench, "--json", "--shape", shape, "--rounds", 3, *programs.set_words(["trainer.device=cuda", *settings])],
                  said, limit_s, watches_memory=True)


def learner(shape, *settings):
    return model(said_learner, 50, "learner", shape, *settings)


def said_step(figures, _):
    return (f"{figures['step_s']:.2f} s = {figures['gen_s']:.2f} generation ({figures['gen_tokens_per_s']:.0f} tok/s) + {figures['learner_s']:.2f} "
            f"learner + {figures['publish_s']:.3f} publish + {figures['gap_probe_s']:.3f} gap probe{said_memory(figures)}")


def said_products(figures, _):
    return "; ".join(f"{rows}: {figures[f'layer_rows{rows}_us']:.0f} us, {figures[f'layer_rows{rows}_tflops']:.0f} TFLOP/s, "
                     f"{figures[f'layer_rows{rows}_share_of_read']:.0%} of reading" for rows in ROWS)


def products(weights):
    return Figure([program("qrl-bench"), "products", "--json", "--shape", "8b", "--format", weights, "--rows", of_list(ROWS)], said_products)


def said_attention(figures, _):
    batches = [int(key[5:-3]) for key in figures if key.startswith("batch") and key.endswith("_us")]
    return "; ".join(f"{batch}: {figures[f'batch{batch}_us']:.0f} us, {figures[f'batch{batch}_share_of_read']:.0%} of reading" for batch in batches)


def attention(kv, context, *more):
    return Figure([program("qrl-bench"), "attention", "--json", "--shape", "8b", "--format", kv, "--context", context, *more], said_attention)


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


def torch(group, limit_s):
    return Figure([sys.executable, ROOT / "scripts" / "gpu" / "torch_peer.py", group], said_torch, limit_s, is_tool=True)


def said_profile(figures, _):
    rows = "; ".join(f"{row['kernel'][:60]} {row['exposed_us']:.0f} us of {row['calls']:g}" for row in figures["rows"][:6])
    return f"{figures['steps']} steps of {figures['span_us']:.0f} us, {figures['idle_us']:.0f} idle, {figures['kernels']:.0f} kernels; {rows}"


def profile(pattern, command):
    return Figure([ROOT / "scripts" / "gpu" / "profile", "--json", "--step", pattern, *command], said_profile, 40, is_tool=True)


def figures():
    """All rows by name, in their order."""
    found = {f"ticks 8B, {name}, 512 positions": ticks(name) for name in TICKS}
    found |= {"learner 1.5B, defaults": learner("1.5b"), "learner 86M, defaults": learner("86m"), "step 1.5B, fp8": model(said_step, 60, "step", "1.5b", FP8)}
    found |= {f"GEMMs of a layer of 8B, {weights}": products(weights) for weights, _ in TICKS.values()}
    found |= {"torch, decoding 8B bf16 in a CUDA graph": torch("decode", 40), "torch, a training step of 1.5B bf16": torch("train", 40)}
    found |= {f"attention of a layer of 8B, {kv}, {context} positions": attention(kv, context)
              for context in (512, 2048) for kv in ("bf16", "fp8_e4m3", "int8")}
    wide = ["actor.activation_checkpointing=false", "actor.max_tokens_per_micro_batch=8704", "actor.logprob_chunk_tokens=4096"]
    return found | {
        "learner 1.5B, nothing recomputed, 8,704 tokens, chunks of 4,096": learner("1.5b", *wide),
        "ticks 8B, fp8 channel_token, no overlap": dataclasses.replace(
            ticks("fp8 channel_token", (1, 64), {"QRL_CUDA_OVERLAP": "0"}), said=said_overlap),
        "kernels of a tick of 8B, fp8, batch 64": profile("embed_kernel", ticks("fp8 channel_token", (64,)).command),
        "kernels of a learner's step, 1.5B": profile("adam", learner("1.5b").command),
        "torch, GEMMs of a layer of 8B": torch("gemm", 40),
        "learner 1.5B, int8 low_bit": learner("1.5b", LOW_BIT, INT8),
        "learner 1.5B, int8 low_bit, bitwise": learner("1.5b", LOW_BIT, INT8, "rollout.bitwise=true"),
        "learner 1.5B, fp8 low_bit": learner("1.5b", LOW_BIT, FP8),
        "attention of a layer of 8B, bf16, 32,768 positions": attention("bf16", 32768, "--batch", 1)}


class MemoryWatch:
    """Reads the GPU's memory in use while a program runs, by nvidia-smi."""

    def __init__(self):
        # Line by line, since what lies in a buffer is lost when it is killed.
        command = ["stdbuf", "-oL", "nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-lms", "100"]
        self.said = tempfile.TemporaryFile("w+")
        try:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.said, stderr=subprocess.DEVNULL)
            time.sleep(0.3)  # so that its first lines are of the card without the program
        except OSError:
            self.process = None

    def peak_gib(self):
        """What was added to the least memory in use, at most; None where nvidia-smi said nothing."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        with self.said:
            self.said.seek(0)
            mib = [int(line) for line in self.said.read().split() if line.isdigit()]
        return (max(mib) - min(mib)) / 1024 if mib else None


def measure(runner, figure, rows):
    """Runs the command; a row of what it printed."""
    watch, peak_gib = MemoryWatch() if figure.watches_memory else None, None
    try:
        code, output, _ = runner.run(figure.command, figure.limit_s, figure.variables, figure.is_tool)
    finally:
        if watch:
            peak_gib = watch.peak_gib()
    found = programs.objects(output)
    if code != 0 or not found:
        return {"holds": False, "what": programs.why(code, output)}
    shown = {key: value for each in found for key, value in each.items()}
    if peak_gib is not None:
        planned = programs.objects(runner.run([*figure.command, "--dry-run"], 20, figure.variables)[1])
        shown["peak_gpu_gib"] = peak_gib
        if planned:
            shown["estimated_gpu_gib"] = planned[-1]["estimated_gpu_bytes"] / 2**30
    try:
        return {"holds": None, "what": figure.said(shown, rows), "figures": shown}
    except (KeyError, TypeError, ValueError) as error:
        return {"holds": False, "what": f"figures of another form: {error!r}", "figures": shown}
