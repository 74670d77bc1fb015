#!/usr/bin/env python3
"""What plain torch reaches on this GPU at the shapes that qrl-bench measures, with random weights. For scripts/gpu/check.

    python3 scripts/gpu/torch_peer.py decode|train|gemm

decode: a tick of 8B in bf16 at 512 positions, torch's operations in a CUDA graph. train: a step of the 1.5B shape, two micro-batches of
16 x 384, nothing recomputed, fused AdamW. gemm: a layer's four GEMMs in bf16, and in fp8 by _scaled_mm with scales of rows or of blocks
(1 x 128 by 128 x 128). Prints one JSON object a measurement, as soon as it is measured; an error takes the place of a figure.
"""
import argparse
import functools
import gc
import json

V, E = 151936, 128
LAYER = (6144, 4096), (4096, 4096), (24576, 4096), (4096, 12288)  # of 8B: outputs, inputs
CONTEXT, COPIES = 512, 6  # copies of a layer: its weights come from memory, not from L2


def say(name, call):
    try:
        print(json.dumps({name: call()}), flush=True)
    except Exception as error:  # noqa: BLE001  (a failed peer is a result)
        print(json.dumps({name + "_error": f"{type(error).__name__}: {str(error)[:200]}"}), flush=True)
    gc.collect()
    torch.cuda.empty_cache()


def best_s(call, calls=8, rounds=3):
    """Seconds of a call, the best of some rounds between two events."""
    best = float("inf")
    for _ in range(rounds):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        best = min(best, begin.elapsed_time(end) * 1e-3 / calls)
    return best


def captured(call):
    """The call as a CUDA graph; returns its replay."""
    torch.cuda.synchronize()  # the other stream reads what this one made
    with torch.cuda.stream(torch.cuda.Stream()):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def bf16(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * 0.02


class Model:
    """Blocks of Qwen3's form, bf16, with rotation by random angles."""

    def __init__(self, width, depth, heads, kv_heads, ffn):
        self.heads, self.kv_heads = heads, kv_heads
        one = lambda n: torch.ones(n, device="cuda", dtype=torch.bfloat16)  # noqa: E731
        shapes = ((heads + 2 * kv_heads) * E, width), (width, heads * E), (2 * ffn, width), (width, ffn)
        self.layers = [(one(width), one(E), one(E), one(width), *(bf16(*shape) for shape in shapes)) for _ in range(depth)]
        self.embed, self.norm = bf16(V, width), one(width)

    def logits(self, tokens, angles, attend, head):
        """attend(layer, q, k, v): contexts [..., heads, E]. angles: those of the rows' positions, [..., 1, E / 2]."""
        f, cos, sin = torch.nn.functional, angles.cos().bfloat16(), angles.sin().bfloat16()

        def turn(t):
            first, second = t.chunk(2, -1)
            return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)
        x = self.embed[tokens]
        width = x.shape[-1:]
        for i, (n1, q_norm, k_norm, n2, qkv, o, gate_up, down) in enumerate(self.layers):
            q, k, v = f.linear(f.rms_norm(x, width, n1, 1e-6), qkv).unflatten(-1, (-1, E)).split((self.heads, self.kv_heads, self.kv_heads), -2)
            context = attend(i, turn(f.rms_norm(q, (E,), q_norm, 1e-6)), turn(f.rms_norm(k, (E,), k_norm, 1e-6)), v)
            x = x + f.linear(context.flatten(-2), o)
            gate, up = f.linear(f.rms_norm(x, width, n2, 1e-6), gate_up).chunk(2, -1)
            x = x + f.linear(f.silu(gate) * up, down)
        return f.linear(f.rms_norm(x, width, self.norm, 1e-6), head)


def decode():
    model, head, angles = Model(4096, 36, 32, 8, 12288), bf16(V, 4096), torch.rand(1, E // 2, device="cuda")

    def tick_us(batch):
        caches = [(bf16(batch, 8, CONTEXT, E), bf16(batch, 8, CONTEXT, E)) for _ in model.layers]
        tokens = torch.zeros(batch, device="cuda", dtype=torch.int64)

        def attend(layer, q, k, v):
            keys, values = caches[layer]
            keys[:, :, -1], values[:, :, -1] = k, v
            return torch.nn.functional.scaled_dot_product_attention(q.unsqueeze(2), keys, values, enable_gqa=True).squeeze(2)
        with torch.no_grad():
            return best_s(captured(lambda: tokens.copy_(model.logits(tokens, angles, attend, head).argmax(-1)))) * 1e6
    for batch in (1, 64, 256, 16):
        say(f"decode_{batch}_us", lambda batch=batch: tick_us(batch))


def train():
    batch, length, model = 16, 384, Model(1536, 28, 12, 2, 8960)
    weights = [model.embed, model.norm, *(weight for layer in model.layers for weight in layer)]
    optimizer = torch.optim.AdamW([weight.requires_grad_() for weight in weights], lr=1e-6, fused=True)
    tokens, angles = torch.randint(0, V, (batch, length), device="cuda"), torch.rand(length, 1, E // 2, device="cuda")

    def attend(_, q, k, v):
        q, k, v = (t.transpose(-3, -2) for t in (q, k, v))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(-3, -2)

    def step():
        for _ in range(2):
            logits = model.logits(tokens, angles, attend, model.embed)[:, :-1]
            torch.nn.functional.cross_entropy(logits.reshape(-1, V), tokens[:, 1:].reshape(-1)).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    for _ in range(2):
        step()
    seconds, count = best_s(step, 2, 2), 2 * batch * length
    for name, value in (("s", seconds), ("tokens_per_s", count / seconds), ("peak_gib", torch.cuda.max_memory_allocated() / 2**30)):
        say(f"train_{name}", lambda value=value: value)


def gemm():
    e4m3 = lambda *shape: torch.randn(*shape, device="cuda").to(torch.float8_e4m3fn)  # noqa: E731

    @functools.cache
    def scales(kind, rows, n, k):
        full = lambda *shape: torch.full(shape, 0.02, device="cuda")  # noqa: E731
        return (full(rows, 1), full(1, n)) if kind == "fp8 rows" else (full(k // 128, rows).t(), full(n // 128, k // 128).t())

    def layer_us(kind, weights, rows, make):
        xs = {k: make(rows, k) for _, k in LAYER}

        def layers():
            for w in weights:
                x = xs[w.shape[1]]
                if kind == "bf16":
                    torch.mm(x, w.t())
                else:
                    torch._scaled_mm(x, w.t(), *scales(kind, rows, *w.shape), out_dtype=torch.bfloat16)
        return best_s(captured(layers), 4) / COPIES * 1e6
    for kind, make in (("bf16", bf16), ("fp8 rows", e4m3), ("fp8 blocks", e4m3)):
        weights = [make(*shape) for _ in range(COPIES) for shape in LAYER]
        for rows in (16, 64, 256, 512):
            say(f"{kind}_{rows}_us", lambda rows=rows: layer_us(kind, weights, rows, make))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("group", choices=("decode", "train", "gemm"))
    group = parser.parse_args().group
    import torch
    {"decode": decode, "train": train, "gemm": gemm}[group]()
