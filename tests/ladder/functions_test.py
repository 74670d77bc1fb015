#!/usr/bin/env python3
"""No function of the sources is longer than 70 lines, no kernel longer than 100, from its opening to its closing brace.

usage: functions_test.py
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
KERNELS = ("cuda/", "src/ops/kernels/")
SCOPE = re.compile(r'\b(namespace|class|struct|union|enum)\b(?![^{]*\)\s*(const)?\s*$)|extern "C"')
NAME = re.compile(r"([~\w:]+)\s*\(")


def without_texts(source):
    """The source with comments, strings and characters blank, lines kept."""
    pattern = r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])\'(?:\\.|[^\'\\\n])+\''
    return re.sub(pattern, lambda found: "\n" * found.group(0).count("\n"), source, flags=re.S)


def functions(source):
    """(name, first line, number of lines) of every function with a body; lambdas count to the function they are in."""
    text = re.sub(r"(?m)^\s*#.*(?:\\\n.*)*$", lambda found: "\n" * found.group(0).count("\n"), without_texts(source))
    stack, before = [], 0  # per open brace: None for a scope, else its first line and its name
    for found in re.finditer(r"[{};]", text):
        line = text.count("\n", 0, found.start()) + 1
        head = text[before:found.start()]
        before = found.end()
        if found.group(0) == "{":
            is_scope = all(one is None for one in stack) and SCOPE.search(head)
            name = NAME.search(head)
            stack.append(None if is_scope else (line, name.group(1) if name else ""))
        elif found.group(0) == "}" and stack:
            closed = stack.pop()
            if closed and closed[1] and all(one is None for one in stack):
                yield closed[1], closed[0], line - closed[0] + 1


def main():
    seen, faults = 0, []
    for top in ("src", "apps", "cuda"):
        for path in sorted((ROOT / top).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix not in (".h", ".cpp", ".cu", ".cuh", ".inc"):
                continue
            limit = 100 if name.startswith(KERNELS) else 70
            for function, line, length in functions(path.read_text(encoding="utf-8")):
                seen += 1
                if length > limit:
                    faults.append(f"{name}:{line}: {function}: expected at most {limit} lines, got {length}")
    print("\n".join(faults + [f"{seen} functions, {len(faults)} too long"]))
    return 1 if faults or seen < 2000 else 0


if __name__ == "__main__":
    sys.exit(main())
