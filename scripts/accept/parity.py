#!/usr/bin/env python3
"""Compares what `qrl-train dump` wrote with transformers, layer by layer.

usage: scripts/accept/parity.py DUMP MODEL [--tolerance X | --log-probs X]

  DUMP         the file of qrl-train dump RECIPE --prompt TEXT --out DUMP
  MODEL        the model's Hugging Face folder (of a checkpoint: qrl-train export)
  --tolerance  the largest |difference| of a tensor's values, as a share of their largest |value|; 1e-4 suits fp32 weights
  --log-probs  compares the log-probs of the prompt's own tokens instead, for bf16 or quantized weights: the mean |difference| is at most X,
               and the likeliest next token is the same wherever transformers has it 0.5 ahead of the second; 0.02 suits bf16

For developers: needs torch and transformers from pip, and their fp32 forward pass in memory.
exit: 0 all within the tolerance, 1 not, 2 wrong arguments or file, 4 torch or transformers is not installed
"""
import argparse
import array
import json
import math
import pathlib
import struct
import sys

CODES = {"F32": "f", "I32": "i"}
LEAD = 0.5  # nats from which a top token counts


def read_dump(path):
    """{name: (shape, values)} of a safetensors file of fp32 and int32 tensors."""
    data = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + size])
    if header.pop("__metadata__", {}).get("format") != "qrl-train dump":
        print(f"parity: {path}: expected a file of qrl-train dump, got another", file=sys.stderr)
        sys.exit(2)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        tensors[name] = (entry["shape"], array.array(CODES[entry["dtype"]], data[begin:end]))
    return tensors


def flat(nested):
    return [value for one in nested for value in flat(one)] if isinstance(nested, list) else [nested]


def reference(folder, tokens):
    """Yields (name, values) in the order of the forward pass, as transformers computes them in fp32."""
    try:
        import torch
        import transformers
    except ImportError as missing:
        print(f"SKIPPED: parity: expected torch and transformers (pip install torch transformers), got {missing}", file=sys.stderr)
        sys.exit(4)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32, attn_implementation="eager",
                                                              experts_implementation="eager")  # grouped_mm needs multiples of 4 floats
    seen = {}

    def keep(name):
        def hook(module, inputs, output):
            seen[name] = flat((output[0] if isinstance(output, tuple) else output).tolist())
        return hook

    model.model.embed_tokens.register_forward_hook(keep("embedding"))
    for idx, layer in enumerate(model.model.layers):
        layer.register_forward_hook(keep(f"layers.{idx}"))
    with torch.no_grad():
        seen["logits"] = flat(model(torch.tensor([list(tokens)])).logits.tolist())
    return seen


def log_softmax(logits):
    """Log-probs of one place, summed in fp64."""
    largest = max(logits)
    total = largest + math.log(sum(math.exp(one - largest) for one in logits))
    return [one - total for one in logits]


def compare_log_probs(ours, theirs, tokens, bound):
    """Prints the mean |difference| of log p(tokens[t + 1] | tokens[..t]) and the places with another top token; the exit code."""
    size = len(theirs) // len(tokens)
    differences, compared, others = [], 0, 0
    for place in range(len(tokens)):
        row = slice(place * size, (place + 1) * size)
        mine, wanted = log_softmax(ours[row]), log_softmax(theirs[row])
        if place + 1 < len(tokens):
            differences.append(abs(mine[tokens[place + 1]] - wanted[tokens[place + 1]]))
        second, first = sorted(wanted)[-2:]
        if first - second > LEAD:
            compared += 1
            others += mine.index(max(mine)) != wanted.index(first)
    mean = sum(differences) / len(differences)
    print(f"parity: log-probs of {len(differences)} tokens: mean |difference| {mean:.3g} (at most {bound:g}), largest {max(differences):.3g}; "
          f"another top token at {others} of {compared} places where the lead is above {LEAD:g}")
    return 0 if mean <= bound and not others else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dump")
    parser.add_argument("model")
    bounds = parser.add_mutually_exclusive_group()
    bounds.add_argument("--tolerance", type=float, default=1e-4)
    bounds.add_argument("--log-probs", type=float)
    arguments = parser.parse_args()
    ours = read_dump(arguments.dump)
    tokens = ours.pop("tokens")[1]
    theirs = reference(arguments.model, tokens)
    names = ["embedding", *sorted((name for name in ours if name.startswith("layers.")), key=lambda name: int(name[7:])), "logits"]
    if set(names) != set(theirs):
        print(f"parity: {arguments.model}: expected the dump's tensors {names}, got {sorted(theirs)}", file=sys.stderr)
        return 2
    if arguments.log_probs is not None:
        return compare_log_probs(ours["logits"][1], theirs["logits"], tokens, arguments.log_probs)
    first = None
    print(f"{'tensor':12} {'largest |value|':>16} {'largest |difference|':>21} {'share':>9}")
    for name in names:
        values, wanted = ours[name][1], theirs[name]
        if len(values) != len(wanted):
            print(f"parity: {name}: expected {len(wanted)} values as transformers has, got {len(values)}", file=sys.stderr)
            return 2
        largest = max(map(abs, wanted))
        differences = [abs(a - b) for a, b in zip(values, wanted)]
        difference = math.nan if any(map(math.isnan, differences)) else max(differences)
        share = difference / largest if largest else difference
        print(f"{name:12} {largest:16.6g} {difference:21.3g} {share:9.2g}")
        if not share <= arguments.tolerance and first is None:  # a NaN is never within
            first = name
    print(f"parity: {'all within' if first is None else first + ' is the first beyond'} {arguments.tolerance:g}")
    return 0 if first is None else 1


if __name__ == "__main__":
    sys.exit(main())
