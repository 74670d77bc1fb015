"""Resolved recipes, as `qrl-train --print-config` and a run's config.yaml have them: one value a key, with its origin.

A library of scripts/science/compare_modes, not a command.
"""
import hashlib
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINE = re.compile(r"( *)([^\s:#][^\s:]*):(?: (.*?))?(?: +# (.*))?$")
PLACES = ("model.path", "trainer.default_local_dir")  # where files are, which is no part of what a run does

# What a key that a later qrl-train has did before there was the key, where that is not the key's default.
BEFORE = {"quant.rollout.rotation": "none"}


def read(text):
    """{key: (value, whether it is the default)} of the text of a resolved recipe, without PLACES. Raises ValueError."""
    found, sections = {}, []
    for number, line in enumerate(text.splitlines(), 1):
        match = LINE.match(line)
        if not match or len(match[1]) % 2 or len(match[1]) // 2 > len(sections):
            raise ValueError(f"line {number}: expected a key of a resolved recipe, got {line!r}")
        sections[len(match[1]) // 2:] = [match[2]]
        key = ".".join(sections)
        if match[3] is not None and key not in PLACES:
            found[key] = (match[3].strip().replace(f"{ROOT}/", ""), match[4] == "default")
    return found


def digest(values):
    """Names a recipe {key: value}."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def differences(stored, today):
    """Texts of what keeps a run of the recipe `stored` {key: value} from being one of `today` (as read returns it). These are keys
    of both with other values, and new keys with another value than the earlier behavior. Settings of a generator
    without a task do nothing: older programs kept them, newer ones drop them."""
    def acts(key):
        task = key.rpartition(".")[0] + ".task"
        return key == task or stored.get(task) != "null" or today.get(task, ("null",))[0] != "null"

    found = [f"{key} was {stored[key]} and is {value}" for key, (value, _) in today.items()
             if stored.get(key, value) != value and acts(key)]
    for key, (value, is_default) in today.items():
        if key in stored:
            continue
        if key in BEFORE and value != BEFORE[key]:
            found.append(f"{key} is new and {value}, which was {BEFORE[key]} before")
        elif key not in BEFORE and not is_default:
            found.append(f"{key} is new and {value}, not its default")
    return found
