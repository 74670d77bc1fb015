"""python3 -m qrl_port is started by `qrl-train port`: reads the program's tables on standard input, prints a recipe's parts as JSON."""
from __future__ import annotations

import json
import pathlib
import re
import sys
import warnings
from typing import Any

from qrl_port import BadInput, Read, Script, Varying, conditional, flattened, interpolate, typed
from qrl_port.rewards import cut_out
from qrl_port.script import Reader
from qrl_port.shell import Shell, Word
from qrl_port.translate import Translation

LAUNCHERS = ("num_processes", "nproc_per_node", "num_gpus", "nproc-per-node", "num-processes")


def trainer_of(words: list[Word]) -> tuple[str, int] | None:
    """Returns the trainer that a command starts, and where its arguments begin; None for other commands."""
    for i, word in enumerate(words):
        text = word.text
        if re.search(r"(^|[./])main_ppo(\.py)?$|^recipe\.[\w.]*main_\w+$|^verl\.(trainer|experimental)\.[\w.]*main\w*$", text):
            return "verl", i + 1
        if "openrlhf.cli.train_ppo" in text:
            return "openrlhf", i + 1
        if text == "trl" and i + 1 < len(words) and words[i + 1].text in ("grpo", "rloo"):
            return ("rloo" if words[i + 1].text == "rloo" else "trl"), i + 2
        if text in ("trl.scripts.grpo", "trl.scripts.rloo"):
            return ("rloo" if text.endswith("rloo") else "trl"), i + 1
        if text.endswith(".py") and any(other.text.startswith("--") for other in words[i + 1:]):
            return "trl", i + 1
    return None


def overrides(words: list[Word]) -> list[Read]:
    """Reads NAME=VALUE words of Hydra."""
    reads = []
    for word in words:
        found = re.match(r"[+~]{0,2}([\w.@/-]+)=", word.text)
        if found and not word.text.startswith("--"):
            text: Any = word.text[found.end():]
            value = conditional(text) if word.is_conditional else Varying(text) if isinstance(word.text, Varying) else typed(text)
            reads.append(Read(found.group(1), value, word.line))
    return reads


def options(words: list[Word]) -> list[Read]:
    """Reads --NAME VALUE … and --NAME=VALUE; a name without a value is a flag."""
    reads: list[Read] = []
    for word in words:
        found = re.match(r"--([A-Za-z][\w.-]*)(=)?", word.text)
        if found:
            value: Any = word.text[found.end():] if found.group(2) else None
            reads.append(Read(found.group(1).replace("-", "_"), [] if value is None else [Varying(value) if isinstance(word.text, Varying) else value],
                              word.line))
        elif reads:
            reads[-1].value.append(Varying(word.text) if word.is_conditional and not isinstance(word.text, Varying) else word.text)
    for read in reads:
        words_of = [one if isinstance(one, Varying) else one.rstrip(",") for one in read.value]
        if any(isinstance(one, Varying) for one in words_of):
            read.value = Varying(" ".join(words_of))
        else:
            read.value = True if not words_of else typed(words_of[0]) if len(words_of) == 1 else [typed(one) for one in words_of]
        if isinstance(read.value, str) and not isinstance(read.value, Varying) and read.value.startswith("{"):
            try:
                read.value = json.loads(read.value)
            except ValueError:
                pass
    return [Read(name, value, read.line) for read in reads for name, value in flattened(read.name, read.value)]


def of_shell(text: str, file: str) -> Script:
    shell = Shell(text)
    found = [(words, *match) for words in shell.commands if (match := trainer_of(words))]
    if not found:
        raise BadInput(file, "a command that starts TRL, veRL or OpenRLHF",
                       f"{len(shell.commands)} other command{'' if len(shell.commands) == 1 else 's'}",
                       "port reads main_ppo of veRL, trl grpo, Python scripts with --options, and openrlhf.cli.train_ppo_ray")
    found.sort(key=lambda one: one[1] == "trl" and one[0][one[2] - 1].text.endswith(".py"))  # a script that prepares comes last
    words, trainer, begin = found[0]
    script = Script(trainer)
    script.reads = overrides(words[begin:]) if trainer == "verl" else options(words[begin:])
    if trainer == "verl":
        interpolate(script.reads)
    for read in script.reads:
        if read.name == "config" and trainer != "verl" and isinstance(read.value, str) and not isinstance(read.value, Varying):
            read.kind, script.config = "config", read.value
    for read in options(words[:begin - 1]):
        if read.name in [name.replace("-", "_") for name in LAUNCHERS] and isinstance(read.value, int):
            script.processes = read.value
    script.notes += [f"line {words[0].line} has another command of a trainer, which is not read" for words, *_ in found[1:]]
    used = {name for name in shell.also if re.search(rf"\${{?{name}\b", text)}
    script.notes += [f"{name}: {shell.also[name]}" for name in sorted(used)]
    called = words[begin - 1].text
    if trainer == "trl" and called.endswith(".py") and not isinstance(words[begin - 1].text, Varying):
        add_python(script, called, file)
    return script


def found_near(name: str, file: str) -> pathlib.Path | None:
    """Returns the file that a script names, seen from the script's folder, those above it, or here."""
    folder = pathlib.Path(file).resolve().parent
    return next((one / name for one in (folder, *folder.parents, pathlib.Path.cwd()) if (one / name).is_file()), None)


def add_config(script: Script, file: str, configs: dict[str, Any]) -> str:
    """Adds the names of the config that a command has; the command's own options win. Returns a file that is still to be parsed."""
    place = found_near(script.config, file)
    if place is None:
        script.notes.append(f"{script.config} was not found: its values are not read")
    elif str(place) not in configs:
        return str(place)
    else:
        names = {read.name for read in script.reads if read.kind == "option"}
        inner = [read for read in of_config(configs[str(place)], str(place)).reads if read.name not in names]
        own = [read for read in script.reads if read.kind in ("option", "config") or read.name not in {one.name for one in inner}]
        script.reads = [*own, *inner]
    return ""


def add_python(script: Script, called: str, file: str) -> None:
    """Adds what the Python script of a command has, where it is found; the command's own options win."""
    place = found_near(called, file)
    if place is None:
        script.notes.append(f"{called} was not found: its own values and reward functions are not read")
        return
    try:
        inner = Reader(place.read_text(encoding="utf-8-sig"), str(place)).read()
    except BadInput as error:
        raise BadInput(*error.args) from None
    names = {read.name for read in script.reads}
    parsed = [read for read in inner.reads if isinstance(read.value, Varying) and re.match(r"\w*args\b", read.value)]
    script.reads += [read for read in inner.reads if read.name not in names and read not in parsed]
    script.rewards, script.tools, script.factory, script.code = inner.rewards, inner.tools, inner.factory, inner.code
    script.trainer = inner.trainer


def of_config(config: Any, file: str) -> Script:
    """Reads a JSON or YAML config: TRL's, flat, or veRL's, in sections."""
    if not isinstance(config, dict):
        raise BadInput(file, "a config: names with values", "no map", "name the config file of a trainer")
    reads = [Read(name, typed(value) if isinstance(value, str) else value, 0) for name, value in flattened("", config) if name]
    for read in reads:
        if isinstance(read.value, list):
            read.value = [typed(one) if isinstance(one, str) else one for one in read.value]
    interpolate(reads)
    return Script("verl" if any("." in read.name and read.name.split(".")[0] in ("actor_rollout_ref", "algorithm", "trainer") for read in reads) else "trl", reads)


def of_notebook(text: str, file: str) -> Script:
    cells = json.loads(text).get("cells", [])
    sources = ["".join(cell["source"]) for cell in cells if cell.get("cell_type") == "code"]
    lines, goes_on = [], False
    for line in "\n".join(sources).split("\n"):
        is_magic = goes_on or re.match(r"\s*[!%]", line) is not None  # of IPython, also over several lines
        lines.append((re.match(r"\s*", line).group() if not goes_on else "") + "pass" if is_magic else line)  # type: ignore[union-attr]
        if goes_on:
            lines[-1] = ""
        goes_on = is_magic and line.endswith("\\")
    return Reader("\n".join(lines), file).read()


def read_script(file: str, config: Any) -> Script:
    try:
        text = pathlib.Path(file).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(file, "a text in UTF-8", "other bytes", "port reads scripts and configs") from None
    except OSError as error:
        raise BadInput(file, "a file that can be read", str(error.strerror), "check its permissions") from None
    if config is not None:
        return of_config(config, file)
    try:
        if file.endswith(".ipynb"):
            return of_notebook(text, file)
        if file.endswith(".json"):
            return of_config(json.loads(text), file)
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise BadInput(file, "JSON", str(error), "port reads notebooks and configs of trainers") from None
    return Reader(text, file).read() if file.endswith(".py") else of_shell(text, file)


def port(tables: dict[str, Any]) -> dict[str, Any]:
    file = tables["file"]
    script = read_script(file, tables.get("config"))
    if not script.reads:
        raise BadInput(file, "names of a trainer's options", "none", "port reads the options that a script sets")
    if script.config and (unread := add_config(script, file, tables.get("configs") or {})):
        return {"config": unread}
    recipe = pathlib.Path(tables["out"] or pathlib.Path(file).name)
    translation = Translation(tables, script)
    kind, what = ("environment", "environment, tools and reward functions") if script.tools or script.factory else ("rewards", "reward functions")
    translation.functions_file = f"{re.sub(r'[^A-Za-z0-9_]', '_', recipe.stem)}_{kind}.py"
    defaults = {name: typed(value) if isinstance(value, str) else value for name, value in (tables["defaults"].get(script.trainer) or {}).items()}
    translation.translate(defaults)
    files = {}
    functions = [*script.factory, *script.tools, *script.rewards]
    if functions:
        text, absent = cut_out(script.code, functions)
        title = f'"""The {what} of {ascii(pathlib.Path(file).name)[1:-1]}, cut out by qrl-train port."""\n'
        files[str(recipe.parent / translation.functions_file)] = title + text
        if absent:
            script.notes.append(f"{translation.functions_file} lacks {', '.join(absent)}: the script defines them nowhere at its top")
    return {**translation.result(), "files": files}


def main() -> int:
    if sys.version_info < (3, 10):
        print(json.dumps({"error": ["python3", "Python 3.10 or newer", sys.version.split()[0], "put a newer python3 on the PATH"]}))
        return 0
    warnings.simplefilter("ignore")  # of the script's own syntax
    try:
        answer = port(json.load(sys.stdin))
    except BadInput as error:
        answer = {"error": [str(part) for part in error.args]}
    except (RecursionError, MemoryError):
        answer = {"error": ["the script", "a script of usual depth", "one that is nested too deeply", "port parts of it"]}
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
