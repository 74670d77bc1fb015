"""Tiny odd-shaped random models of all families, with logits, greedy tokens and gradients by transformers.

    python scripts/golden/hf_models.py [NAME ...]     writes tests/data/golden/hf_<name>/ (default: all), hf_manifest.json

The file layout is described in scripts/golden/README.md. All numbers are fp32 on the CPU with eager attention; the
same forward in fp64 tells how far rounding alone moves them (recorded in the manifest).
"""

import json
import pathlib
import platform
import shutil
import sys

import safetensors.torch
import torch
import transformers
from transformers import (Gemma3ForCausalLM, Gemma3TextConfig, GraniteConfig, GraniteForCausalLM, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM,
                          Olmo2Config, Olmo2ForCausalLM, Olmo3Config, Olmo3ForCausalLM, Phi3Config, Phi3ForCausalLM, Qwen2Config, Qwen2ForCausalLM,
                          Qwen3_5ForCausalLM, Qwen3_5TextConfig, Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM, SmolLM3Config,
                          SmolLM3ForCausalLM)

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "golden"
SEQUENCE_LENGTHS = (5, 7, 17)
GREEDY_TOKENS = 64
# Without a margin a greedy token could flip on rounding, and the golden would prove nothing.
MIN_MARGIN = 5e-3
MIN_DISTINCT = 24
# Between the last chosen and the first other expert's probability, at every token: rounding moves it by 5e-6.
MIN_ROUTE_MARGIN = 1e-4
# A DeltaNet layer divides a head's output by its length, however small: few weights keep rounding out of the logits.
MAX_ROUNDING = 1.5e-5

COMMON = dict(num_hidden_layers=2, max_position_embeddings=128, attention_dropout=0.0, use_cache=True, pad_token_id=None)
MODELS = {
    "qwen3": dict(
        model=Qwen3ForCausalLM, seed=11, dtype=torch.float32,
        config=Qwen3Config(vocab_size=259, hidden_size=33, num_attention_heads=4, num_key_value_heads=2, head_dim=10,
                           intermediate_size=37, rms_norm_eps=1e-6, rope_parameters={"rope_type": "default", "rope_theta": 1e6},
                           tie_word_embeddings=True, bos_token_id=1, eos_token_id=2, **COMMON)),
    # bf16 and in shards: the values are the rounded ones, the goldens are still computed in fp32.
    "qwen3_untied": dict(
        model=Qwen3ForCausalLM, seed=12, dtype=torch.bfloat16, max_shard_size="40KB",
        config=Qwen3Config(vocab_size=257, hidden_size=34, num_attention_heads=3, num_key_value_heads=3, head_dim=8,
                           intermediate_size=41, rms_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 1e4},
                           tie_word_embeddings=False, bos_token_id=None, eos_token_id=[2, 256], **COMMON)),
    "qwen2": dict(
        model=Qwen2ForCausalLM, seed=13, dtype=torch.float32,
        config=Qwen2Config(vocab_size=257, hidden_size=36, num_attention_heads=6, num_key_value_heads=2,
                           intermediate_size=35, rms_norm_eps=1e-6, rope_parameters={"rope_type": "default", "rope_theta": 1e6},
                           tie_word_embeddings=True, bos_token_id=None, eos_token_id=3, **COMMON)),
    "llama": dict(
        model=LlamaForCausalLM, seed=14, dtype=torch.float32,
        config=LlamaConfig(vocab_size=259, hidden_size=25, num_attention_heads=5, num_key_value_heads=1, head_dim=14,
                           intermediate_size=33, rms_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 5e5},
                           tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, **COMMON)),
    # Positions stretched so that the goldens' few tokens reach all three of a rule's ranges; fp16 in shards.
    "llama_scaled": dict(
        model=LlamaForCausalLM, seed=15, dtype=torch.float16, max_shard_size="20KB",
        config=LlamaConfig(vocab_size=131, hidden_size=24, num_attention_heads=4, num_key_value_heads=2, head_dim=12,
                           intermediate_size=29, rms_norm_eps=1e-5, tie_word_embeddings=True, bos_token_id=1, eos_token_id=[2, 3],
                           rope_parameters={"rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0,
                                            "high_freq_factor": 4.0, "original_max_position_embeddings": 32}, **COMMON)),
    "qwen3_yarn": dict(
        model=Qwen3ForCausalLM, seed=16, dtype=torch.float32,
        config=Qwen3Config(vocab_size=131, hidden_size=26, num_attention_heads=4, num_key_value_heads=1, head_dim=16,
                           intermediate_size=31, rms_norm_eps=1e-6, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2,
                           rope_parameters={"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0,
                                            "original_max_position_embeddings": 32, "beta_fast": 4.0}, **COMMON)),
    # attention_bias: on q, k, v and o.
    "llama_bias": dict(
        model=LlamaForCausalLM, seed=17, dtype=torch.bfloat16,
        config=LlamaConfig(vocab_size=131, hidden_size=28, num_attention_heads=4, num_key_value_heads=2, head_dim=6,
                           intermediate_size=31, rms_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 1e4},
                           tie_word_embeddings=True, attention_bias=True, bos_token_id=1, eos_token_id=2, **COMMON)),
    "qwen3_bias": dict(
        model=Qwen3ForCausalLM, seed=18, dtype=torch.float32,
        config=Qwen3Config(vocab_size=131, hidden_size=27, num_attention_heads=3, num_key_value_heads=1, head_dim=12,
                           intermediate_size=33, rms_norm_eps=1e-6, rope_parameters={"rope_type": "default", "rope_theta": 1e6},
                           tie_word_embeddings=False, attention_bias=True, bos_token_id=None, eos_token_id=3, **COMMON)),
    # A dense layer between sparse ones, by each of the two keys.
    "qwen3_moe": dict(
        model=Qwen3MoeForCausalLM, seed=21, dtype=torch.float32,
        config=Qwen3MoeConfig(vocab_size=131, hidden_size=24, num_attention_heads=4, num_key_value_heads=2, head_dim=10,
                              intermediate_size=29, rms_norm_eps=1e-6, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2,
                              rope_parameters={"rope_type": "default", "rope_theta": 1e6}, num_local_experts=8,
                              num_experts_per_tok=2, moe_intermediate_size=11, norm_topk_prob=True, mlp_only_layers=[1],
                              decoder_sparse_step=1, **COMMON | dict(num_hidden_layers=3))),
    "qwen3_moe_mixed": dict(
        model=Qwen3MoeForCausalLM, seed=22, dtype=torch.bfloat16, max_shard_size="30KB", f32_gradients=True,
        config=Qwen3MoeConfig(vocab_size=131, hidden_size=24, num_attention_heads=4, num_key_value_heads=2, head_dim=10,
                              intermediate_size=29, rms_norm_eps=1e-6, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2,
                              rope_parameters={"rope_type": "default", "rope_theta": 1e6}, num_local_experts=5,
                              num_experts_per_tok=3, moe_intermediate_size=13, norm_topk_prob=False, mlp_only_layers=[],
                              decoder_sparse_step=2, **COMMON | dict(num_hidden_layers=4))),
    # A family's flags, on and off.
    "mistral": dict(
        model=MistralForCausalLM, seed=31, dtype=torch.float32,
        config=MistralConfig(vocab_size=131, hidden_size=25, num_attention_heads=5, num_key_value_heads=1, head_dim=14,
                             intermediate_size=33, rms_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 1e6},
                             sliding_window=None, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, **COMMON)),
    "llama_linear": dict(
        model=LlamaForCausalLM, seed=32, dtype=torch.float32,
        config=LlamaConfig(vocab_size=131, hidden_size=24, num_attention_heads=4, num_key_value_heads=2, head_dim=12,
                           intermediate_size=29, rms_norm_eps=1e-5, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2,
                           rope_parameters={"rope_type": "linear", "rope_theta": 1e4, "factor": 2.5}, **COMMON)),
    "granite": dict(
        model=GraniteForCausalLM, seed=33, dtype=torch.float32,
        config=GraniteConfig(vocab_size=131, hidden_size=36, num_attention_heads=6, num_key_value_heads=2, intermediate_size=35,
                             rms_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 1e4},
                             embedding_multiplier=2.5, attention_multiplier=0.3, residual_multiplier=0.7, logits_scaling=1.5,
                             tie_word_embeddings=True, bos_token_id=0, eos_token_id=0, **COMMON)),
    "granite_bias": dict(
        model=GraniteForCausalLM, seed=34, dtype=torch.bfloat16, max_shard_size="20KB", f32_gradients=True,
        config=GraniteConfig(vocab_size=131, hidden_size=40, num_attention_heads=4, num_key_value_heads=4, intermediate_size=35,
                             rms_norm_eps=1e-6, rope_parameters={"rope_type": "default", "rope_theta": 1e6},
                             residual_multiplier=0.22, attention_bias=True, tie_word_embeddings=False, bos_token_id=0,
                             eos_token_id=[0, 3], **COMMON)),
    "smollm3": dict(
        model=SmolLM3ForCausalLM, seed=35, dtype=torch.float32,
        config=SmolLM3Config(vocab_size=131, hidden_size=36, num_attention_heads=6, num_key_value_heads=2, intermediate_size=35,
                             rms_norm_eps=1e-6, rope_parameters={"rope_type": "default", "rope_theta": 2e6},
                             no_rope_layer_interval=2, tie_word_embeddings=True, bos_token_id=None, eos_token_id=3,
                             **COMMON | dict(num_hidden_layers=4))),
    "smollm3_bias": dict(
        model=SmolLM3ForCausalLM, seed=36, dtype=torch.float32,
        config=SmolLM3Config(vocab_size=131, hidden_size=24, num_attention_heads=4, num_key_value_heads=2, intermediate_size=35,
                             rms_norm_eps=1e-6, rope_parameters={"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0,
                                                                 "original_max_position_embeddings": 32},
                             no_rope_layers=[0, 1], attention_bias=True, tie_word_embeddings=False, bos_token_id=None,
                             eos_token_id=3, **COMMON)),
    "olmo2": dict(
        model=Olmo2ForCausalLM, seed=37, dtype=torch.float32,
        config=Olmo2Config(vocab_size=131, hidden_size=36, num_attention_heads=6, num_key_value_heads=2, intermediate_size=35,
                           rms_norm_eps=1e-6, rope_parameters={"rope_type": "default", "rope_theta": 5e5},
                           tie_word_embeddings=False, bos_token_id=None, eos_token_id=3, **COMMON)),
    "olmo2_tied": dict(
        model=Olmo2ForCausalLM, seed=38, dtype=torch.bfloat16, max_shard_size="20KB", f32_gradients=True,
        config=Olmo2Config(vocab_size=131, hidden_size=40, num_attention_heads=4, num_key_value_heads=4, intermediate_size=35,
                           rms_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 1e4},
                           tie_word_embeddings=True, bos_token_id=None, eos_token_id=3, **COMMON)),
    # 12 of 16 elements rotate; all texts here are shorter than the original length.
    "phi3": dict(
        model=Phi3ForCausalLM, seed=39, dtype=torch.float32,
        config=Phi3Config(vocab_size=131, hidden_size=48, num_attention_heads=3, num_key_value_heads=1, intermediate_size=35,
                          rms_norm_eps=1e-5, original_max_position_embeddings=96, tie_word_embeddings=True, bos_token_id=None,
                          eos_token_id=3, partial_rotary_factor=0.75,
                          rope_parameters={"rope_type": "longrope", "rope_theta": 1e4, "partial_rotary_factor": 0.75,
                                           "short_factor": [1.0, 1.05, 1.2, 1.5, 2.0, 3.0],
                                           "long_factor": [1.0, 1.5, 3.0, 9.0, 20.0, 40.0]}, **COMMON)),
    "phi3_plain": dict(
        model=Phi3ForCausalLM, seed=40, dtype=torch.bfloat16, max_shard_size="20KB", f32_gradients=True,
        config=Phi3Config(vocab_size=131, hidden_size=36, num_attention_heads=6, num_key_value_heads=2, intermediate_size=35,
                          rms_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 1e4},
                          tie_word_embeddings=False, bos_token_id=None, eos_token_id=[3, 4], **COMMON)),
    # Windows shorter than the texts here: in all layers, from a layer on, and in all layers of fused parts.
    "mistral_window": dict(
        model=MistralForCausalLM, seed=41, dtype=torch.float32,
        config=MistralConfig(vocab_size=131, hidden_size=25, num_attention_heads=5, num_key_value_heads=1, head_dim=14,
                             intermediate_size=33, rms_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 1e6},
                             sliding_window=6, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, **COMMON)),
    "qwen2_window": dict(
        model=Qwen2ForCausalLM, seed=42, dtype=torch.float32,
        config=Qwen2Config(vocab_size=131, hidden_size=36, num_attention_heads=6, num_key_value_heads=2, intermediate_size=35,
                           rms_norm_eps=1e-6, rope_parameters={"rope_type": "default", "rope_theta": 1e6}, use_sliding_window=True,
                           sliding_window=7, max_window_layers=1, tie_word_embeddings=True, bos_token_id=None, eos_token_id=3,
                           **COMMON | dict(num_hidden_layers=3))),
    "phi3_window": dict(
        model=Phi3ForCausalLM, seed=43, dtype=torch.bfloat16, f32_gradients=True,
        config=Phi3Config(vocab_size=131, hidden_size=36, num_attention_heads=6, num_key_value_heads=2, intermediate_size=35,
                          rms_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 1e4}, sliding_window=5,
                          tie_word_embeddings=False, bos_token_id=None, eos_token_id=[3, 4], **COMMON)),
    # Texts of W - 1, W, W + 1 and 3 W tokens; every second layer is full, with a base and scaling of its own.
    "gemma3": dict(
        model=Gemma3ForCausalLM, seed=51, dtype=torch.float32, lengths=(5, 6, 7, 18),
        config=Gemma3TextConfig(vocab_size=131, hidden_size=36, num_attention_heads=6, num_key_value_heads=2, head_dim=10,
                                intermediate_size=35, rms_norm_eps=1e-6, query_pre_attn_scalar=7, sliding_window=6,
                                layer_types=["sliding_attention", "full_attention"] * 2,
                                rope_parameters={"full_attention": {"rope_type": "linear", "factor": 2.5, "rope_theta": 1e4},
                                                 "sliding_attention": {"rope_type": "default", "rope_theta": 1e2}},
                                bos_token_id=2, eos_token_id=1, **COMMON | dict(num_hidden_layers=4))),
    # bf16: the factor of the embeddings is rounded, as transformers does with bf16 weights. One layer of six is full.
    "gemma3_bf16": dict(
        model=Gemma3ForCausalLM, seed=52, dtype=torch.bfloat16, lengths=(4, 5, 6, 15), max_shard_size="30KB", f32_gradients=True,
        config=Gemma3TextConfig(vocab_size=131, hidden_size=40, num_attention_heads=4, num_key_value_heads=1, head_dim=12,
                                intermediate_size=33, rms_norm_eps=1e-5, query_pre_attn_scalar=12, sliding_window=5,
                                
                                rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 1e6},
                                                 "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}},
                                bos_token_id=2, eos_token_id=[1, 106], **COMMON | dict(num_hidden_layers=6))),
    "olmo3": dict(
        model=Olmo3ForCausalLM, seed=53, dtype=torch.float32, lengths=(5, 6, 7, 18),
        config=Olmo3Config(vocab_size=131, hidden_size=36, num_attention_heads=6, num_key_value_heads=2, intermediate_size=35,
                           rms_norm_eps=1e-6, sliding_window=6, layer_types=["sliding_attention", "full_attention"],
                           rope_parameters={"full_attention": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0,
                                                               "original_max_position_embeddings": 32, "beta_fast": 4.0,
                                                               "attention_factor": 1.2},
                                            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}},
                           tie_word_embeddings=False, bos_token_id=None, eos_token_id=3, **COMMON)),
    "olmo3_plain": dict(
        model=Olmo3ForCausalLM, seed=54, dtype=torch.bfloat16, lengths=(6, 7, 8, 21), max_shard_size="30KB", f32_gradients=True,
        config=Olmo3Config(vocab_size=131, hidden_size=40, num_attention_heads=4, num_key_value_heads=4, intermediate_size=35,
                           rms_norm_eps=1e-5, sliding_window=7,
                           rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 5e5},
                                            "sliding_attention": {"rope_type": "default", "rope_theta": 5e5}},
                           tie_word_embeddings=False, bos_token_id=None, eos_token_id=3, **COMMON | dict(num_hidden_layers=4))),
    # As many key heads as value heads, each second layer is full. A text longer than a chunk of 64 tokens.
    "qwen3_5": dict(
        model=Qwen3_5ForCausalLM, seed=61, dtype=torch.float32, lengths=(2, 5, 9, 70),
        config=Qwen3_5TextConfig(vocab_size=131, hidden_size=36, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                                 intermediate_size=35, rms_norm_eps=1e-5, linear_num_key_heads=3, linear_num_value_heads=3,
                                 linear_key_head_dim=16, linear_value_head_dim=32, linear_conv_kernel_dim=4,
                                 full_attention_interval=2, tie_word_embeddings=True, bos_token_id=None, eos_token_id=3,
                                 rope_parameters={"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.25,
                                                  "mrope_section": [1, 1, 0], "mrope_interleaved": True},
                                 **COMMON | dict(num_hidden_layers=4))),
    # Fewer key heads, a narrower convolution, each fourth layer is full.
    "qwen3_5_groups": dict(
        model=Qwen3_5ForCausalLM, seed=62, dtype=torch.bfloat16, lengths=(2, 7, 67), max_shard_size="40KB", f32_gradients=True,
        max_rounding=9e-6,
        config=Qwen3_5TextConfig(vocab_size=131, hidden_size=40, num_attention_heads=4, num_key_value_heads=1, head_dim=12,
                                 intermediate_size=33, rms_norm_eps=1e-4, linear_num_key_heads=2, linear_num_value_heads=6,
                                 linear_key_head_dim=32, linear_value_head_dim=16, linear_conv_kernel_dim=3,
                                 tie_word_embeddings=False, bos_token_id=None, eos_token_id=[3, 4],
                                 rope_parameters={"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 0.5},
                                 **COMMON | dict(num_hidden_layers=4))),
}


def randomize(model, dtype, generator):
    """Larger than a fresh model's weights: attention is far from uniform and greedy tokens have margins.

    Only the values are rounded to `dtype`: model.to(dtype) would round the rotary frequencies as well.
    """
    # Gains of 1 + w are stored as w. Large ones on outputs: else the scaled, tied embedding makes each greedy token the next.
    is_gemma = isinstance(model, Gemma3ForCausalLM)
    is_offset = is_gemma or isinstance(model, Qwen3_5ForCausalLM)
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        center = 1.0 if not is_offset or "linear_attn.norm" in name else 6.0 if is_gemma and "layernorm" in name and ".post_" in name else 0.0
        std = 0.45 if name.endswith("mlp.gate.weight") else 0.3  # routers: their choices have margins
        # States that remember some tokens, and convolutions of some strength.
        center = center if name.endswith("norm.weight") else -2.0 if name.endswith("A_log") else 0.0
        std = 1.0 if name.endswith("conv1d.weight") else 0.06 if name.endswith("linear_attn.out_proj.weight") else std
        weight.data = (std * noise + center).to(dtype).float()


def route_margin(model, sequences):
    """The smallest gap between the last chosen and the first other expert's probability; infinite in dense models."""
    least = float("inf")

    def note(module, _, output):
        nonlocal least
        top = output[0].float().softmax(-1).topk(module.top_k + 1).values
        least = min(least, (top[:, -2] - top[:, -1]).min().item())

    hooks = [m.register_forward_hook(note) for m in model.modules() if type(m).__name__ == "Qwen3MoeTopKRouter"]
    with torch.no_grad():
        for ids in sequences:
            model(ids[None])
    for hook in hooks:
        hook.remove()
    return least


def round_embedding_scale(model, dtype):
    """transformers rounds the factor of the embeddings to the weights' dtype, which is fp32 here."""
    scale = getattr(model.get_input_embeddings(), "embed_scale", None)
    if scale is not None:
        scale.data = scale.to(dtype).to(scale.dtype)


def mean_cross_entropy(model, sequences):
    """Mean over all next-token positions of all sequences, each sequence alone."""
    total, count = 0.0, 0
    for ids in sequences:
        logits = model(ids[None, :-1]).logits[0]
        total = total + torch.nn.functional.cross_entropy(logits, ids[1:], reduction="sum")
        count += ids.numel() - 1
    return total / count


def greedy(model, prompt):
    ids, margins = prompt.clone(), []
    with torch.no_grad():
        for _ in range(GREEDY_TOKENS):
            top = model(ids[None]).logits[0, -1].topk(2)
            margins.append((top.values[0] - top.values[1]).item())
            ids = torch.cat([ids, top.indices[:1]])
    return ids[prompt.numel():], torch.tensor(margins)


def in_fp64(model, spec):
    exact = spec["model"](spec["config"]).eval().double()
    exact.load_state_dict(model.state_dict())
    round_embedding_scale(exact, spec["dtype"])
    return exact


def rounding(model, exact, sequences):
    """How far fp32 moves the logits."""
    with torch.no_grad():
        return max((exact(ids[None]).logits[0] - model(ids[None]).logits[0]).abs().max().item() for ids in sequences)


def make(name, spec):
    for attempt in range(200):
        generator = torch.Generator().manual_seed(1000 * spec["seed"] + attempt)
        spec["config"]._attn_implementation = spec["config"]._experts_implementation = "eager"
        model = spec["model"](spec["config"]).eval()
        randomize(model, spec["dtype"], generator)
        round_embedding_scale(model, spec["dtype"])
        model.tie_weights()
        vocab_size = spec["config"].vocab_size
        sequences = [torch.randint(vocab_size, (n,), generator=generator) for n in spec.get("lengths", SEQUENCE_LENGTHS)]
        prompt = torch.randint(vocab_size, (9,), generator=generator)
        if route_margin(model, sequences) < MIN_ROUTE_MARGIN:
            continue
        tokens, margins = greedy(model, prompt)
        route = route_margin(model, [*sequences, torch.cat([prompt, tokens])])
        if margins.min() < MIN_MARGIN or tokens.unique().numel() < MIN_DISTINCT or route < MIN_ROUTE_MARGIN:
            continue
        exact = in_fp64(model, spec)
        worst = rounding(model, exact, sequences)
        if worst <= spec.get("max_rounding", MAX_ROUNDING):
            break
    else:
        sys.exit(f"{name}: no seed gives margins of {MIN_MARGIN} and {MIN_DISTINCT} distinct tokens")

    golden, facts = {}, {"seed": 1000 * spec["seed"] + attempt, "transformers": transformers.__version__,
                         "torch": torch.__version__}
    with torch.no_grad():
        for i, ids in enumerate(sequences):
            golden[f"input_ids.{i}"] = ids
            golden[f"logits.{i}"] = model(ids[None]).logits[0]
    facts["max_abs_logit"] = max(golden[f"logits.{i}"].abs().max().item() for i in range(len(sequences)))
    facts["logits_fp32_vs_fp64"] = worst
    golden["greedy.prompt"], golden["greedy.tokens"], golden["greedy.margins"] = prompt, tokens, margins
    facts["min_greedy_margin"] = margins.min().item()
    if route < float("inf"):
        facts["min_route_margin"] = route

    loss = mean_cross_entropy(model, sequences)
    loss.backward()
    mean_cross_entropy(exact, sequences).backward()
    golden["loss"] = loss.detach()
    worst = 0.0
    for (weight_name, weight), (_, twin) in zip(model.named_parameters(), exact.named_parameters()):
        fused = weight_name.endswith(("experts.gate_up_proj", "experts.down_proj"))
        # Saving the model rounds its gradients to its dtype, in place.
        golden[f"grad.{weight_name}{'.weight' if fused else ''}"] = (
            weight.grad.clone() if spec.get("f32_gradients") else weight.grad)
        worst = max(worst, ((weight.grad - twin.grad).norm() / twin.grad.norm()).item())
    facts["gradients_fp32_vs_fp64_relative"] = worst

    folder = GOLDEN / f"hf_{name}"
    shutil.rmtree(folder, ignore_errors=True)
    model.to(spec["dtype"]).save_pretrained(folder, max_shard_size=spec.get("max_shard_size", "5GB"))
    safetensors.torch.save_file({k: v.contiguous() for k, v in golden.items()}, folder / "golden.safetensors")
    for file in folder.iterdir():
        file.chmod(0o644)
    facts["bytes"] = sum(f.stat().st_size for f in folder.iterdir())
    return facts


def main():
    torch.set_num_threads(1)
    wanted = sys.argv[1:] or list(MODELS)
    path = GOLDEN / "hf_manifest.json"
    manifest = json.loads(path.read_text()) if sys.argv[1:] else {
        "command": "python scripts/golden/hf_models.py", "python": platform.python_version(),
        "safetensors": safetensors.__version__, "models": {}}
    manifest["models"] |= {name: make(name, MODELS[name]) for name in wanted}
    path.write_text(json.dumps(manifest, indent=2) + "\n")
    print(json.dumps(manifest, indent=2))


if __name__ == "__main__":
    main()
