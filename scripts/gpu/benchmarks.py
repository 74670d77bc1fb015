"""How fast a GPU is: the parts of scripts/gpu/check that measure."""
import json
import os
import re

from programs import ROOT

def bench_learner(session):
    keep_less = ["--set", "actor.activation_checkpointing=true"]
    low_bit = [*keep_less, "--set", "quant.learner.forward=low_bit", "--set"]
    for shape, what, more in (("86m", "bf16", []), ("1.5b", "bf16", keep_less),
                              ("1.5b", "int8 low_bit", [*low_bit, "quant.rollout.weights=int8"]),
                              ("1.5b", "int8 low_bit, bitwise", [*low_bit, "quant.rollout.weights=int8", "--set", "rollout.bitwise=true"]),
                              ("1.5b", "fp8 low_bit", [*low_bit, "quant.rollout.weights=fp8_e4m3"]),
                              ("1.5b", "fp8 end to end", [*low_bit, "quant.rollout.weights=fp8_e4m3", "--set", "quant.rollout.granularity=block128",
                                                          "--set", "quant.learner.backward=fp8_e4m3"])):
        name = f"learner {shape} {what}, 8 x 8 x (128 + 256)"
        figures, error = session.figures_of("learner", "--shape", shape, "--rounds", 3, "--set", "trainer.device=cuda", *more)
        if figures is None:
            session.note(name, False, error)
            continue
        goal = " (goal: 45%)" if (shape, what) == ("1.5b", "bf16") else " (goal: below bf16's)" if "low_bit" in what else ""
        share = f"{figures['learner_share_of_limit']:.0%} of {figures['ceiling_gpu_matmul_tflops']:.0f} TFLOP/s"
        forward = f"forward alone {figures['forward_s']:.3f} s"
        said = (share + goal, forward) if what == "bf16" else (share, forward + goal)
        session.note(name, None, f"{figures['learner_tokens_per_s']:.0f} tok/s, {said[0]}; {said[1]}", **figures)


def bench_decode(session):
    """The 86M shape: what the host does between two ticks, and that graphs change no token."""
    formats = {"bf16": ("bf16", "bf16"), "int8": ("int8", "int8"), "fp8": ("fp8_e4m3", "fp8_e4m3"), "int4": ("int4", "bf16")}
    for name, (weights, kv) in formats.items():
        settings = ["--batch", 64, "--set", "rollout.device=cuda", "--set", f"quant.rollout.weights={weights}",
                    "--set", f"quant.rollout.kv_cache={kv}"]
        figures, error = session.figures_of("decode", *settings)
        if figures is None:
            session.note(f"decode {name}, batch 64", False, error)
            continue
        host = f"host {figures['host_s_per_tick'] * 1e6:.0f} us a tick, {figures['host_share_of_tick']:.0%} of it (goal: 5%)"
        session.note(f"decode {name}, batch 64", None, f"{figures['decode_tokens_per_s']:.0f} tok/s (86M shape), {host}", **figures)
        eager, error = session.figures_of("decode", *settings, "--set", "rollout.enforce_eager=true")
        if eager is None:
            session.note(f"decode {name}, batch 64: graphs", False, error)
            continue
        same = eager["tokens_xxh3"] == figures["tokens_xxh3"]
        used = figures["graph_share_of_ticks"] > 0.9 and eager["graph_share_of_ticks"] == 0
        session.note(f"decode {name}, batch 64: graphs", same and used,
             f"{'the tokens of' if same else 'OTHER tokens than'} single launches; those {eager['decode_tokens_per_s']:.0f} tok/s, "
             f"host {eager['host_s_per_tick'] * 1e6:.0f} us a tick; {figures['graph_share_of_ticks']:.0%} of ticks are graphs", **eager)


TICK_FORMATS = {"bf16": ("bf16", "bf16"), "int8": ("int8", "int8"), "fp8 channel_token": ("fp8_e4m3 channel_token", "fp8_e4m3"),
                "fp8 block128": ("fp8_e4m3 block128", "fp8_e4m3"), "int4": ("int4", "bf16"), "int4 int8": ("int4 int8", "int8")}


def tick_text(figures, key):
    if figures[key + "_us"] is None:
        return "no room for the pages"
    return (f"{figures[key + '_tokens_per_s']:.0f} tok/s, {figures[key + '_share_of_limit']:.0%} of the limit, "
            f"host {figures[key + '_host_share']:.1%}")


def bench_ticks(session):
    """8B: ticks at 512 and 2,048 positions in all formats, and how formats compare. Gives the figures by format."""
    measured = {}
    for name, (weights, kv) in TICK_FORMATS.items():
        figures, error = session.figures_of("ticks", "--shape", "8b", "--format", weights, "--kv", kv)
        if figures is None:
            session.note(f"ticks {name}, 8B", False, error)
            continue
        measured[name] = figures
        for context in (512, 2048):
            batches = [re.findall(r"\d+", key)[1] for key in figures if re.fullmatch(rf"context{context}_batch\d+_us", key)]
            said = "; ".join(f"{batch}: " + tick_text(figures, f"context{context}_batch{batch}") for batch in batches)
            session.note(f"ticks {name}, 8B, sequences of {context:,}", None, said, **figures)
        session.note(f"ticks {name}, 8B: limits", None, f"{figures['read_gb_per_s']:.0f} GB/s read, "
                     f"{figures['copy_gb_per_s']:.0f} copied, {figures['ceiling_gpu_matmul_tflops']:.0f} TFLOP/s; publish {figures['rewrite_s'] * 1e3:.0f} ms, all weights from fp32 masters")
        compare_with_estimate(session, name, weights, kv, figures)
    for batch in (256, 512):
        figures, key = measured.get("fp8 channel_token", {}), f"context512_batch{batch}"
        if figures.get(key + "_us") is not None:
            session.note("fp8 with fp8 KV, 8B", None, f"{figures[key + '_tokens_per_s']:.0f} tok/s (goal on an H200: 20000), "
                 f"{figures[key + '_share_of_limit']:.0%} of the limit (goal: 65%) at {batch} x 512")
    compare_formats(session, measured)
    return measured


def compare_with_estimate(session, name, weights, kv, figures):
    """The share of the limit that was measured beside the one estimated from bytes and counted instructions."""
    estimated, error = session.figures_of("ticks", "--shape", "8b", "--format", weights, "--kv", kv, "--batch", "1,64,512",
                                          "--context", "512", "--estimate", "--kernels", session.programs.kernels)
    if estimated is None:
        return session.note(f"ticks {name}, 8B: estimate", False, error)
    said, misses = [], 0
    for batch in (1, 64, 512):
        key = f"context512_batch{batch}"
        measured, expected = figures.get(key + "_share_of_limit"), estimated[key + "_estimated_share"]
        if measured is None:
            continue
        missed = not abs(measured / expected - 1) <= 0.2
        misses += missed
        said.append(f"{batch}: {measured:.0%}, estimated {expected:.0%}{' MISS' if missed else ''}")
    session.note(f"ticks {name}, 8B: estimate", None, "; ".join(said), misses=misses)


def compare_formats(session, measured):
    """What one format gains over another, with the goal that was set for it; both measured above, one after the other."""
    def ratio(name, of, over, context, batch, goal):
        key = f"context{context}_batch{batch}_tokens_per_s"
        rates = [measured.get(one, {}).get(key) for one in (of, over)]
        if None not in rates:
            session.note(name, None, f"{rates[0] / rates[1]:.2f} times at {batch} x {context} (goal: {goal})", ratio=rates[0] / rates[1])
    for batch in (256, 512):
        ratio("fp8 over bf16", "fp8 channel_token", "bf16", 512, batch, 1.6)
    for batch in (1, 16):
        ratio("int4 over bf16", "int4", "bf16", 512, batch, 2.2)
    for batch in (16, 64):
        ratio("int8 over fp8", "int8", "fp8 channel_token", 512, batch, 0.9)


def bench_peers(session, measured):
    """torch and transformers of this machine's python3, in the same call."""
    code, output, seconds = session.run(["python3", ROOT / "scripts" / "gpu" / "peers", "--batch", "1,64"], 240, dict(os.environ))
    found = [line for line in output.splitlines() if line.startswith("{")]
    if code == 3 or not found:
        return session.note("peers", None, f"not measured (exit code {code}): {output[-300:]}")
    peer = json.loads(found[-1])
    session.note("peers", None, f"torch {peer['torch']}, transformers {peer['transformers']} ({peer['attention']}): bf16 matmuls "
                        f"{peer['torch_matmul_tflops']:.0f} TFLOP/s; {seconds:.0f} s", **peer)
    for batch in (1, 64):
        key = f"context512_batch{batch}_tokens_per_s"
        if peer[key] is None:
            session.note(f"transformers, 8B, {batch} x 512", None, peer[key + "_error"])
            continue
        times = "; ".join(f"{name} {figures[key] / peer[key]:.1f} times" for name, figures in measured.items()
                          if figures.get(key) is not None)
        session.note(f"transformers, 8B, {batch} x 512", None, f"{peer[key]:.0f} tok/s (context grows to 576); of it {times} (goal: 3)")


def bench_products(session):
    for weights in ("bf16", "int8", "fp8_e4m3 channel_token", "fp8_e4m3 block128", "int4", "int4 int8"):
        figures, error = session.figures_of("products", "--shape", "8b", "--format", weights)
        if figures is None:
            session.note(f"products {weights}, a layer of 8B", False, error)
            continue
        session.note(f"products {weights}, a layer of 8B", None, "; ".join(
            f"{count} rows: {figures[f'layer_rows{count}_us']:.0f} us, {figures[f'layer_rows{count}_tflops']:.0f} TFLOP/s, "
            f"{figures[f'layer_rows{count}_share_of_read']:.0%} of reading" for count in (1, 16, 64, 256)), **figures)


def bench_attention(session):
    # The rows of attention against the CPU are cases of OPERATIONS (tests/cuda/attention_test.cpp).
    for kv in ("bf16", "int8", "fp8_e4m3"):
        for what, more in (("2,048 positions", ["--context", 2048]), ("512 positions", ["--context", 512]),
                           ("2,048 positions, 1,024 of them shared", ["--context", 2048, "--shared", 1024, "--batch", 64])):
            name = f"attention {kv}, a layer of 8B, {what}"
            figures, error = session.figures_of("attention", "--shape", "8b", "--format", kv, *more)
            if figures is None:
                session.note(name, False, error)
                continue
            batches = [int(key[5:-3]) for key in figures if re.fullmatch(r"batch\d+_us", key)]
            def beside(batch):
                peers = {kernel: figures.get(f"batch{batch}_flashinfer_{kernel}_us") for kernel in ("decode", "prefill")}
                return "".join(f", {peer_us / figures[f'batch{batch}_us']:.2f} times flashinfer_{kernel}'s speed"
                               for kernel, peer_us in peers.items() if peer_us)
            session.note(name, None, "; ".join(
                f"batch {batch}: {figures[f'batch{batch}_us']:.0f} us, {figures[f'batch{batch}_share_of_read']:.0%} of reading"
                f"{beside(batch)}" for batch in batches)
                 + f" at {figures['read_gb_per_s']:.0f} GB/s read, {figures['copy_gb_per_s']:.0f} copied", **figures)
