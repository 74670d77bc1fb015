"""Owns what port reads out of a script of another trainer: names with their values, before any is translated."""
from __future__ import annotations

import dataclasses
import re
from typing import Any


class Varying(str):
    """Is the text of a value that only running the script would give."""
    is_conditional = False


def conditional(text: str) -> Varying:
    """Returns the text of an option that is passed under a condition."""
    value = Varying(f"{text} (under a condition)")
    value.is_conditional = True
    return value


class BadInput(Exception):
    """Has the parts of one of the program's errors: where, expected, got, advice."""


@dataclasses.dataclass
class Read:
    """Is one name of a script with its value. `kind` says what holds the name: option, LoraConfig, load_dataset and the like."""
    name: str
    value: Any
    line: int
    kind: str = "option"
    note: str = ""


@dataclasses.dataclass
class Script:
    """Is what a file gave."""
    trainer: str  # trl, verl or openrlhf
    reads: list[Read] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    processes: int | None = None
    rewards: list[str] = dataclasses.field(default_factory=list)  # functions of TRL by name
    tools: list[str] = dataclasses.field(default_factory=list)
    factory: list[str] = dataclasses.field(default_factory=list)  # the class of environment_factory
    code: str = ""  # of the Python script that has them
    config: str = ""  # the file that the command's --config names


def typed(word: str) -> Any:
    """Returns the value that Hydra and argument parsers make of a word: a flag, a number, None, a list or the text."""
    if isinstance(word, Varying):
        return word
    text = word.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if text.lower() in ("null", "none"):
        return None
    if re.fullmatch(r"[+-]?\d{1,400}", text):  # int() refuses thousands of digits
        return int(text)
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text):
        return float(text)
    if text.startswith("[") and text.endswith("]"):
        return [typed(part) for part in split_list(text[1:-1])]
    return text


def split_list(text: str) -> list[str]:
    """Returns the parts between the commas that no quotes and no brackets enclose."""
    parts, depth, quote, part = [], 0, "", ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        depth += (char in "[{(") - (char in "]})") if not quote else 0
        if char == "," and not quote and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += char
    return [part for part in (*parts, part) if part.strip()]


def interpolated(text: str, values: dict[str, Any]) -> Any:
    """Reads OmegaConf's ${name}, ${oc.select:name,default} and ${oc.env:NAME,default}. Returns Varying where a name has no constant here."""
    whole = text
    for _ in range(20):
        found = re.search(r"\$\{([^${}]*)\}", text)
        if not found:
            return typed(text) if text != whole else text
        resolver, colon, inner = found.group(1).partition(":")
        name, comma, default = inner.partition(",") if colon else (resolver, "", "")
        is_known = name in values and resolver != "oc.env"
        value = values[name] if is_known else default
        if isinstance(value, (Varying, list, dict)) or not (is_known or comma) or (colon and resolver not in ("oc.select", "oc.env")):
            return Varying(whole)
        if found.group() == text and not isinstance(value, str):
            return value
        text = text[:found.start()] + (value if isinstance(value, str) else "null" if value is None else str(value)) + text[found.end():]
    return Varying(whole)


def interpolate(reads: list[Read]) -> None:
    """Reads what the values take from one another."""
    values = {read.name: read.value for read in reads}
    for read in reads:
        if isinstance(read.value, str) and "${" in read.value and not isinstance(read.value, Varying):
            read.value = interpolated(read.value, values)


def flattened(name: str, value: Any) -> list[tuple[str, Any]]:
    """Returns the names in a dict, joined by dots; of other values the name itself."""
    if not isinstance(value, dict) or not value:
        return [(name, value)]
    return [pair for key, inner in value.items() for pair in flattened(f"{name}.{key}" if name else str(key), inner)]
