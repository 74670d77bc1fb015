#!/usr/bin/env python3
"""How decode slows down as the context grows, for each KV format, beside what KV bytes and attention's operations alone explain.

    python3 scripts/peers/context.py [--program build/qrl-bench] [--rounds 2] [--new 32] [--formats bf16,int8,fp8_e4m3]

Runs `bench decode --batch 8` at 240 and at 4,080 positions (the middle of the new tokens), interleaved, best of the rounds.
explained = the larger of additional KV bytes / DRAM ceiling and additional operations / bf16 ceiling, with the median of the
ceilings that the runs themselves measured; the ratio is measured / explained."""
import argparse, json, os, statistics, subprocess

BATCH = 8


def run(program, kv, positions, new):
    command = [program, "decode", "--batch", str(BATCH), "--prompt", str(positions - new // 2), "--new", str(new),
               "--rounds", "1", "--set", "quant.rollout.weights=int8", "--set", f"quant.rollout.kv_cache={kv}", "--json"]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(out.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    parser.add_argument("--program", default=os.path.join(root, "build", "qrl-train"))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--new", type=int, default=32)
    parser.add_argument("--formats", default="bf16,int8,fp8_e4m3")
    args = parser.parse_args()
    formats, contexts = args.formats.split(","), (240, 4080)
    runs = {(kv, positions): [] for kv in formats for positions in contexts}
    for _ in range(args.rounds):
        for key in runs:
            runs[key].append(run(args.program, *key, args.new))
    ceiling = {name: statistics.median(r[name] for rs in runs.values() for r in rs)
               for name in ("ceiling_dram_gb_per_s", "ceiling_bf16_tflops")}
    print(f"DRAM {ceiling['ceiling_dram_gb_per_s']:.1f} GB/s, bf16 {ceiling['ceiling_bf16_tflops']:.3f} TFLOP/s (medians)")
    print("| KV | ms a tick at 240 | at 4,080 | more | KV bytes / DRAM | operations / ceiling | measured / explained |")
    print("|---|---|---|---|---|---|---|")
    for kv in formats:
        short, long = (min(runs[kv, positions], key=lambda r: r["tick_ms"]) for positions in contexts)
        more = long["tick_ms"] - short["tick_ms"]
        bytes_ms = (long["tick_kv_bytes"] - short["tick_kv_bytes"]) / ceiling["ceiling_dram_gb_per_s"] * 1e-6
        flops_ms = (long["tick_attention_flops"] - short["tick_attention_flops"]) / ceiling["ceiling_bf16_tflops"] * 1e-9
        print(f"| {kv} | {short['tick_ms']:.1f} | {long['tick_ms']:.1f} | {more:.1f} | {bytes_ms:.1f} | {flops_ms:.1f} | "
              f"{more / max(bytes_ms, flops_ms):.2f} |")


if __name__ == "__main__":
    main()
