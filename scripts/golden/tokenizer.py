#!/usr/bin/env python3
"""Goldens of the byte-level tokenizer from the tokenizers library and transformers, and the check of a folder we wrote.

    python3 scripts/golden/tokenizer.py              # writes tests/data/golden/tokenizer
    python3 scripts/golden/tokenizer.py --check DIR  # DIR as Tokenizer::save writes it: same ids as the goldens
"""

import json
import random
import sys
from pathlib import Path

import tokenizers
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

OUT = Path(__file__).resolve().parents[2] / "tests" / "data" / "golden" / "tokenizer"
SEED = 7

TEXTS = [
    "", " ", "a", "  two  spaces ", "3 7 12 = 36\n", "(7-3)*12", "tab\tand\r\nline", "don't I'll 'S",
    "<answer>", "</answer>", "<answer>3+4</answer>", "x<answer", "<answer><answer></answer>", "</answer><answer>",
    "<<answer>>", "<|endoftext|>", "a<|endoftext|>b", "<|endoftext|", "<|im_start|>", "\\boxed{2}",
    "naïve café", "e\u0301 é", "Ġ Ċ ĉ", "ÿþ", "日本語", "Привет", "שלום", "नमस्ते", "🙂", "👩‍👩‍👧", "🇩🇪", "a\u0000b", "\u0000",
    "\u007f\u0080\u009f\u00a0\u00ad", "\u2028\u2029", "\ufeffbom", "\ufffd", "\U0010ffff", "\ue000", "𝟛+𝟜", "３＋４", "×÷−",
    "".join(chr(i) for i in range(128)), "".join(chr(i) for i in range(128, 400)), "1" * 300,
]


def random_texts(rng):
    pieces = ["<answer>", "</answer>", "<|endoftext|>", "<", ">", "/", "answer", " ", "\n", "é", "日", "🙂", "7", "+"]
    for _ in range(60):
        yield "".join(rng.choice(pieces) for _ in range(rng.randrange(1, 20)))


def byte_spellings():
    """The library's byte alphabet in the order of the bytes: those spelled as themselves, the others in order."""
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    shifted = iter(sorted(char for char in alphabet if ord(char) > 255))
    return [chr(byte) if chr(byte) in alphabet else next(shifted) for byte in range(256)]


def build():
    """The quickstart's tokenizer, made by the library itself."""
    spelling = byte_spellings()
    tokenizer = Tokenizer(models.BPE(vocab={spelling[b]: b for b in range(256)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    return tokenizer


def make():
    OUT.mkdir(parents=True, exist_ok=True)
    plain = build()  # without added tokens: how user text must be read
    full = build()
    full.add_tokens([AddedToken("<|endoftext|>", special=True, normalized=False),
                     AddedToken("<answer>", special=False, normalized=False),
                     AddedToken("</answer>", special=False, normalized=False)])
    wrapped = PreTrainedTokenizerFast(tokenizer_object=full, eos_token="<|endoftext|>", pad_token="<|endoftext|>",
                                      clean_up_tokenization_spaces=False)
    wrapped.save_pretrained(OUT)
    rows = []
    for text in TEXTS + list(random_texts(random.Random(SEED))):
        trusted = wrapped(text, add_special_tokens=False)["input_ids"]
        rows.append({"text": text, "plain": plain.encode(text).ids, "trusted": trusted,
                     "decoded": wrapped.decode(trusted, skip_special_tokens=True)})
    (OUT / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    manifest = {"command": "python3 scripts/golden/tokenizer.py", "seed": SEED, "tokenizers": tokenizers.__version__,
                "transformers": transformers.__version__,
                "files": {"tokenizer.json, tokenizer_config.json": "as transformers saves the quickstart's tokenizer",
                          "cases.jsonl": "ids of user text (plain) and of our own text (trusted), and its decoding"}}
    (OUT / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


def check(folder):
    for tokenizer in (AutoTokenizer.from_pretrained(folder), PreTrainedTokenizerFast.from_pretrained(folder)):
        assert tokenizer.eos_token_id == tokenizer.pad_token_id == 256, (tokenizer.eos_token_id, tokenizer.pad_token_id)
        assert len(tokenizer) == 259, len(tokenizer)
        rows = [json.loads(line) for line in (OUT / "cases.jsonl").open()]
        for row in rows:
            ids = tokenizer(row["text"], add_special_tokens=False)["input_ids"]
            assert ids == row["trusted"], (row["text"], ids)
            assert tokenizer(row["text"])["input_ids"] == row["trusted"], row["text"]
            assert tokenizer.decode(ids, skip_special_tokens=True) == row["decoded"], row["text"]
    print(f"{folder}: {len(rows)} texts read to the same ids by transformers {transformers.__version__}")


if __name__ == "__main__":
    check(sys.argv[2]) if sys.argv[1:2] == ["--check"] else make()
