"""Translates what a script has into keys of a recipe, by the program's tables. The recipe's reader has the last word on each line."""
from __future__ import annotations

import dataclasses
import json
import os
import re
from typing import Any

from qrl_port import Read, Script, Varying
from qrl_port.rules import RULES, FINAL

# Sections in which a name means what it means alone. In others, as qat or profiler, group_size or steps are something else.
SECTIONS = {"data", "algorithm", "actor", "rollout", "model", "optim", "trainer", "policy_loss", "rollout_correction", "filter_groups", "val_kwargs"}
PATHS = {"model.path", "lora.path", "data.train_files", "data.val_files", "trainer.default_local_dir"}
LONGEST_COMMENT = 100  # characters behind a value; longer ones stand above it
TITLES = {"trl": "TRL", "rloo": "TRL", "verl": "veRL", "openrlhf": "OpenRLHF"}


@dataclasses.dataclass
class Setting:
    value: Any
    names: list[str] = dataclasses.field(default_factory=list)  # of the script
    notes: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Row:
    """Is a row of the program's table: our key or keys as a text, a note, a rule's word."""
    key: str
    note: str
    rule: str

    def keys(self) -> list[str]:
        return re.findall(r"[a-z_0-9]+(?:\.[a-z_0-9]+)+", self.key.partition(": ")[0])


class Translation:
    def __init__(self, tables: dict[str, Any], script: Script) -> None:
        self.keys: dict[str, dict[str, str]] = tables["keys"]
        self.names = [(name, Row(*cells)) for name, *cells in tables["names"]]
        self.values: dict[str, dict[str, list[Any]]] = tables["values"]
        self.script = script
        self.settings: dict[str, Setting] = {}
        self.without: list[tuple[Read, str]] = []
        self.varying: list[tuple[Read, str]] = []
        self.silent: list[tuple[Read, str]] = []  # translated, with nothing to set
        self.arithmetic: list[str] = []
        self.given: dict[str, Any] = {}  # last parts of names with constant values, for arithmetic
        self.later: list[tuple[Read, Row]] = []
        self.read_names: list[Read] = []
        self.functions_file = ""
        self.batch_reads: list[Read] = []
        self.update_reads: list[tuple[Read, str]] = []
        self.reward_reads: list[Read] = []
        self.environment_reads: list[Read] = []

    def row_of(self, name: str, kind: str) -> Row | None:
        """Finds a name as the program's advice about unknown keys does: whole names and sections first, then our own keys."""
        plain = name.lstrip("-").lower().replace("-", "_")
        for prefix in (["lora."] if kind == "LoraConfig" else []):
            if found := self.whole(prefix + plain):
                return found
        if found := self.whole(plain) if "." in plain else None:
            return found
        for tail in (plain.split(".", i)[-1] for i in range(plain.count(".") + 1)):
            if "." in tail and tail in self.keys:
                return Row(tail, "", "")
        last, section = plain.rpartition(".")[2], plain.rpartition(".")[0].rpartition(".")[2]
        is_plain = not section or section in SECTIONS
        for one, row in self.names:
            if one == plain or (one == last and is_plain):
                return row
        same = [key for key in self.keys if "." in key and key.rpartition(".")[2] == last]
        if len(same) == 1 and is_plain and not same[0].startswith(("sft.", "quant.", "model.init.")):
            return Row(same[0], "", "")
        near = [key for key in same if key.split(".")[-2:-1] == [section]]
        if len(near) == 1:
            return Row(near[0], "", "")
        for one, row in self.names:
            if one.endswith(".*") and one[:-1] in plain + ".":
                return row
        return None

    def whole(self, plain: str) -> Row | None:
        for one, row in self.names:
            if one == plain or ("." in one and plain.endswith("." + one)) or (one.endswith(".*") and plain.startswith(one[:-1])) or (
                    "." in plain and one.endswith("." + plain)):  # of a file that has a section alone
                return row
        return None

    # Rules call these.

    def put(self, key: str, value: Any, read: Read, note: str = "") -> None:
        """Sets a key. A name of the script wins over a default; of two names that set a key the later one wins."""
        value = home(value) if key in PATHS else value
        before = self.settings.get(key)
        names = [] if read.kind == "default" else [read.name]
        title = TITLES[read.note] if read.kind == "default" else ""
        notes = ([f"{title}'s default of {read.name}"] if title else []) + ([note] if note else [])
        if before is not None and before.names and not names:
            return
        if before is not None and before.names and before.value != value and read.name not in before.names:
            notes.append(f"{', '.join(before.names)} had {shown(before.value)}")
        self.settings[key] = Setting(value, [*(before.names if before else []), *names], notes)

    def setting(self, value: Any, note: str) -> Setting:
        return Setting(value, [], [note])

    def omit(self, read: Read, reason: str) -> None:
        if read.kind != "default":
            self.without.append((read, reason))

    def skip(self, read: Read, reason: str) -> None:
        """Notes that a name is translated by setting nothing."""
        if read.kind != "default":
            self.silent.append((read, reason))

    def number(self, name: str, otherwise: Any) -> Any:
        value = self.given.get(name, otherwise)
        return value if isinstance(value, (int, float)) and not isinstance(value, bool) else otherwise

    def tokens(self, key: str) -> int:
        """Returns a length: of the recipe, or of the program where the recipe has none."""
        setting = self.settings.get(key)
        return int(setting.value if setting is not None and isinstance(setting.value, (int, float)) else self.keys[key]["default"])

    def longest(self) -> int:
        return self.tokens("data.max_prompt_length") + self.tokens("data.max_response_length")

    def copy(self, row: Row, read: Read) -> None:
        """Sets the row's keys to the value, or to what the tables have for it."""
        cell, keys = row.key.partition(": "), row.keys()
        if cell[1]:
            if read.value in (False, None):
                self.skip(read, "nothing to set")
            else:
                self.put(keys[0], typed_setting(cell[2]), read, row.note)
            return
        if read.value is None or read.value == "":
            self.skip(read, "nothing to set")
            return
        for key in keys:
            self.set_value(key, read)

    def set_value(self, key: str, read: Read) -> None:
        last = read.name.rpartition(".")[2]
        for table in (self.values.get(last, {}), self.values.get(key, {})):
            found = table.get(str(read.value)) or table.get(str(read.value).lower())
            if found is None:
                continue
            settings, note = found
            if settings is None:
                self.omit(read, f"{read.value}: {note}")
            elif settings == "":
                self.skip(read, note)
            else:
                for part in settings.split(" and "):
                    one, colon, value = part.partition(": ")
                    self.put(one if colon else key, typed_setting(value if colon else one), read, note)
                    note = ""
            return
        self.put(key, self.fitted(key, read.value), read)

    def fitted(self, key: str, value: Any) -> Any:
        """Returns a value in the key's type where that loses nothing: an integer that was written 1e3, a list of one."""
        kind = self.keys[key]["type"]
        if "integer" in kind and isinstance(value, float) and value.is_integer():
            return int(value)
        if kind.startswith("list of") and not isinstance(value, list):
            return [value]
        if kind.startswith("true") and isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        return value

    # The translation itself.

    def translate(self, defaults: dict[str, Any]) -> None:
        by_name: dict[str, Read] = {}
        for read in self.script.reads:  # of two the later one wins, unless it has only a condition
            if read.name not in by_name or not getattr(read.value, "is_conditional", False):
                by_name[read.name] = read
        reads = list(by_name.values())
        self.read_names = list(reads)
        for read in reads:
            if not isinstance(read.value, Varying):
                self.given[read.name.rpartition(".")[2]] = read.value
        known = {read.name for read in reads} | {read.name.rpartition(".")[2] for read in reads if self.script.trainer != "verl"}
        for name, value in defaults.items():
            if name not in known:
                self.given.setdefault(name.rpartition(".")[2], value)
                reads.append(Read(name, value, 0, "default", self.script.trainer))
        for read in sorted(reads, key=lambda read: read.kind == "default"):
            self.read_one(read)
        for read, row in self.later:
            try:
                RULES[row.rule](self, read, row)
            except (TypeError, ValueError, ArithmeticError):  # a value of another kind than the rule's
                self.omit(read, f"see {row.key}: no value of this kind is translated")
        FINAL(self)

    def read_one(self, read: Read) -> None:
        row = Row("data.train_files" if read.name != "eval_dataset" else "data.val_files", "", "files") if read.kind == "load_dataset" else (
            self.row_of(read.name, read.kind))
        if read.kind == "config":
            self.skip(read, "names of the file stand for themselves")
        elif row is None:
            self.omit(read, "qrl-train does not know this name")
        elif not row.key:
            self.omit(read, row.note)
        elif isinstance(read.value, Varying):
            self.varying.append((read, f"here {row.key}" + (f" ({row.note})" if row.note else "")))
        elif row.rule == "hint":
            self.omit(read, f"see {row.key}" + (f" ({row.note})" if row.note else ""))
        elif row.rule:
            self.later.append((read, row))
        else:
            self.copy(row, read)

    def result(self) -> dict[str, Any]:
        """Returns the recipe's lines, each with the number of the script's names in it, and what port prints above them."""
        named = {name for setting in self.settings.values() for name in setting.names}
        left = {read.name for read, _ in (*self.without, *self.varying)}
        silent = {read.name for read, _ in self.silent}
        for read in self.read_names:
            if read.name not in left | named | silent:
                self.omit(read, "no value of this kind is translated")
        left = {read.name for read, _ in (*self.without, *self.varying)}
        translated = [read for read in self.read_names if read.name not in left]
        lines = self.recipe_lines(left)
        for title, entries in (("Translated by setting nothing", self.silent), ("Without a counterpart", self.without),
                               ("Not constant in the script", self.varying)):
            if entries:
                lines += [["", 0, False], [f"# {title}:", 0, False]]
                lines += [[f"#   {read.name} = {shown(read.value)}" + (f": {one_line(reason)}" if reason else ""), 0, False] for read, reason in entries]
        head = [*self.arithmetic, *self.script.notes]
        return {"lines": lines, "head": [one_line(text) for text in head], "translated": len(translated),
                "without": len({read.name for read, _ in self.without}), "varying": len({read.name for read, _ in self.varying} - {
                    read.name for read, _ in self.without})}

    def recipe_lines(self, left: set[str]) -> list[list[Any]]:
        lines: list[list[Any]] = []
        open_sections: list[str] = []
        counted: set[str] = set()
        for key in self.keys:
            if key not in self.settings:
                continue
            setting = self.settings[key]
            *sections, last = key.split(".")
            shared = next((i for i, (one, other) in enumerate(zip(sections, open_sections)) if one != other), min(len(sections), len(open_sections)))
            for depth in range(shared, len(sections)):
                lines.append(["  " * depth + sections[depth] + ":", 0, False])
            open_sections = sections
            names = [name for name in dict.fromkeys(setting.names) if name not in left and name not in counted]
            counted |= set(names)
            comment = one_line("; ".join([", ".join(dict.fromkeys(setting.names)), *setting.notes]).strip("; "))
            indent, text = "  " * len(sections), f"{last}: {yaml(setting.value)}"
            if len(comment) > LONGEST_COMMENT:
                lines.append([f"{indent}# {comment}", 0, False])
                comment = ""
            lines.append([indent + text + (f"  # {comment}" if comment else ""), len(names), not setting.names])
        return lines


def home(value: Any) -> Any:
    """Returns paths with a ~ at their begin read, as the other trainers read them."""
    if isinstance(value, list):
        return [home(one) for one in value]
    return os.path.expanduser(value) if isinstance(value, str) and value.startswith("~/") else value


def typed_setting(text: str) -> Any:
    return {"true": True, "false": False}.get(text) if text in ("true", "false") else number(text)


def number(text: str) -> Any:
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text) if re.fullmatch(r"-?\d+\.\d+", text) else text


def yaml(value: Any) -> str:
    """Returns a value on one line as the recipe's reader takes it. Words need no quotes, other texts have them."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, float):
        return re.sub(r"e([+-])0*(\d)", r"e\1\2", repr(value)).replace("e+", "e")
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(yaml(one) for one in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{yaml(name)}: {yaml(one)}" for name, one in value.items()) + "}"
    if isinstance(value, str):
        is_word = re.fullmatch(r"[A-Za-z][\w./+-]*", value) and value.lower() not in ("yes", "no", "on", "off", "true", "false", "null", "y", "n")
        return value if is_word else json.dumps(value, ensure_ascii=False)
    return str(value)


def shown(value: Any) -> str:
    text = str(value) if isinstance(value, (Varying, str)) else yaml(value) if isinstance(value, (list, dict, float, bool)) else str(value)
    return one_line(text if len(text) <= 80 else text[:79] + "…")


def one_line(text: str) -> str:
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in " ".join(text.split()))

