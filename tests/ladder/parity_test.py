#!/usr/bin/env python3
"""scripts/parity.py on a dump of two layers, with modules that stand in for torch and transformers."""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "parity.py"
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
    def from_pretrained(cls, folder, torch_dtype, attn_implementation):
        model = cls()
        model.values = json.load(open(folder))
        model.model = model
        model.embed_tokens = Module(model.values["embedding"])
        model.layers = [Module(model.values[name]) for name in sorted(model.values) if name.startswith("layers.")]
        return model
    def __call__(self, tokens):
        assert tokens == [[7, 8]]
        self.embed_tokens.hook(None, None, Values(self.embed_tokens.values))
        for layer in self.layers: layer.hook(None, None, (Values(layer.values),))
        self.logits = Values(self.values["logits"])
        return self
"""


def write_dump(path, values):
    tensors = {"tokens": ("I32", "<2i", [7, 8]), **{name: ("F32", "<2f", two) for name, two in values.items()}}
    header, data = {"__metadata__": {"format": "qrl-train dump"}}, b""
    for name, (dtype, code, two) in tensors.items():
        header[name] = {"dtype": dtype, "shape": [2], "data_offsets": [len(data), len(data) + 8]}
        data += struct.pack(code, *two)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_dump(folder / "dump", VALUES)
        modules = folder / "modules"
        modules.mkdir()
        (modules / "torch.py").write_text(TORCH)

        def expect(code, words, values, what):
            (folder / "model").write_text(json.dumps(values))
            done = subprocess.run([sys.executable, "-S", SCRIPT, folder / "dump", folder / "model"], capture_output=True, text=True,
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


if __name__ == "__main__":
    main()
