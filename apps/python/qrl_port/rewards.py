"""Cuts a script's reward functions out, with what they use of the script: imports, constants, functions and classes."""
from __future__ import annotations

import ast
import builtins
import symtable

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)


def defined(statement: ast.stmt) -> list[str]:
    """Returns the names that a statement defines."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [statement.name]
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return [name.asname or name.name.partition(".")[0] for name in statement.names]
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target] if isinstance(statement, ast.AnnAssign) else []
    return [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]


def used(statement: ast.stmt) -> set[str]:
    """Returns the names that a statement takes from its module."""
    tables, found = [symtable.symtable(ast.unparse(statement), "script", "exec")], set()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        found |= {one.get_name() for one in table.get_symbols()
                  if one.is_referenced() and (one.is_global() or table.get_type() == "module")}
    return found - set(defined(statement))


def homes_of(tree: ast.Module) -> dict[str, list[ast.stmt]]:
    """Returns the statements that define each name, at the module's top or else in a function such as main()."""
    inner = [statement for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.If, ast.Try)) for statement in node.body]
    homes: dict[str, list[ast.stmt]] = {}
    for level in (tree.body, inner):
        before = set(homes)
        for statement in level:
            if isinstance(statement, DEFINITIONS):
                for name in defined(statement):
                    if name not in before:
                        homes.setdefault(name, []).append(statement)
    return homes


def cut_out(code: str, names: list[str]) -> tuple[str, list[str]]:
    """Returns the text of a module with these functions, and the names that they use and the script does not define."""
    homes = homes_of(ast.parse(code))
    wanted: set[ast.stmt] = set()
    waiting, seen, absent = list(names), set(names), []
    while waiting:
        name = waiting.pop()
        if name not in homes:
            absent.append(name)
            continue
        for statement in homes[name]:
            wanted.add(statement)
            others = {other for other in used(statement) if other in homes or not hasattr(builtins, other)} - seen
            seen |= others
            waiting += sorted(others)
    ordered = sorted(wanted, key=lambda statement: (not isinstance(statement, (ast.Import, ast.ImportFrom)), statement.lineno))
    lines, texts = code.splitlines(), []
    for statement in ordered:
        begin = min([statement.lineno, *[one.lineno for one in getattr(statement, "decorator_list", [])]])
        block = lines[begin - 1:statement.end_lineno]
        indent = statement.col_offset
        texts.append("\n".join(line[indent:] if line[:indent].isspace() else line for line in block))
    return "\n\n".join(texts) + "\n", sorted(absent)
