"""Instructions that the streamed matmul's inner loop takes for each quantized weight, counted in its machine code.

A step of the loop is what a warp does with 128 inputs of its outputs: copies that run ahead, a barrier, dequantizing, matrix
instructions, scales. It is the innermost loop (backward branch) that holds matrix instructions, copies to shared memory and a
barrier. Loops within it count as often as a step takes them, which follows from the copies and the matrix instructions that a
step needs. Branches within it are counted as if nothing were skipped."""
import re

INPUTS, WARPS, OUTPUT_WARPS, VECTOR = 128, 8, 4, 16
ELEMENTS = {1: "bf16", 2: "int8", 3: "fp8_e4m3", 4: "int4"}
BITS = {"bf16": 16, "int8": 8, "fp8_e4m3": 8, "int4": 4}
# Operands of the streamed kernel (x, weights, scales of groups of inputs) and the formats that they serve.
FORMATS = {("bf16", "bf16", 0): ["bf16"], ("int8", "int8", 0): ["int8"],
           ("fp8_e4m3", "fp8_e4m3", 0): ["fp8_e4m3 tensor", "fp8_e4m3 channel_token"], ("fp8_e4m3", "fp8_e4m3", 1): ["fp8_e4m3 block128"],
           ("bf16", "int4", 1): ["int4"], ("int8", "int4", 1): ["int4 int8"], ("fp8_e4m3", "int4", 1): ["int4 fp8_e4m3"]}
FUNCTION = re.compile(r"Function : (\S+)")
KERNEL = re.compile(r"streamed_kernel\w*?OperandsILNS_5quant7ElementE(\d)ELS\w?_(\d)ELb(\d)EEELi(\d)E")
INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)([^;]*);")
BRANCH = re.compile(r"0x([0-9a-f]+)")
MATRIX = re.compile(r"[HI]MMA\b")


def functions(sass):
    """Name and [(address, opcode, operands)] of each function."""
    parts = FUNCTION.split(sass)
    for name, text in zip(parts[1::2], parts[2::2]):
        yield name, [(int(at, 16), opcode, rest) for at, opcode, rest in INSTRUCTION.findall(text)]


def loops(code):
    """(begin, end) of each loop, as indices of instructions, end included."""
    index = {at: i for i, (at, _, _) in enumerate(code)}
    for i, (at, opcode, rest) in enumerate(code):
        target = BRANCH.findall(rest) if opcode.split(".")[0] == "BRA" else []
        if target and int(target[-1], 16) < at and int(target[-1], 16) in index:
            yield index[int(target[-1], 16)], i


def count(code, begin, end, pattern):
    return sum(bool(pattern.match(opcode)) for _, opcode, _ in code[begin:end + 1])


def step_instructions(code, copies, matrix_instructions):
    """Of one step of the innermost whole loop; None where there is no such loop. `copies`: of x, a thread; `matrix_instructions`:
    of a warp."""
    copy, barrier = re.compile("LDGSTS"), re.compile(r"BAR\b")
    found = [(begin, end) for begin, end in loops(code) if all(count(code, begin, end, what) for what in (copy, barrier, MATRIX))]
    if not found:
        return None
    begin, end = min(found, key=lambda loop: loop[1] - loop[0])
    inner = [(b, e) for b, e in loops(code) if begin <= b and e < end or begin < b and e <= end]
    total = end - begin + 1
    for b, e in inner:
        if any((b, e) != other and other[0] <= b and e <= other[1] for other in inner):
            continue  # a loop within a loop has not been met
        wanted, there = ((matrix_instructions, count(code, b, e, MATRIX)) if count(code, b, e, MATRIX)
                         else (copies, count(code, b, e, copy)))
        if there:
            total += (e - b + 1) * (max(1, wanted / there) - 1)
    return total


def inner_loops(sass, tiles):
    """By format and rows of the tile: instructions of a step of a warp, weights that it handles, thread instructions a weight.
    `tiles`: (rows, outputs) of kStreamTiles."""
    figures = {}
    for name, code in functions(sass):
        kernel = KERNEL.search(name)
        if not kernel:
            continue
        x, w, scaled, tile = ELEMENTS[int(kernel[1])], ELEMENTS[int(kernel[2])], int(kernel[3]), int(kernel[4])
        rows, outputs = tiles[tile]
        warp_outputs = outputs // OUTPUT_WARPS
        copies = 2 * rows * (INPUTS * BITS[x] // 8 // VECTOR) / (WARPS * 32)
        depth = 32 if x == "int8" else 16
        steps = step_instructions(code, copies, INPUTS // depth * (warp_outputs // 16) * (rows // 8))
        if steps is None:
            raise ValueError(f"no inner loop in {name}")
        weights = warp_outputs * INPUTS
        for format_name in FORMATS[x, w, scaled]:
            figures.setdefault(format_name, {})[str(rows)] = {"instructions": steps, "weights": weights,
                                                              "per_weight": round(32 * steps / weights, 3)}
    if not figures:
        raise ValueError("no streamed kernel in the machine code: KERNEL does not fit its mangled name")
    return figures


def stream_tiles(text):
    """(rows, outputs) of gemm_plan.h's kStreamTiles."""
    table = re.search(r"kStreamTiles\[\] = \{(.*?)\};", text, re.S)
    return [(int(rows), int(outputs)) for rows, outputs in re.findall(r"\{(\d+), (\d+), \d+\}", table[1])]
