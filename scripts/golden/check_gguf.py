#!/usr/bin/env python3
"""Compares a GGUF file of `qrl-train export --gguf` with a Hugging Face folder, by PyPI's gguf.

    python scripts/golden/check_gguf.py FILE.gguf FOLDER [--llama-cpp] [--perplexity IMPORTED] [--greedy IMPORTED]
        needs numpy, gguf and safetensors

Every matrix has the bytes of gguf's quantizer, norms and biases are fp32, and tokens and merges are those of tokenizer.json. Scores of
SentencePiece's BPE must represent its merges. With --llama-cpp (PyPI's llama-cpp-python), texts of the vocabulary get the ids of PyPI's
tokenizers. IMPORTED is the folder that `qrl-train import` made of the file:

--perplexity  compares llama.cpp's perplexity of these pages with that of transformers in fp32. Files of bf16 must agree within 0.1 %, others
              within 1 %: llama.cpp multiplies those by inputs in 8 bits.
--greedy      has llama.cpp read the file with its values as F32. After each of four prompts its best tokens must be transformers' 30, where
              transformers' lead is above 0.1.

Exit code 1 if something differs.
"""

import argparse
import json
import pathlib
import sys
import tempfile
import unicodedata

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf_files import GEMMA_NAMES, NAMES

ROOT = pathlib.Path(__file__).resolve().parents[2]


def folder_tensors(folder):
    """The folder's tensors in fp32, by name."""
    tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        raw = file.read_bytes()
        size = int.from_bytes(raw[:8], "little")
        for name, entry in json.loads(raw[8:8 + size]).items():
            if name == "__metadata__":
                continue
            begin, end = entry["data_offsets"]
            data = np.frombuffer(raw[8 + size + begin:8 + size + end], dtype=np.uint16 if entry["dtype"] == "BF16" else np.float32)
            if entry["dtype"] == "BF16":
                data = (data.astype(np.uint32) << 16).view(np.float32)
            tensors[name] = data.reshape(entry["shape"])
    return tensors


def gguf_tensor(name, values, config, permutes):
    """The tensor's name and values in GGUF."""
    stem, kind = name.rsplit(".", 1)
    tables = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    if stem in tables:
        return f"{tables[stem]}.{kind}", values
    _, _, layer, module = stem.split(".", 3)
    heads = {"self_attn.q_proj": config["num_attention_heads"], "self_attn.k_proj": config["num_key_value_heads"]}.get(module)
    if permutes and heads:
        values = values.reshape(heads, 2, values.shape[0] // heads // 2, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)
    names = GEMMA_NAMES if config["model_type"].startswith("gemma") else NAMES
    return f"blk.{layer}.{names[module]}.{kind}", values


def check_tensors(reader, folder):
    """Lists tensors that differ from gguf's own encoding of the folder's values."""
    config = json.loads((folder / "config.json").read_text())
    permutes = config["model_type"] in ("llama", "mistral", "granite", "smollm3")
    stored = {tensor.name: tensor for tensor in reader.tensors}
    wrong, types = [], {}
    for name, values in folder_tensors(folder).items():
        target, values = gguf_tensor(name, values, config, permutes)
        if config["model_type"].startswith("gemma") and values.ndim == 1:
            values = 1 + values
        tensor = stored.pop(target)
        types[tensor.tensor_type.name] = types.get(tensor.tensor_type.name, 0) + 1
        want = gguf.quants.quantize(np.ascontiguousarray(values), tensor.tensor_type)
        if (values.ndim == 1) != (tensor.tensor_type == Type.F32):
            wrong.append(f"{target}: a type of {tensor.tensor_type.name}")
        if np.ascontiguousarray(tensor.data).tobytes() != np.ascontiguousarray(want).tobytes():
            wrong.append(f"{target}: other bytes")
    wrong += [f"{name}: an extra tensor" for name in stored if name != "rope_freqs.weight"]
    return wrong, types


def texts_of(field):
    return [bytes(field.parts[i]).decode() for i in field.data]


def merges_of_scores(tokens, kinds, scores):
    """The pairs that SentencePiece's scores merge: into each normal token, of two normal tokens, a set a token in order."""
    normal = {token: score for token, kind, score in zip(tokens, kinds, scores) if kind == gguf.TokenType.NORMAL}
    cuts = {token: {(token[:k], token[k:]) for k in range(1, len(token)) if token[:k] in normal and token[k:] in normal} for token in normal}
    return [cuts[token] for token in sorted(normal, key=normal.get, reverse=True) if cuts[token]]


def grouped(merges, normal):
    """Merges of normal tokens, those into one token as a set, in order."""
    groups = []
    for left, right in merges:
        if not {left, right, left + right} <= normal:
            continue
        if not groups or left + right not in {"".join(pair) for pair in groups[-1]}:
            groups.append(set())
        groups[-1].add((left, right))
    return groups


def check_tokenizer(reader, folder):
    root = json.loads((folder / "tokenizer.json").read_text())
    tokens = texts_of(reader.fields["tokenizer.ggml.tokens"])
    kinds = reader.fields["tokenizer.ggml.token_type"].contents()
    known = dict(root["model"]["vocab"]) | {token["content"]: token["id"] for token in root["added_tokens"]}
    is_spaced = reader.fields["tokenizer.ggml.model"].contents() == "llama"
    wrong = [f"token {id}: {tokens[id]!r}, not {token!r}" for token, id in known.items()
             if tokens[id] != token and not (is_spaced and tokens[id] == token.replace("\u2581", " "))]
    merges = [tuple(merge.split(" ") if isinstance(merge, str) else merge) for merge in root["model"]["merges"]]
    if is_spaced:
        got = merges_of_scores(tokens, kinds, reader.fields["tokenizer.ggml.scores"].contents())
        want = grouped(merges, {token for token, kind in zip(tokens, kinds) if kind == gguf.TokenType.NORMAL})
    else:
        got, want = texts_of(reader.fields["tokenizer.ggml.merges"]), [" ".join(merge) for merge in merges]
    if got != want:
        wrong.append("other merges")
    return wrong


def check_llama_cpp(file, folder, count=1000):
    """Ids of llama.cpp against those of PyPI's tokenizers, on random joins of tokens."""
    import llama_cpp
    import tokenizers
    model = llama_cpp.Llama(str(file), vocab_only=True, verbose=False)
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    rng = np.random.default_rng(0)
    wrong, ids = [], range(tokenizer.get_vocab_size())
    for _ in range(count):
        text = unicodedata.normalize("NFC", tokenizer.decode(rng.choice(ids, 12).tolist()).replace("\ufffd", ""))  # llama.cpp does not
        ours = model.tokenize(text.encode(), add_bos=False, special=False)
        theirs = tokenizer.encode(text, add_special_tokens=False).ids
        if ours != theirs:
            wrong.append(f"ids of {text!r}: {ours}, not {theirs}")
    return wrong


def perplexities(file, folder, num_tokens=1024, window=256):
    """Of llama.cpp on the file, and of transformers on the folder, over the first tokens of the pages in docs/concepts."""
    import llama_cpp
    import torch
    import transformers
    text = "".join(page.read_text() for page in sorted((ROOT / "docs" / "concepts").glob("*.md")))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(text, add_special_tokens=False).input_ids[:num_tokens]
    reference = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    model = llama_cpp.Llama(str(file), n_ctx=window, logits_all=True, verbose=False)
    sums, count = [0.0, 0.0], 0
    for start in range(0, len(ids), window):
        part = torch.tensor(ids[start:start + window])
        model.reset()
        model.eval(part.tolist())
        with torch.no_grad():
            theirs = reference(part[None]).logits[0, :-1].double()
        ours = torch.from_numpy(np.array(model.scores[:len(part) - 1])).double()
        for i, logits in enumerate((ours, theirs)):
            sums[i] += torch.nn.functional.cross_entropy(logits, part[1:], reduction="sum").item()
        count += len(part) - 1
    return [float(np.exp(value / count)) for value in sums]


def write_f32(reader, out):
    """The same file with its values as F32."""
    writer = gguf.GGUFWriter(out, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        kind = field.types[0]
        writer.add_key_value(name, field.contents(), kind, sub_type=field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, np.ascontiguousarray(gguf.quants.dequantize(tensor.data, tensor.tensor_type), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def check_greedy(reader, imported):
    """Best tokens of llama.cpp where transformers leads by more than 0.1, along transformers' greedy text."""
    import llama_cpp
    import torch
    import transformers
    from check_export import GREEDY_TOKENS, PROMPTS
    tokenizer = transformers.AutoTokenizer.from_pretrained(imported)
    reference = transformers.AutoModelForCausalLM.from_pretrained(imported, dtype=torch.float32).eval()
    wrong, num_clear = [], 0
    with tempfile.TemporaryDirectory() as folder:
        write_f32(reader, f"{folder}/f32.gguf")
        model = llama_cpp.Llama(f"{folder}/f32.gguf", n_ctx=128, logits_all=True, verbose=False)
        for prompt in PROMPTS:
            ids = tokenizer(prompt, return_tensors="pt").input_ids
            with torch.no_grad():
                text = reference.generate(ids, max_new_tokens=GREEDY_TOKENS, do_sample=False)
                theirs = reference(text).logits[0].numpy()
            model.reset()
            model.eval(text[0].tolist())
            for at in range(ids.shape[1] - 1, text.shape[1] - 1):
                second, best = np.sort(theirs[at])[-2:]
                if best - second <= 0.1:
                    continue
                num_clear += 1
                if np.argmax(model.scores[at]) != text[0, at + 1]:
                    wrong.append(f"after {tokenizer.decode(text[0, :at + 1])!r}: token {np.argmax(model.scores[at])}, not {text[0, at + 1]}")
    print(f"greedy: {num_clear} of {len(PROMPTS) * GREEDY_TOKENS} tokens lead by more than 0.1")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--llama-cpp", action="store_true")
    parser.add_argument("--perplexity", type=pathlib.Path, metavar="IMPORTED")
    parser.add_argument("--greedy", type=pathlib.Path, metavar="IMPORTED")
    arguments = parser.parse_args()
    reader = gguf.GGUFReader(arguments.file)
    wrong, types = check_tensors(reader, arguments.folder)
    wrong += check_tokenizer(reader, arguments.folder)
    if arguments.llama_cpp:
        wrong += check_llama_cpp(arguments.file, arguments.folder)
    if arguments.perplexity:
        ours, theirs = perplexities(arguments.file, arguments.perplexity)
        print(f"perplexity: llama.cpp {ours:.4f}, transformers {theirs:.4f}, ratio {ours / theirs:.5f}")
        if not abs(ours / theirs - 1) <= (0.001 if set(types) <= {"BF16", "F32"} else 0.01):
            wrong.append(f"perplexity {ours}, not {theirs}")
    if arguments.greedy:
        wrong += check_greedy(reader, arguments.greedy)
    print(f"{arguments.file}: tensors {types}, {len(wrong)} differences")
    for line in wrong[:20]:
        print(" ", line)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
