"""Owns reward functions of a notebook: their source becomes a file of the run folder, which qrl_reward runs in a process of its own."""
from __future__ import annotations

import ast
import builtins
import hashlib
import inspect
import pathlib
import symtable
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, Union

Function = Callable[..., Any]
HEAD = '"""Written by qrl_train.start: reward functions of this run."""\nfrom __future__ import annotations\n\n'
KEYS = ("reward.verifier", "reward.command")


def _refuse(what: str, got: str, advice: str) -> None:
    raise ValueError(f"reward: expected {what}, got {got}; {advice}")


def _source(function: Function) -> str:
    """Returns a function's source, without indentation. Refuses what has no source of its own."""
    by_file = "define it with def, or name a file in reward.command"
    if not inspect.isfunction(function):
        _refuse("a function", f"{type(function).__name__} {getattr(function, '__qualname__', function)!s:.60}", by_file)
    if function.__name__ == "<lambda>":
        _refuse("a function with a name", "a lambda", by_file)
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        _refuse("a function with a source", f"{function.__name__}, whose source Python does not know", by_file)
    return ""


def _names_from_outside(function: Function, source: str) -> list[str]:
    """Returns the names that a function's text takes from around it, other than those of Python itself. Annotations do not count."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
        if isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
    found: set[str] = set()
    tables = [symtable.symtable(ast.unparse(tree), "reward", "exec")]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        found |= {one.get_name() for one in table.get_symbols() if one.is_global() or (table.get_type() == "module" and one.is_referenced())}
    own = {function.__name__}
    return sorted(name for name in found - own if not hasattr(builtins, name) or name in function.__globals__)


def _form(function: Function) -> str:
    """Returns whose functions have these parameters: verl, trl or nemo."""
    names = list(inspect.signature(function).parameters)
    if "solution_str" in names or {"data_source", "ground_truth"} <= set(names):
        return "verl"
    if "completions" in names:
        return "trl"
    if {"ground_truth", "response"} <= set(names):
        return "nemo"
    _refuse("parameters of TRL (completions, …, **kwargs), veRL (data_source, solution_str, ground_truth, extra_info) or NeMo (ground_truth, response)",
            f"{function.__name__}({', '.join(names)})", "docs/howto/own-reward.md has them")
    return ""


def settings_of(reward: Union[Function, Sequence[Function]]) -> tuple[dict[str, object], str, str]:
    """Returns the keys that make functions the reward, with FILE in place of their file, its name and its text."""
    functions = list(reward) if isinstance(reward, (list, tuple)) else [reward]
    if not functions:
        _refuse("a function", "an empty list", "leave reward out for the recipe's own")
    sources = []
    for function in functions:
        source = _source(function)
        outside = _names_from_outside(function, source)
        if outside:
            _refuse("a function that has all it uses inside itself", f"{function.__name__}, which uses {', '.join(outside)} from outside",
                    "import and define them inside the function, or put all of it in a file and name that in reward.command")
        sources.append(source)
    names = [function.__name__ for function in functions]
    forms = {_form(function) for function in functions}
    if len(set(names)) != len(names) or len(forms) > 1 or (forms == {"verl"} and len(names) > 1):
        _refuse("one function, or several of TRL's or of NeMo's form with different names", ", ".join(names), "veRL's function returns a dict of several scores")
    text = HEAD + "\n\n" + "\n\n".join(sources)
    file = f"reward_{names[0]}_{hashlib.sha256(text.encode()).hexdigest()[:12]}.py"
    return ({"reward.verifier": "command", "reward.command": [sys.executable, "-m", "qrl_reward", f"{forms.pop()}:FILE:{','.join(names)}"]},
            file, text)


def placed(settings: dict[str, object], file: pathlib.Path) -> dict[str, object]:
    """Returns the keys with the file's path."""
    command = settings["reward.command"]
    assert isinstance(command, list)
    return {**settings, "reward.command": [str(word).replace(":FILE:", f":{file}:") for word in command]}
