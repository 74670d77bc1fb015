"""Makes tests/data/golden/quantized_export.json: tensors of low-bit models as compressed-tensors packs them, and its presets.

    python scripts/golden/quantized_export.py        needs torch and compressed-tensors

Weights are a formula (`weight`). numpy makes their scales by the formats of src/quant/format.h; quantizing and packing is the library's,
and what it dequantizes is compared with numpy's own. A tensor's row is its dtype, its shape and the FNV-1a of its bytes.
"""

import json
import pathlib

import compressed_tensors
import numpy as np
import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme, preset_name_to_scheme

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/data/golden/quantized_export.json"
F = np.float32
NAMES = {torch.int8: "I8", torch.float8_e4m3fn: "F8_E4M3", torch.int32: "I32", torch.int64: "I64", torch.float32: "F32",
         torch.bfloat16: "BF16"}

# [out, in] of one layer's modules: no width a multiple of 128; every width of one.
RAGGED = {"self_attn.q_proj": (192, 96), "self_attn.k_proj": (96, 96), "self_attn.v_proj": (96, 96), "self_attn.o_proj": (96, 192),
          "mlp.gate_proj": (136, 96), "mlp.up_proj": (136, 96), "mlp.down_proj": (96, 136)}
WIDE = {"self_attn.q_proj": (384, 256), "self_attn.k_proj": (192, 256), "self_attn.v_proj": (192, 256), "self_attn.o_proj": (256, 384),
        "mlp.gate_proj": (384, 256), "mlp.up_proj": (384, 256), "mlp.down_proj": (256, 384)}
TOKEN = dict(num_bits=8, symmetric=True, dynamic=True, strategy="token")
# name: largest value, kind of weights, scale's rows × inputs (0: all), activations, format, preset, modules
FORMATS = {
    "int8": (127, "int", (1, 0), dict(TOKEN, type="int"), "int-quantized", "W8A8", RAGGED),
    "fp8_tensor": (448, "float", (0, 0), dict(TOKEN, type="float"), "float-quantized", "FP8_DYNAMIC", RAGGED),
    "fp8_channel": (448, "float", (1, 0), dict(TOKEN, type="float"), "float-quantized", "FP8_DYNAMIC", RAGGED),
    "fp8_block128": (448, "float", (128, 128), dict(TOKEN, type="float", strategy="group", group_size=128), "float-quantized", "FP8_BLOCK", WIDE),
    "int4": (7, "int", (1, 128), None, "pack-quantized", "W4A16", RAGGED),
    "int4_int8": (7, "int", (1, 128), dict(TOKEN, type="int"), "pack-quantized", "W4A8", RAGGED),
    "int4_fp8": (7, "int", (1, 128), dict(TOKEN, type="float"), "pack-quantized", "W4AFP8", RAGGED),
}
# Rows × inputs under a scale as the folder has them: the largest equal parts within those of the format.
PARTS = {"fp8_block128": {384: 128, 192: 64, 256: 128}, "int4": {96: 96, 192: 64, 136: 8}}
PARTS["int4_int8"] = PARTS["int4_fp8"] = PARTS["int4"]


def weight(module, out, width):
    """fp32 in [−1/2, 1/2), exact: sixteen bits of a product."""
    rows, columns = np.arange(out, dtype=np.uint64)[:, None], np.arange(width, dtype=np.uint64)[None, :]
    mixed = (rows * 131 + columns * 71 + len(module)) * 2654435761 % 2**32
    return ((mixed >> 16).astype(F) / F(65536) - F(0.5)).astype(F)


def scales(x, largest, rows, inputs):
    """One for every weight: [out, in]."""
    rows, inputs = rows or x.shape[0], inputs or x.shape[1]
    all_scales = np.zeros_like(x)
    for r in range(0, x.shape[0], rows):
        for c in range(0, x.shape[1], inputs):
            scale = F(np.abs(x[r:r + rows, c:c + inputs]).max() / F(largest))
            all_scales[r:r + rows, c:c + inputs] = float(torch.tensor(float(scale)).bfloat16()) if largest == 7 else scale
    return all_scales


def fnv(tensor):
    value = 0xCBF29CE484222325
    for byte in tensor.contiguous().view(torch.uint8).numpy().tobytes():
        value = ((value ^ byte) * 0x100000001B3) % 2**64
    return f"{value:016x}"


def compressed(name, module, out, width):
    largest, kind, (rows, inputs), activations, word, _, _ = FORMATS[name]
    x = weight(module, out, width)
    every = scales(x, largest, rows, inputs)
    parts = PARTS.get(name, {})
    row_step, input_step = (parts[out] if rows == 128 else 1), (parts.get(width, width) if inputs else width)
    strategy = "block" if rows == 128 else "channel" if input_step == width else "group"
    arguments = dict(num_bits=4 if largest == 7 else 8, type=kind, symmetric=True, dynamic=False, strategy=strategy)
    if strategy == "group":
        arguments["group_size"] = input_step
    if strategy == "block":
        arguments["block_structure"] = [row_step, input_step]
    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**arguments),
                                input_activations=activations and QuantizationArgs(**activations))
    scale = torch.from_numpy(every[::row_step, ::input_step].copy())
    state = {"weight": torch.from_numpy(x), "weight_scale": scale.bfloat16() if largest == 7 else scale}
    compressor = BaseCompressor.get_value_from_registry(word)
    state = compressor.compress(state, scheme)
    fp32 = dict(state, weight_scale=state["weight_scale"].float())
    back = compressor.decompress(fp32, scheme)["weight"].numpy()
    ratio = torch.from_numpy(x / every)
    values = ratio.clamp(-448, 448).to(torch.float8_e4m3fn).float().numpy() if kind == "float" else np.clip(np.rint(x / every), -largest, largest)
    assert np.array_equal(back, (values * every).astype(F)), (name, module)
    return {f"{module}.{key}": [NAMES[value.dtype], list(value.shape), fnv(value)] for key, value in sorted(state.items())}


tensors, presets = {}, {}
for name, (*_, word, preset, modules) in FORMATS.items():
    tensors[name] = {key: row for module, shape in modules.items() for key, row in compressed(name, module, *shape).items()}
    scheme = preset_name_to_scheme(preset, ["Linear"]).model_dump(mode="json")
    presets[name] = {"format": word, "weights": scheme["weights"], "input_activations": scheme["input_activations"]}
rows = [f'"{name}/{key}": {json.dumps(row)}' for name, of in tensors.items() for key, row in of.items()]
OUT.write_text(f'{{"compressed-tensors": "{compressed_tensors.__version__}",\n"presets": {json.dumps(presets)},\n"tensors": {{\n'
               + ",\n".join(rows) + "}}\n")
print(f"wrote {OUT.name}: {len(rows)} tensors")
