"""A folder of qrl-train export --quantized in other programs' hands. args: vllm|transformers FOLDER MASTERS FORMAT ANSWERS MAX_TOKENS

Prints one line '@{…}'. weights: how many values of the folder, as compressed-tensors dequantizes them, differ from what FORMAT (int8, int4 or
fp8) is by definition of the fp32 weights in MASTERS. ANSWERS is a JSON list of [prompt, answer, eos or length] of qrl-train. equal: how many
the engine answers in the same way greedily. places: for each answer which of its tokens are the engine's likeliest, behind those before. vllm computes in
bf16; transformers in fp32, with the weights that compressed-tensors dequantizes and activations that it rounds. Run with the vllm environment."""
import json, os, pathlib, re, sys
os.environ.update({k: os.environ.get(k, v) for k, v in dict(VLLM_CPU_KVCACHE_SPACE="1", VLLM_CPU_OMP_THREADS_BIND="0-1", VLLM_ENABLE_V1_MULTIPROCESSING="0",
                                                              VLLM_NO_USAGE_STATS="1", VLLM_LOGGING_LEVEL="WARNING", HF_HUB_OFFLINE="1").items()})
import numpy as np
import torch
from safetensors.torch import load_file
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "golden"))
from formats import rounded  # the formats by numpy
WHOLE = 10 ** 6
BLOCKS = {"int8": ("int8", 1, WHOLE), "fp8": ("fp8", 1, WHOLE), "int4": ("int4", 1, 128)}


def load_folder(folder):
    return {name: tensor for file in sorted(pathlib.Path(folder).glob("*.safetensors")) for name, tensor in load_file(file).items()}


def scheme_of(quantization, module):
    from compressed_tensors.quantization import QuantizationScheme
    for group in quantization["config_groups"].values():
        if any(target == "Linear" or re.match(target.removeprefix("re:"), module) for target in group["targets"]):
            return QuantizationScheme.model_validate(group)
    raise SystemExit(f"{module}: no group of quantization_config has it")


def compare_weights(folder, masters, format):
    from compressed_tensors.compressors import BaseCompressor
    quantization = json.loads(pathlib.Path(folder, "config.json").read_text())["quantization_config"]
    compressor = BaseCompressor.get_value_from_registry(quantization["format"])
    held, originals = load_folder(folder), load_folder(masters)
    found = {"matrices": 0, "others": 0, "values": 0, "different": 0}
    for name, original in originals.items():
        module = name.removesuffix(".weight")
        if f"{module}.weight_scale" in held:
            state = {key.removeprefix(module + "."): value for key, value in held.items() if key.startswith(module + ".")}
            state["weight_scale"] = state["weight_scale"].float()  # else the product is rounded to the scale's bf16
            got = compressor.decompress(state, scheme_of(quantization, module))["weight"].numpy()
            want = rounded(original.float().numpy(), *BLOCKS[format])
            found["matrices"] += 1
        else:
            got, want = held[name].float().numpy(), original.to(held[name].dtype).float().numpy()  # the sampler's embedding is in bf16
            found["others"] += 1
        found["values"] += want.size
        found["different"] += int(np.sum(got != want)) if got.shape == want.shape else want.size
    return found


def by_vllm(folder, prompts, given, max_tokens):
    import vllm
    llm = vllm.LLM(folder, dtype="bfloat16", max_model_len=256, max_num_seqs=64, enable_prefix_caching=False, seed=0, enforce_eager=True,
                   disable_log_stats=True)

    def run(ids, **parameters):
        sampling = vllm.SamplingParams(temperature=0.0, detokenize=False, **parameters)
        return llm.generate([{"prompt_token_ids": one} for one in ids], sampling, use_tqdm=False)
    answers = [list(one.outputs[0].token_ids) for one in run(prompts, max_tokens=max_tokens)]
    forced = run([prompt + answer for prompt, answer in zip(prompts, given)], max_tokens=1, prompt_logprobs=1)
    likeliest = [[min(place.items(), key=lambda entry: entry[1].rank)[0] for place in one.prompt_logprobs[len(prompt):]]
                 for one, prompt in zip(forced, prompts)]
    return f"vLLM {vllm.__version__} in bfloat16", answers, likeliest


def by_transformers(folder, prompts, given, _):
    import transformers
    from transformers import AutoModelForCausalLM, CompressedTensorsConfig
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, quantization_config=CompressedTensorsConfig(run_compressed=False)).eval()
    with torch.no_grad():
        likeliest = [model(torch.tensor([prompt + answer])).logits[0, len(prompt) - 1:-1].argmax(-1).tolist() for prompt, answer in zip(prompts, given)]
    # Where each token of an answer is the likeliest, the greedy answer is that one.
    return f"transformers {transformers.__version__} in float32", likeliest, likeliest


if __name__ == "__main__":
    engine, folder, masters, format, given, max_tokens = sys.argv[1:]
    say = os.fdopen(os.dup(1), "w"); os.dup2(2, 1)
    from transformers import AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained(folder)
    end = json.loads(pathlib.Path(folder, "config.json").read_text())["eos_token_id"]
    encode = lambda text: tokenizer(text, add_special_tokens=False)["input_ids"]
    rows = json.loads(pathlib.Path(given).read_text())
    prompts, given = [encode(row[0]) for row in rows], [encode(row[1]) + [end] * (row[2] == "eos") for row in rows]
    name, answers, likeliest = {"vllm": by_vllm, "transformers": by_transformers}[engine](folder, prompts, given, int(max_tokens))
    places = [[a == b for a, b in zip(one, other, strict=True)] for one, other in zip(given, likeliest, strict=True)]
    say.write("@" + json.dumps({"engine": name, "weights": compare_weights(folder, masters, format), "equal": sum(map(list.__eq__, given, answers)),
                                "places": places}) + "\n"); say.flush()
    os._exit(0)
