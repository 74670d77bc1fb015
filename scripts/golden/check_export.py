"""Does transformers load a folder that qrl-train exported, and compute the same?

    python scripts/golden/check_export.py DIR [--logits FILE] [--text TEXT ...] [--program build/qrl-train]

FILE is a safetensors file with tokens_<name> (I64 or I32 [T]) and logits_<name> (F32 [T, V]) of our own forward; they
must agree with transformers' fp32 forward within 1e-4. Every weight in the folder must have been used. With a
tokenizer in DIR each TEXT (three built-in ones by default) must survive encoding and decoding by AutoTokenizer. With
--program, `qrl-train generate` in fp32 must draw transformers' 30 greedy tokens after each of four prompts; they are
compared as text, without a chat template.
Prints one line a check; exits 1 when one fails.
"""

import argparse
import json
import pathlib
import subprocess
import sys

import safetensors.torch
import torch
import transformers

TOLERANCE = 1e-4
GREEDY_TOKENS = 30
PROMPTS = ["The capital of France is", "Once upon a time, there was a", "def fibonacci(n):\n", "2 + 3 = 5, 4 + 7 ="]
TEXTS = ["Using the numbers [3, 7, 20], make 41.", "<answer>(20 + 21) * 1</answer>\n", "naïve café — 数独 \U0001f9e9"]


def check_weights(folder):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    faults = [f"{kind}: {sorted(map(str, info[kind]))}" for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")
              if info[kind]]
    return model.eval(), faults


def check_logits(model, file):
    tensors = safetensors.torch.load_file(file)
    names = sorted(key.removeprefix("tokens_") for key in tensors if key.startswith("tokens_"))
    faults = [] if names else [f"{file}: no tensor tokens_<name>"]
    worst = 0.0
    for name in names:
        with torch.no_grad():
            want = model(tensors[f"tokens_{name}"].long()[None]).logits[0]
        got = tensors[f"logits_{name}"]
        if got.shape != want.shape:
            faults.append(f"logits_{name}: shape {list(got.shape)}, transformers has {list(want.shape)}")
            continue
        difference = (got - want).abs().max().item()
        worst = max(worst, difference)
        if not difference <= TOLERANCE:
            faults.append(f"logits_{name}: off by {difference:.3g}, allowed {TOLERANCE:g}")
    return faults, f"{len(names)} sequences, largest difference {worst:.3g}"


def check_tokenizer(folder, texts):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    faults = []
    for text in texts:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        back = tokenizer.decode(ids, clean_up_tokenization_spaces=False)
        if back != text:
            faults.append(f"{text!r} came back as {back!r}")
    return faults, f"{len(texts)} texts, {len(tokenizer)} tokens"


def check_greedy(program, folder, model):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    words = [program, "generate", folder, "--json", "--temperature", "0", "--max-tokens", str(GREEDY_TOKENS)]
    settings = ["model.dtype=float32", "quant.rollout.weights=fp32", "quant.rollout.kv_cache=fp32", "data.chat_template=plain"]
    words += [word for setting in settings for word in ("--set", setting)]
    words += [word for prompt in PROMPTS for word in ("--prompt", prompt)]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    faults = []
    for prompt, line in zip(PROMPTS, lines, strict=True):
        ids = tokenizer(prompt, return_tensors="pt").input_ids
        with torch.no_grad():
            all_ids = model.generate(ids, max_new_tokens=GREEDY_TOKENS, do_sample=False)[0]
        want, got = tokenizer.decode(all_ids[ids.shape[1]:], skip_special_tokens=True), json.loads(line)["response"]
        if got != want:
            faults.append(f"after {prompt!r}: {got!r}, not {want!r}")
    return faults, f"{len(PROMPTS)} prompts, {GREEDY_TOKENS} tokens each"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--logits", type=pathlib.Path)
    parser.add_argument("--text", action="append")
    parser.add_argument("--program")
    arguments = parser.parse_args()

    model, faults = check_weights(arguments.dir)
    results = {"weights": (faults, f"{sum(p.numel() for p in model.parameters())} parameters, {type(model).__name__}")}
    if arguments.logits:
        results["logits"] = check_logits(model, arguments.logits)
    if (arguments.dir / "tokenizer.json").exists():
        results["tokenizer"] = check_tokenizer(arguments.dir, arguments.text or TEXTS)
    if arguments.program:
        results["greedy text"] = check_greedy(arguments.program, arguments.dir, model)
    for name, (faults, summary) in results.items():
        print(f"{name}: {'FAILED: ' + '; '.join(faults) if faults else 'ok'} ({summary})")
    sys.exit(any(faults for faults, _ in results.values()))


if __name__ == "__main__":
    main()
