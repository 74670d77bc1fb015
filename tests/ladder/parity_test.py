#!/usr/bin/env python3
"""Runs scripts/accept/parity.py on a dump of two layers, with fake torch and transformers modules."""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "accept" / "parity.py"
VALUES = {"embedding": [1.0, 2.0], "layers.0": [1.5, -2.5], "layers.1": [3.0, 4.0], "logits": [0.5, 0.25]}
TORCH = """
import contextlib
float32 = "float32"
no_grad = contextlib.nullcontext
def tensor(values): return values
"""
TRANSFORMERS = """
import json
class Values:
    def __init__(self, values): self.values = values
    def tolist(self): return [[[value] for value in self.values]]
class Module:
    def __init__(self, values): self.values = values
    def register_forward_hook(self, hook): self.hook = hook
class AutoModelForCausalLM:
    @classmethod
    def from_pretrained(cls, folder, torch_dtype, attn_implementation, experts_implementation):
        model = cls()
        model.values = json.load(open(folder))
        model.model = model
        model.embed_tokens = Module(model.values["embedding"])
        model.layers = [Module(model.values[name]) for name in sorted(model.values) if name.startswith("layers.")]
        return model
    def __call__(self, tokens):
        assert tokens in ([[7, 8]], [[0, 1]])
        self.embed_tokens.hook(None, None, Values(self.embed_tokens.values))
        for layer in self.layers: layer.hook(None, None, (Values(layer.values),))
        self.logits = Values(self.values["logits"])
        return self
"""


def write_dump(path, values, tokens):
    tensors = {"tokens": ("I32", "i", tokens), **{name: ("F32", "f", few) for name, few in values.items()}}
    header, data = {"__metadata__": {"format": "qrl-train dump"}}, b""
    for name, (dtype, code, few) in tensors.items():
        header[name] = {"dtype": dtype, "shape": [len(few)], "data_offsets": [len(data), len(data) + 4 * len(few)]}
        data += struct.pack(f"<{len(few)}{code}", *few)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_dump(folder / "dump", VALUES, [7, 8])
        modules = folder / "modules"
        modules.mkdir()
        (modules / "torch.py").write_text(TORCH)

        def expect(code, words, values, what, *options):
            (folder / "model").write_text(json.dumps(values))
            done = subprocess.run([sys.executable, "-S", SCRIPT, folder / "dump", folder / "model", *options], capture_output=True, text=True,
                                  env={**os.environ, "PYTHONPATH": str(modules)}, timeout=60)
            if done.returncode != code or words not in done.stdout + done.stderr:
                sys.exit(f"{what}: expected {code} and {words!r}, got {done.returncode}\n{done.stdout}{done.stderr}")

        expect(4, "SKIPPED", VALUES, "no transformers")
        (modules / "transformers.py").write_text(TRANSFORMERS)
        expect(0, "all within", VALUES, "equal values")
        expect(1, "layers.1 is the first beyond", {**VALUES, "layers.1": [3.0, 4.1], "logits": [0, 0]}, "a layer that differs")
        expect(1, "logits is the first beyond", {**VALUES, "logits": [0.5, float("nan")]}, "a logit that is not finite")
        expect(2, "expected 3 values", {**VALUES, "embedding": [1.0, 2.0, 3.0]}, "another size")
        expect(2, "expected the dump's tensors", {**VALUES, "layers.2": [1.0, 2.0]}, "another number of layers")

        # Two places with a vocabulary of two: the first token's successor is 1, whose log-prob is what differs.
        write_dump(folder / "dump", {**VALUES, "logits": [0.0, 2.0, 1.0, 0.8]}, [0, 1])
        rows = {**VALUES, "logits": [0.0, 2.0, 0.8, 1.0]}
        expect(0, "mean |difference| 0 (", rows, "another top token with a small lead", "--log-probs", "0.02")
        expect(1, "at 1 of 1 places", {**rows, "logits": [2.0, 0.0, 0.8, 1.0]}, "another top token", "--log-probs", "9")
        expect(1, "mean |difference| 0.048 (", {**rows, "logits": [0.0, 2.5, 0.8, 1.0]}, "log-probs apart", "--log-probs", "0.02")
        expect(1, "mean |difference| nan", {**rows, "logits": [0.0, float("nan"), 0.8, 1.0]}, "not finite", "--log-probs", "0.02")


if __name__ == "__main__":
    main()
