"""Owns recipes that are dicts: their values as --set takes them, and the file that a run folder keeps of them."""
from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any


def yaml(value: object, name: str = "") -> str:
    """Returns a value as --set takes it. Texts and paths are quoted, so "null" and "a: b" stay texts.

    NumPy's scalars are numbers. NaN and infinities raise ValueError, functions and other objects TypeError, with the key's name."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yaml(one, f"{name}.{key}" if name else str(key))
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False, default=_plain)
    except TypeError as error:
        raise TypeError(f"{name}: {error}" if name else str(error)) from None
    except ValueError:
        raise ValueError(f"{name or 'a recipe'}: expected a finite number, got {value!r:.60}") from None


def _plain(value: Any) -> object:
    if hasattr(value, "item"):
        return value.item()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    advice = "; pass reward functions as reward=" if callable(value) else ""
    raise TypeError(f"a recipe's value: expected a text, number, list, dict or path, got {type(value).__name__} {value!s:.60}{advice}")


def sections(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Returns {section: its keys} of a dict that has sections, dotted keys or both. Refuses names that are no texts, and one key twice."""
    tree: dict[str, Any] = {}

    def add(into: dict[str, Any], name: str, value: Any, whole: str) -> None:
        if not isinstance(name, str) or not name:
            raise TypeError(f"recipe: expected names that are texts, got {name!r} in {whole or 'the recipe'}")
        first, _, rest = name.partition(".")
        if rest:
            inner = into.setdefault(first, {})
            if not isinstance(inner, dict):
                raise ValueError(f"recipe: expected {whole}{first} to be a section, got {inner!r} as well")
            add(inner, rest, value, f"{whole}{first}.")
        elif isinstance(value, Mapping):
            inner = into.setdefault(first, {})
            for key, one in value.items():
                add(inner, key, one, f"{whole}{first}.") if _is_section(whole + first) else inner.__setitem__(key, one)
        elif first in into:
            raise ValueError(f"recipe: expected {whole}{first} once, got it twice")
        else:
            into[first] = value

    for name, value in recipe.items():
        add(tree, name, value, "")
    return tree


def _is_section(name: str) -> bool:
    """Returns whether a name holds keys; the others that hold maps are values: names of scores and data sources have dots."""
    return name not in ("reward.weights", "reward.by_source")


def set_keys(printed: str) -> str:
    """Returns the lines of --print-config that are no defaults, with the sections above them."""
    kept: list[str] = []
    open_sections: list[str] = []
    for line in printed.splitlines():
        found = re.match(r"( *)[^ :]+:( .*)?$", line)
        if not found:
            continue
        depth = len(found.group(1)) // 2
        del open_sections[depth:]
        if found.group(2) is None:
            open_sections.append(line)
            continue
        value, _, origin = line.rpartition(" # ")
        if origin == "default" or origin.startswith("mode "):
            continue
        for i, section in enumerate(open_sections):
            if section:
                kept.append(section)
                open_sections[i] = ""
        kept.append(value.rstrip())
    return "\n".join(kept) + "\n"
