#!/usr/bin/env python3
"""A recipe's key has two homes: a member of the struct that its part uses, with the default, and a row beside it.

Rows are those of the files *keys.cpp. `config`, which reads and prints keys, spells none and includes no other folder.
An assignment of a member to another struct's member of the same name would be a third home.

usage: keys_test.py
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/reference/recipe-keys.md"
ROW = re.compile(r'\badd(?:_auto)?\(\s*(?:\w+,\s*)?"([\w.]+)",\s*&(?:\w+::)+(\w+)')
COPY = re.compile(r"\b\w+(?:\.|->)(\w+) = (?:static_cast<[^>]*>\()?\w+(?:(?:\.|->)\w+)*(?:\.|->)\1(?:\)|\.get\(\))?;")
MOST_CONFIG_LINES = 2900
# Members that a run copies from one struct to another of the same name, and why.
COPIES = {
    "temperature": "a request's number in fp32",
    "top_p": "a request's number in fp32",
    "top_k": "a request's number in 32 bits",
    "ignore": "quant.rollout.ignore, the only word of the formats that the snapshot has as it is",
    "max_response_length": "the divisor of a loss, which data owns",
    "method": "the word's function",
    "bitwise": "rollout's, for the learner",
    "seed": "trainer's, for programs",
    "weights": "the teacher's format in place of the sampler's; reward's, for an environment",
    "correct_at": "reward's, for an environment",
    "lora": "a whole struct",
    "optim": "a whole struct",
    "algorithm": "a whole struct",
    "own": "a whole struct",
    "activations": "the reference's formats, in the same struct",
    "granularity": "the reference's formats, in the same struct",
    "kv_cache": "the reference's formats, in the same struct",
    "uaq_scale": "what a checkpoint records",
}


def keys():
    page = PAGE.read_text(encoding="utf-8")
    return re.findall(r"^\| `([\w.]+)`", page[:page.index("\n## Losses")], re.M)


def without_comments(text):
    return re.sub(r"//[^\n]*", "", text)


def sources(top, *suffixes):
    return [path for path in sorted((ROOT / top).rglob("*")) if path.suffix in suffixes]


def row_faults(names, rows, params):
    """Faults of keys without a row, and of rows that no key needs; `rows` lists (file, name), `params` the options' keys."""
    used, faults = {}, []
    for key in names:
        parts = key.split(".")
        fits = [row for row in rows if parts[-row[1].count(".") - 1:] == row[1].split(".")]
        if fits:
            most = max(row[1].count(".") for row in fits)
            for row in fits:
                used.setdefault(row, set()).add(key)
            if len({row for row in fits if row[1].count(".") == most}) == 0:
                faults.append(f"{key}: expected a row")
        elif key not in params and parts[-1] not in params:
            faults.append(f"{key}: expected one row in a file *keys.cpp, got none")
    for name in {row[1] for row in rows}:
        count = sum(row[1] == name for row in rows)
        fitting = {key for row, of in used.items() if row[1] == name for key in of}
        if count > len(fitting):
            faults.append(f"{name}: expected at most a row for each of {len(fitting)} keys, got {count}")
    return faults


def copy_faults(members, text, where):
    for found in COPY.finditer(without_comments(text)):
        if found.group(1) in members and found.group(1) not in COPIES:
            line = text[:found.start()].count("\n") + 1
            yield f"{where}:{line}: expected the part's own struct in the recipe, got a copy: {found.group(0)}"


def check_itself():
    rows = [("a", "lr"), ("a", "start"), ("b", "lr"), ("b", "lr")]
    got = row_faults(["optim.lr", "sft.lr", "noise.start", "noise.end", "sapo.tau"], rows, {"sapo.tau"})
    if [fault.split(":")[0] for fault in got] != ["noise.end", "lr"]:
        sys.exit(f"keys_test: expected faults of noise.end and lr, got {got}")
    text = "options.page = recipe.rollout.page;\noptions.lora = recipe.lora;\na.pages = b.page;"
    got = list(copy_faults({"page", "lora"}, text, "x"))
    if len(got) != 1 or "x:1:" not in got[0]:
        sys.exit(f"keys_test: expected the copy of page, got {got}")


def main():
    check_itself()
    names, faults = keys(), []
    config_lines = 0
    dotted = {name for name in names if "." in name}
    for path in sources("src/config", ".h", ".cpp"):
        text = path.read_text(encoding="utf-8")
        where = path.relative_to(ROOT)
        config_lines += text.count("\n")
        for word in sorted(set(re.findall(r"\b[a-z]\w*(?:\.\w+)+", text)) & dotted):
            faults.append(f"{where}: expected no key's name in config, got {word}")
        for folder in re.findall(r'#include "(\w+)/', text):
            if folder not in ("config", "base"):
                faults.append(f"{where}: expected includes of config and base alone, got {folder}")
    if config_lines > MOST_CONFIG_LINES:
        faults.append(f"src/config: expected at most {MOST_CONFIG_LINES} lines, got {config_lines}")
    rows, members, params = [], set(), set()
    for path in sources("src", ".cpp"):
        text = path.read_text(encoding="utf-8")
        if path.name.endswith("keys.cpp"):
            for name, member in ROW.findall(text):
                rows.append((str(path.relative_to(ROOT)), name))
                members.add(member)
    for path in sources("src", ".cpp", ".h"):
        params.update(re.findall(r'(?:Number|Flag|Integer|Word)Param\b[^";]{0,80}"([\w.]+)"', path.read_text(encoding="utf-8")))
    params.add("mode")
    faults += row_faults(names, rows, params)
    for path in sources("src/train", ".cpp", ".h"):
        if not path.name.endswith("keys.cpp"):
            faults += copy_faults(members, path.read_text(encoding="utf-8"), path.relative_to(ROOT))
    print("\n".join(faults + [f"{len(names)} keys, {len(rows)} rows, {config_lines} lines of config, {len(faults)} faults"]))
    return 1 if faults or len(rows) < 150 else 0


if __name__ == "__main__":
    sys.exit(main())
