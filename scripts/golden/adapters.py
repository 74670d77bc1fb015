"""Random LoRA adapters on the tiny models of hf_models.py, with logits and merged weights by transformers and PEFT.

    python scripts/golden/adapters.py           writes tests/data/golden/peft_<name>/ and peft_manifest.json
    python scripts/golden/adapters.py --check DIR BASE   loads a PEFT folder that qrl-train wrote and prints its logits' size

The file layout is described in scripts/golden/README.md. All numbers are fp32 on the CPU with eager attention.
"""

import importlib.metadata
import json
import pathlib
import platform
import shutil
import sys

import peft
import safetensors.torch
import torch
import transformers

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "golden"
LENGTHS = (5, 17)

CASES = {
    "qwen2_r4": dict(base="hf_qwen2", seed=31, r=4, lora_alpha=8, target_modules="all-linear"),
    "qwen3_r16_rslora": dict(base="hf_qwen3", seed=32, r=16, lora_alpha=4, use_rslora=True, target_modules="all-linear"),
    "llama_r1": dict(base="hf_llama", seed=33, r=1, lora_alpha=2, target_modules=["q_proj", "v_proj"]),
    "qwen3_norms": dict(base="hf_qwen3", seed=34, r=2, lora_alpha=4, target_modules=["up_proj", "model.layers.1.mlp.down_proj"],
                        modules_to_save=["input_layernorm", "k_norm", "norm", "post_attention_layernorm", "q_norm"]),
    "gemma3_norms": dict(base="hf_gemma3", seed=35, r=4, lora_alpha=8, target_modules="all-linear", modules_to_save=[
        "input_layernorm", "k_norm", "norm", "post_attention_layernorm", "post_feedforward_layernorm", "pre_feedforward_layernorm", "q_norm"]),
}


def load_base(name):
    return transformers.AutoModelForCausalLM.from_pretrained(GOLDEN / name, dtype=torch.float32, attn_implementation="eager")


def make(name, base, seed, **lora):
    torch.manual_seed(seed)
    model = peft.get_peft_model(load_base(base), peft.LoraConfig(task_type="CAUSAL_LM", lora_dropout=0.0, **lora)).eval()
    for key, weight in model.named_parameters():
        if "lora_" in key:
            weight.data = 0.2 * torch.randn(weight.shape)
        elif "modules_to_save" in key:
            weight.data = weight.data + 0.2 * torch.randn(weight.shape)
    folder = GOLDEN / f"peft_{name}"
    shutil.rmtree(folder, ignore_errors=True)
    model.peft_config["default"].base_model_name_or_path = base
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)

    golden = {}
    for i, length in enumerate(LENGTHS):
        ids = torch.randint(model.config.vocab_size, (length,))
        golden[f"input_ids.{i}"] = ids
        with torch.no_grad():
            golden[f"logits.{i}"] = model(ids[None]).logits[0].clone()
    merged = model.merge_and_unload()
    weights = dict(merged.named_parameters())
    for key in ("model.layers.0.self_attn.q_proj.weight", "model.layers.1.mlp.down_proj.weight", "model.layers.1.input_layernorm.weight"):
        golden[f"merged.{key}"] = weights[key].detach().clone()
    with torch.no_grad():
        golden["merged_logits.1"] = merged(golden["input_ids.1"][None]).logits[0].clone()
    safetensors.torch.save_file(golden, folder / "golden.safetensors")
    return {"base": base, "seed": seed, **lora}


def check(folder, base):
    """Does PEFT take a folder of ours, every tensor of it, and does it change the model?"""
    plain = load_base(base)
    model = peft.PeftModel.from_pretrained(load_base(base), folder).eval()
    tensors = safetensors.torch.load_file(pathlib.Path(folder) / "adapter_model.safetensors")
    loaded = peft.get_peft_model_state_dict(model)
    assert tensors.keys() == loaded.keys(), tensors.keys() ^ loaded.keys()
    assert all(torch.equal(tensors[key], loaded[key].float()) for key in tensors)
    ids = torch.arange(9)[None]
    with torch.no_grad():
        difference = (model(ids).logits - plain(ids).logits).abs().max().item()
    print(f"{folder}: {len(tensors)} tensors, logits differ from the base's by up to {difference:.4g}")


def main():
    if sys.argv[1:2] == ["--check"]:
        return check(*sys.argv[2:4])
    manifest = {"python": platform.python_version(), "torch": torch.__version__, "transformers": transformers.__version__,
                "peft": importlib.metadata.version("peft"), "command": "python scripts/golden/adapters.py", "cases": {}}
    for name, case in CASES.items():
        manifest["cases"][name] = make(name, **case)
    (GOLDEN / "peft_manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


if __name__ == "__main__":
    main()
