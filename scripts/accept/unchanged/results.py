"""What a case leaves for the comparison: a folder of files, each an interface of the program.

*.jsonl   rows without what a clock decides, compared key by key
*.sha256  hashes of binary files, a line each: HASH NAME
others    bytes, compared line by line
"""
import hashlib
import json
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "common"))
import metrics  # noqa: E402

# Of a run folder, unknown to older programs.
NEWER = ("sessions.jsonl", "tensorboard", "validation")


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def keep_rows(out, name, source):
    """A JSON-lines file of the program without timings."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in metrics.stable_rows(source))
    (out / name).write_text(text, encoding="utf-8")


def keep_hashes(out, name, files):
    """Hashes of files, {name: path}."""
    lines = [f"{sha256_of(path)} {shown}\n" for shown, path in sorted(files.items())]
    (out / name).write_text("".join(lines), encoding="utf-8")


def entries_of(path):
    """Lines `name dtype shape` of a safetensors file's header."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    return [f"{name} {entry['dtype']} {entry['shape']}" for name, entry in sorted(header.items()) if name != "__metadata__"]


def keep_checkpoint(out, checkpoint):
    """Names of files, entries of the safetensors files with their bits, and state.json except for the byte counts of metric
    files, which hold timings. The manifest's hashes follow from these; recipe.yaml is what --print-config shows."""
    tensors = sorted(checkpoint.glob("*.safetensors"))
    lines = [path.relative_to(checkpoint).as_posix() for path in sorted(checkpoint.rglob("*")) if path.is_file()]
    for path in tensors:
        lines += [f"{path.name}: {entry}" for entry in entries_of(path)]
    (out / "checkpoint.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    state = metrics.without(json.loads((checkpoint / "state.json").read_text()), ("metrics_bytes", "sft_metrics_bytes"))
    for key in [key for key, value in state.items() if isinstance(value, dict)]:  # inputs, an unfinished row
        state |= {f"{key}.{inner}": value for inner, value in metrics.without(state.pop(key), metrics.TIMINGS).items()}
    (out / "state.jsonl").write_text(json.dumps(state) + "\n", encoding="utf-8")
    keep_hashes(out, "checkpoint.sha256", {path.name: path for path in tensors})


def keep_run(out, run):
    """Metric rows, rollouts, the last checkpoint and the names of what a run folder holds."""
    for name in ("metrics.jsonl", "sft_metrics.jsonl"):
        if (run / name).exists():
            keep_rows(out, name, run / name)
    for path in sorted((run / "rollouts").glob("*.jsonl")):
        keep_rows(out, f"rollouts_{path.name}", path)
    names = sorted(path.name for path in run.iterdir() if path.name not in NEWER)
    (out / "run.txt").write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    keep_checkpoint(out, last_checkpoint(run))


def last_checkpoint(run):
    """The newest checkpoint: step_N, or sft_N where no step was made."""
    def age(path):
        kind, _, number = path.name.partition("_")
        return kind == "step", int(number)

    found = [path for path in (run / "checkpoints").iterdir() if path.name.partition("_")[2].isdigit()]
    return max(found, key=age)


def difference(a, b, ignored=()):
    """Where two folders of results differ first, None where they are equal; `ignored` are globs of keys of rows."""
    names = [sorted(path.name for path in folder.iterdir()) for folder in (a, b)]
    if names[0] != names[1]:
        lost, new = [name for name in names[0] if name not in names[1]], [name for name in names[1] if name not in names[0]]
        return "; ".join(f"{what}: {', '.join(which)}" for what, which in (("no longer there", lost), ("new", new)) if which)
    # Metric rows first: they say most of what happened.
    for name in sorted(names[0], key=lambda name: (name != "metrics.jsonl", name.endswith(".sha256"), name)):
        if name.endswith(".jsonl"):
            rows = [[metrics.without(row, ignored) for row in metrics.read_rows(folder / name)] for folder in (a, b)]
            found = metrics.first_difference(*rows)
            found = found and metrics.describe(found)
        else:
            found = first_line(*((folder / name).read_bytes() for folder in (a, b)))
        if found:
            return f"{name}: {found}"
    return None


def first_line(a, b):
    """The first line that differs in two texts, None where their bytes are equal."""
    if a == b:
        return None
    lines = [text.splitlines() for text in (a, b)]
    for number in range(max(map(len, lines)) + 1):
        pair = [metrics.shown(text[number].decode(errors="replace")) if number < len(text) else "end of file" for text in lines]
        if number >= min(map(len, lines)) or lines[0][number] != lines[1][number]:
            return f"line {number + 1}: {pair[0]} -> {pair[1]}"
    return "line ends"


def empty_folder(path):
    path = pathlib.Path(path)
    path.mkdir(parents=True)
    return path
