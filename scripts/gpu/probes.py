"""What decides the next designs: the rows of scripts/gpu/check --part probes. Each result is checked against the CPU's fp64."""
import sys

import programs
from programs import ROOT, program

# In their order, what most depends on first.
DECIDES = {
    "rows": "whether rollout.bitwise may use wgmma: only kernels without a differing number may",
    "mixed": "whether int4 goes to wgmma with its weights in registers: if a layer of 64 rows takes less than 100 us; streamed it takes 218",
    "tiles": "which tiles 8-bit GEMMs of 16 to 512 rows get: those that beat the layer's times of `figures` by 3 %",
    "guesses": "whether a table of cuBLASLt's algorithms replaces its first choice: if another one is 3 % faster for a shape",
    "scales": "whether FP8's backward pass takes cuBLASLt's block scales: if both operands' and an fp32 result are taken, and beat bf16",
    "grouped": "whether experts take torch's grouped GEMMs or own ones: own ones, if these reach less than half of their bound"}
LIMIT_S = 25


def command(word):
    """A program of ours for GEMMs of CUTLASS's, torch for those of libraries."""
    if word in ("grouped", "scales"):
        return [sys.executable, ROOT / "scripts" / "gpu" / "torch_probes.py", word]
    return [program("gpu_probes"), word]


def text_of(figures):
    if isinstance(figures, dict):
        return ", ".join(f"{key} {text_of(value)}" for key, value in figures.items())
    return f"{figures:.4g}" if isinstance(figures, float) else str(figures)


def job(word):
    def run(runner):
        words = command(word)
        if words[0] is None:
            return {"holds": None, "left_out": True, "what": "left out: no gpu_probes here (cmake --build build --target gpu_probes)"}
        code, output, _ = runner.run(words, LIMIT_S, is_tool=words[0] == sys.executable)
        found = programs.objects(output)
        # A measurement that a library refuses is a result; one that the reference refutes is a fault.
        wrong = [text_of(one) for one in found if any(key.endswith("_error") and "reference" in str(value) for key, value in one.items())]
        if code != 0 or not found or wrong:
            return {"holds": False, "what": "; ".join(wrong) or programs.why(code, output), "figures": found}
        return {"holds": True, "what": f"{'; '.join(map(text_of, found))}. Decides {DECIDES[word]}", "figures": found}
    return run


def jobs():
    """Name and job."""
    return {f"probe {word}": job(word) for word in DECIDES}
