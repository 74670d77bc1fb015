"""GGUF files and what PyPI's gguf reads from them.

    python scripts/golden/gguf_files.py                writes tests/data/golden/gguf/; needs numpy, gguf and safetensors
    python scripts/golden/gguf_files.py --llama-cpp    compares ids with llama.cpp's; needs llama-cpp-python, too

types.gguf has a tensor of every type that is read: random bytes, with scales that are numbers. types.safetensors has its values by gguf's
own dequantizer, in fp32. quantized.safetensors has values, and their bytes by gguf's quantizer. <name>.gguf holds tests/data/golden/hf_<name> in llama.cpp's names. Its q and k are reordered, as llama.cpp's
converter does. tokenizer_<name>.gguf holds tests/data/golden/tokenizer_bpe/<name>.json. Those of SentencePiece's kind stand beside a tokenizer.json with
all merges of their scores.
"""

import json
import pathlib
import sys

import gguf
import numpy as np
import safetensors.numpy
import safetensors.torch
import tokenizers
from gguf import GGMLQuantizationType as Type

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "golden"
FOLDER = GOLDEN / "gguf"
TYPES = (Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q4_K, Type.Q5_K, Type.Q6_K)
# Offsets of a block's half-precision scales.
SCALES = {Type.Q8_0: (0,), Type.Q4_0: (0,), Type.Q4_1: (0, 2), Type.Q5_0: (0,), Type.Q5_1: (0, 2), Type.Q4_K: (0, 2), Type.Q5_K: (0, 2),
          Type.Q6_K: (208,)}
# Folder hf_<name>, architecture, whether rows of q and k are reordered.
MODELS = {"llama": ("llama", True), "qwen2": ("qwen2", False), "qwen3": ("qwen3", False), "gemma3_bf16": ("gemma3", False)}
TOKENIZERS = {"gpt2": "gpt-2", "llama3": "llama-bpe", "qwen2": "qwen2", "digits": "smollm"}  # tokenizer.ggml.pre
NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
# Gemma has two more norms, and its gains are stored as 1 + w.
GEMMA_NAMES = NAMES | {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
                       "post_feedforward_layernorm": "post_ffw_norm"}


def random_rows(rng, kind, rows, columns):
    """Raw bytes of a tensor [rows, columns] of this type."""
    if kind in (Type.F32, Type.F16, Type.BF16):
        values = rng.standard_normal((rows, columns)).astype(np.float32)
        return gguf.quants.quantize(values, kind)
    block, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (rows * columns // block, size), dtype=np.uint8)
    for at in SCALES[kind]:
        scales = (rng.standard_normal(len(blocks)) * 0.01).astype(np.float16)
        scales[0] = np.float16(6e-8)  # subnormal
        blocks[:, at:at + 2] = scales.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(rows, columns // block * size)


def write_types():
    rng = np.random.default_rng(5)
    writer = gguf.GGUFWriter(FOLDER / "types.gguf", "llama")
    values = {}
    for kind in TYPES:
        raw = random_rows(rng, kind, 3, 512)
        if kind in (Type.F32, Type.F16):
            writer.add_tensor(kind.name, raw)
        else:
            writer.add_tensor(kind.name, raw, raw_dtype=kind)
        values[kind.name] = np.ascontiguousarray(gguf.quants.dequantize(raw, kind), dtype=np.float32)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    safetensors.numpy.save_file(values, FOLDER / "types.safetensors")


def write_quantized():
    """Rows of hard values, and the bytes that gguf's quantizer makes of them."""
    rng = np.random.default_rng(6)
    values = rng.standard_normal((8, 256)).astype(np.float32)
    values[1] *= np.float32(1e-7)  # subnormal scales
    values[2, :32] = 0
    values[3] = np.round(values[3] * 4) / 4  # ties
    values[4, ::32] = -values[4, 1::32]  # largest values of both signs
    values[5] *= np.float32(3e4)
    values[6, 5] = np.float32(-127)
    values[6, 6:32] = np.arange(26, dtype=np.float32) - np.float32(12.5)  # halves
    tensors = {"values": values}
    for kind in (Type.BF16, Type.Q8_0, Type.Q4_0):
        tensors[kind.name] = np.ascontiguousarray(gguf.quants.quantize(values, kind)).view(np.uint8)
    safetensors.numpy.save_file(tensors, FOLDER / "quantized.safetensors")


def load_weights(folder):
    weights = {}
    for file in sorted(folder.glob("model*.safetensors")):
        weights |= {key: value.float().numpy() for key, value in safetensors.torch.load_file(file).items()}
    return weights


def write_model(name, architecture, reorders):
    folder = GOLDEN / f"hf_{name}"
    config = json.loads((folder / "config.json").read_text())
    writer = gguf.GGUFWriter(FOLDER / f"{name}.gguf", architecture)
    is_gemma = architecture == "gemma3"
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    rope = config["rope_parameters"]
    writer.add_rope_freq_base(rope["full_attention"]["rope_theta"] if is_gemma else rope["rope_theta"])
    if is_gemma:
        writer.add_sliding_window(config["sliding_window"])
    writer.add_rope_dimension_count(head_dim)
    eos = config["eos_token_id"]
    writer.add_eos_token_id(eos[0] if isinstance(eos, list) else eos)
    if config["bos_token_id"] is not None:
        writer.add_bos_token_id(config["bos_token_id"])
    for key, values in load_weights(folder).items():
        stem, kind = key.rsplit(".", 1)
        if stem in ("model.embed_tokens", "model.norm", "lm_head"):
            target = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}[stem]
        else:
            _, _, layer, module = stem.split(".", 3)
            target = f"blk.{layer}.{(GEMMA_NAMES if is_gemma else NAMES)[module]}"
            count = {"self_attn.q_proj": heads, "self_attn.k_proj": kv_heads}.get(module)
            if reorders and count:
                shape = values.shape
                values = values.reshape(count, 2, shape[0] // count // 2, *shape[1:]).swapaxes(1, 2).reshape(shape)
        if is_gemma and stem.endswith("norm"):
            values = 1 + values
        writer.add_tensor(f"{target}.{kind}", np.ascontiguousarray(values, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_tokenizer(name, pre):
    """The tokenizer of tests/data/golden/tokenizer_bpe/<name>.json in a file without tensors."""
    root = json.loads((GOLDEN / "tokenizer_bpe" / f"{name}.json").read_text())
    tokens = {id: token for token, id in root["model"]["vocab"].items()}
    kinds = dict.fromkeys(tokens, gguf.TokenType.NORMAL)
    for token in root["added_tokens"]:
        tokens[token["id"]] = token["content"]
        kinds[token["id"]] = gguf.TokenType.CONTROL if token["special"] else gguf.TokenType.USER_DEFINED
    count = max(tokens) + 1
    writer = gguf.GGUFWriter(FOLDER / f"tokenizer_{name}.gguf", "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list([tokens.get(i, f"[PAD{i}]") for i in range(count)])
    writer.add_token_types([kinds.get(i, gguf.TokenType.UNUSED) for i in range(count)])
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in root["model"]["merges"]])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def scored_json(name):
    """tokenizer_bpe/<name>.json with all merges that SentencePiece's scores represent, and its tokens with kinds and scores."""
    root = json.loads((GOLDEN / "tokenizer_bpe" / f"{name}.json").read_text())
    is_gemma = name == "spaced_gemma"
    model = root["model"]
    if is_gemma:  # runs of spaces are added tokens there, but not in normalized text; text of users has others
        for token in ("\u2581\u2581", "\n", "\n\n", "<td>"):
            model["vocab"].setdefault(token, len(model["vocab"]))
            root["added_tokens"].append({"content": token, "special": False})
    for token in root["added_tokens"]:
        model["vocab"].setdefault(token["content"], len(model["vocab"]))
    root["added_tokens"] = sorted(({"id": model["vocab"][token["content"]], "content": token["content"], "single_word": False, "lstrip": False,
                                    "rstrip": False, "normalized": False, "special": token["special"]} for token in root["added_tokens"]),
                                  key=lambda token: token["id"])
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    added = {token["content"]: token["special"] for token in root["added_tokens"] if "\u2581" not in token["content"]}
    kinds = [gguf.TokenType.UNKNOWN if token == "<unk>" else gguf.TokenType.CONTROL if added.get(token) else gguf.TokenType.USER_DEFINED
             if token in added else gguf.TokenType.BYTE if token.startswith("<0x") and len(token) == 6 else gguf.TokenType.NORMAL
             for token in tokens]
    rank = {"".join(merge): -float(at) for at, merge in reversed(list(enumerate(model["merges"])))}
    normal = {token for token, kind in zip(tokens, kinds) if kind == gguf.TokenType.NORMAL}
    cuts = {token: [(token[:k], token[k:]) for k in range(1, len(token)) if token in normal and token[:k] in normal and token[k:] in normal]
            for token in tokens}
    scores = [(rank[token] if cuts[token] else -1e6 - at) if token in normal else 0.0 for at, token in enumerate(tokens)]
    # transformers' way from scores to merges (convert_slow_tokenizer.py), said again.
    score, merges = dict(zip(tokens, scores)), []
    for token in tokens:
        merges += sorted(((*cut, score[token]) for cut in cuts[token]), key=lambda cut: (score[cut[0]], score[cut[1]]), reverse=True)
    merges.sort(key=lambda merge: merge[2], reverse=True)
    model["merges"] = [[left, right] for left, right, _ in merges]
    return root, tokens, kinds, scores


def write_scored_tokenizer(name, kind):
    """A tokenizer of SentencePiece's kind: scores instead of merges, its tokenizer.json, and cases by PyPI's tokenizers."""
    root, tokens, kinds, scores = scored_json(kind)
    writer = gguf.GGUFWriter(FOLDER / f"{name}.gguf", "llama")
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_scores(scores)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_space_prefix(kind != "spaced_gemma")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (FOLDER / f"{name}.json").write_text(json.dumps(root))
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(root))
    texts = [json.loads(line)["text"] for line in (GOLDEN / "tokenizer_bpe" / f"{kind}.cases.jsonl").open()]
    if kind == "spaced_gemma":  # PyPI's tokenizers finds an added token of marks in a text that spells them
        texts = [text for text in texts if "\u2581\u2581" not in text] + ["a  b", "   x\n\n\n y ", "<td>7</td>", "\n  \n"]
    rows = [{"text": text, "ids": tokenizer.encode(text, add_special_tokens=False).ids} for text in texts]
    (FOLDER / f"{name}.cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


SCORED = {"tokenizer_spaced": "spaced_llama2", "tokenizer_spaced_gemma": "spaced_gemma"}


def check_llama_cpp():
    """Exits with a message unless llama.cpp gives the texts of SCORED the same ids."""
    import llama_cpp
    for name in SCORED:
        model = llama_cpp.Llama(str(FOLDER / f"{name}.gguf"), vocab_only=True, verbose=False)
        for row in map(json.loads, (FOLDER / f"{name}.cases.jsonl").open()):
            ids = model.tokenize(row["text"].encode(), add_bos=False, special=True)
            if ids != row["ids"]:
                sys.exit(f"{name}: {row['text']!r}: {ids}, not {row['ids']}")
        print(f"{name}: llama.cpp {llama_cpp.__version__} gives the same ids")


def main():
    if sys.argv[1:] == ["--llama-cpp"]:
        return check_llama_cpp()
    FOLDER.mkdir(exist_ok=True)
    write_types()
    write_quantized()
    for name, pre in TOKENIZERS.items():
        write_tokenizer(name, pre)
    for name, kind in SCORED.items():
        write_scored_tokenizer(name, kind)
    for name, (architecture, reorders) in MODELS.items():
        write_model(name, architecture, reorders)
    (FOLDER / "manifest.json").write_text(json.dumps({
        "command": "python scripts/golden/gguf_files.py", "numpy": np.__version__, "gguf": gguf.__version__ if hasattr(
            gguf, "__version__") else "unknown"}, indent=2) + "\n")


if __name__ == "__main__":
    main()
