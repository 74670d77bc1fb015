"""config.json of published models, as the hub has them and as the installed transformers writes them again.

    python scripts/golden/hf_configs.py           with transformers 5 and once more with a 4.x: each writes
                                                  tests/data/golden/hf_configs/<model>.transformers<major>.json
    python scripts/golden/hf_configs.py --check   reads <model>.exported.json (what our config_json wrote) and compares
                                                  every field that matters with the hub's form

expected.json (written with transformers 5) holds what transformers makes of each: sizes and number of parameters.
"""

import json
import pathlib
import sys
import tempfile

import torch
import transformers

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "golden" / "hf_configs"
MAJOR = transformers.__version__.split(".")[0]
FIELDS = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "intermediate_size",
          "max_position_embeddings", "rms_norm_eps", "tie_word_embeddings", "bos_token_id", "eos_token_id")
FLAGS = ("embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling", "no_rope_layers")
EXPERT_FIELDS = ("num_experts_per_tok", "moe_intermediate_size", "decoder_sparse_step", "mlp_only_layers", "norm_topk_prob",
                 "router_aux_loss_coef", "output_router_logits")


def load(file):
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "config.json").write_text(file.read_text())
        return transformers.AutoConfig.from_pretrained(folder)


def rope_theta(config):
    parameters = getattr(config, "rope_parameters", None)
    return parameters["rope_theta"] if parameters else config.rope_theta


def experts(config):
    if config.model_type != "qwen3_moe":
        return {}
    count = config.num_experts if MAJOR == "4" else config.num_local_experts
    return {"num_experts": count, **{field: getattr(config, field) for field in EXPERT_FIELDS}}


def facts(config):
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    attention = model.model.layers[0].self_attn
    return {
        **{field: getattr(config, field) for field in FIELDS},
        "head_dim": attention.head_dim,
        "rope_theta": float(rope_theta(config)),
        "dtype": str(getattr(config, "dtype", None) or config.torch_dtype).removeprefix("torch."),
        "qkv_bias": getattr(attention, "q_proj", getattr(attention, "qkv_proj", None)).bias is not None,
        "num_parameters": sum(p.numel() for p in model.parameters()),
        **experts(config),
        **{field: getattr(config, field) for field in FLAGS if hasattr(config, field)},
    }


def rope(config):
    """The frequencies and the factor on cosine and sine: what scaling (llama3, yarn) makes of rope_theta."""
    with torch.device("meta"):
        kind = type(transformers.AutoModelForCausalLM.from_config(config).model.rotary_emb)
    rotary = kind(config)
    return {"rope frequencies": rotary.inv_freq.tolist(), "rope factor": rotary.attention_scaling}


def main():
    models = sorted(file.name.removesuffix(".hub.json") for file in FOLDER.glob("*.hub.json"))
    if "--check" in sys.argv:
        for model in models:
            exported = FOLDER / f"{model}.exported.json"
            if not exported.exists():
                continue
            want, got = ({**facts(config), **rope(config)} for config in (load(FOLDER / f"{model}.hub.json"), load(exported)))
            differences = {key: (want[key], got[key]) for key in want if want[key] != got[key]}
            if differences:
                sys.exit(f"{model}, transformers {transformers.__version__}: {differences}")
            print(f"{model}: transformers {transformers.__version__} reads our export as the hub's")
        return
    expected = {}
    for model in models:
        config = load(FOLDER / f"{model}.hub.json")
        expected[model] = facts(config)
        config.architectures = json.loads((FOLDER / f"{model}.hub.json").read_text())["architectures"]
        (FOLDER / f"{model}.transformers{MAJOR}.json").write_text(config.to_json_string())
    if MAJOR == "5":
        document = {"command": "python scripts/golden/hf_configs.py", "transformers": transformers.__version__, **expected}
        (FOLDER / "expected.json").write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
