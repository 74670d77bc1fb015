"""Reads a shell script's variables and command lines. Nothing is run: what a command would print is a Varying text."""
from __future__ import annotations

import ast
import dataclasses
import os
import re
import shlex

from qrl_port import Varying

NAME = r"[A-Za-z_]\w*"
OPENING, CLOSING = {"if", "for", "while", "until", "case", "select"}, {"fi", "done", "esac"}
BETWEEN = {"{", "}", "then", "else", "elif", "do", "!", "time", "export", "local", "readonly", "declare", "typeset", "env", "exec", "nohup"}
LONGEST = 65536  # characters of a variable
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}
ARITHMETIC = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Constant, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Div, ast.Mod, ast.USub,
              ast.UAdd)


@dataclasses.dataclass
class Word:
    text: str
    line: int
    is_conditional: bool = False


def arithmetic(text: str) -> str:
    """Returns the value of integers joined by + - * / % and brackets; other texts are Varying."""
    try:
        tree = ast.parse(text.strip().replace("/", "//"), mode="eval")
        if all(isinstance(node, ARITHMETIC) for node in ast.walk(tree)):
            return str(int(eval(compile(tree, "", "eval"), {"__builtins__": {}})))  # numbers and operators alone
    except (SyntaxError, ValueError, ZeroDivisionError, TypeError, RecursionError, MemoryError):
        pass
    return Varying(f"$(({text}))")


class Shell:
    """Walks a script once. `commands` has each command's words, with what variables and arrays held where it stands."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0  # of if, for, while and case
        self.cases = 0
        self.heredocs: list[str] = []
        self.variables: dict[str, str] = {}
        self.arrays: dict[str, list[Word]] = {}
        self.also: dict[str, str] = {}  # variables with another value under a condition, and where
        self.commands: list[list[Word]] = []
        while self.at < len(self.text):
            self.handle(self.command())

    def line(self) -> int:
        return self.text.count("\n", 0, self.at) + 1

    def peek(self, size: int = 1) -> str:
        return self.text[self.at:self.at + size]

    def command(self) -> list[Word]:
        """Reads words up to the end of a command."""
        words: list[Word] = []
        while self.at < len(self.text):
            char = self.peek()
            if char in " \t\r":
                self.at += 1
            elif self.peek(2) == "\\\n":
                self.at += 2
            elif char == "#":
                self.skip_line()
            elif char == "\n":
                self.at += 1
                self.skip_heredocs()
                return words
            elif char in ";&|":
                self.at += 1
                return words
            elif char == ")":  # ends a case's pattern, or a subshell
                self.at += 1
                if self.cases:
                    words = []
                else:
                    return words
            elif char == "(":
                self.at += 1
                if words and self.peek() == ")":  # NAME() of a function
                    self.at += 1
                    return []
            elif char in "<>":
                self.skip_redirection()
            else:
                words += self.words()
        return words

    def skip_line(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def skip_redirection(self) -> None:
        found = re.compile(r"<<-?\s*(['\"]?)(\w+)\1|<<<|[<>]+&?\s*").match(self.text, self.at)
        assert found
        self.at = found.end()
        if found.group(2):
            self.heredocs.append(found.group(2))
        elif self.at < len(self.text) and self.peek() not in "\n;&|":
            self.words()

    def skip_heredocs(self) -> None:
        for word in self.heredocs:
            found = re.compile(rf"(?m)^\s*{re.escape(word)}\s*$").search(self.text, self.at)
            self.at = found.end() if found else len(self.text)
        self.heredocs = []

    def words(self) -> list[Word]:
        """Reads one word with its quotes and variables; a variable or an array may make several of it, or none."""
        line, begin = self.line(), self.at
        found = re.compile(rf"({NAME})(\+?)=\(").match(self.text, self.at)
        if found:
            self.at = found.end()
            self.assign_array(found.group(1), found.group(2) == "+")
            return []
        array = re.compile(rf'"\$\{{({NAME})\[[@*]\]\}}"|\$\{{({NAME})\[[@*]\]\}}').match(self.text, self.at)
        if array:
            self.at = array.end()
            name = array.group(1) or array.group(2)
            return list(self.arrays.get(name, [Word(Varying(array.group()), line)] if name not in self.variables else []))
        parts, is_quoted = [], False
        while self.at < len(self.text) and self.peek() not in " \t\r\n;&|()<>":
            if self.peek(2) == "\\\n":
                self.at += 2
                continue
            is_quoted |= self.peek() in "'\"\\"
            parts.append(self.part())
        raw = self.text[begin:self.at]
        if raw in ('"$@"', "$@", '"$*"', "$*", '"${@}"', "${@}"):
            return []
        if any(isinstance(part, Varying) for part in parts):
            return [Word(Varying("".join(parts)), line)]
        text = "".join(parts)
        if raw.startswith("$") and not is_quoted:  # an unquoted variable makes a word of each of its words
            try:
                return [Word(part, line) for part in shlex.split(text)]
            except ValueError:
                return [Word(Varying(raw), line)]
        return [Word(text, line)]

    def part(self) -> str:
        """Reads a quoted text, a variable or a character."""
        char = self.peek()
        self.at += 1
        if char == "\\":
            self.at += 1
            return self.text[self.at - 1:self.at]
        if char == "'":
            return self.until("'")
        if char == '"':
            parts = []
            while self.at < len(self.text) and self.peek() != '"':
                if self.peek() == "\\" and self.text[self.at + 1:self.at + 2] in ('"', "\\", "$", "`", "\n"):
                    parts.append("" if self.text[self.at + 1] == "\n" else self.text[self.at + 1])
                    self.at += 2
                elif self.peek() in "$`":
                    parts.append(self.part())
                else:
                    parts.append(self.peek())
                    self.at += 1
            self.at += 1
            varies = any(isinstance(part, Varying) for part in parts)
            return Varying("".join(parts)) if varies else "".join(parts)
        if char == "`":
            return Varying(f"`{self.until('`')}`")
        if char == "$" and self.peek() in ("'", '"'):
            self.at += self.peek() == "'"
            return self.part() if self.peek() == '"' and self.text[self.at - 1] == "$" else self.escaped()
        return self.variable() if char == "$" else char

    def escaped(self) -> str:
        """Reads the rest of $'…'."""
        found = re.compile(r"((?:[^'\\]|\\.)*)'?", re.DOTALL).match(self.text, self.at)
        assert found
        self.at = found.end()
        return re.sub(r"\\(.)", lambda one: ESCAPES.get(one.group(1), one.group(1)), found.group(1), flags=re.DOTALL)

    def until(self, end: str) -> str:
        begin = self.at
        found = self.text.find(end, begin)
        self.at = len(self.text) if found < 0 else found + len(end)
        return self.text[begin:found if found >= 0 else len(self.text)]

    def enclosed(self, opening: str, closing: str) -> str:
        """Reads up to the bracket that closes, and returns what is inside."""
        begin, depth = self.at, 1
        while self.at < len(self.text) and depth > 0:
            depth += (self.peek() == opening) - (self.peek() == closing)
            self.at += 1
        return self.text[begin:self.at - 1]

    def variable(self) -> str:
        """Returns the value of the variable or the command behind a $."""
        if self.peek(2) == "((":
            self.at += 2
            inner = self.enclosed("(", ")")
            self.at += self.peek() == ")"
            return arithmetic(re.sub(rf"\$?\{{?({NAME})\}}?", lambda found: str(self.value_of(found.group(1))), inner))
        if self.peek() == "(":
            self.at += 1
            return Varying(f"$({self.enclosed('(', ')')})")
        if self.peek() == "{":
            self.at += 1
            return self.braces(self.enclosed("{", "}"))
        found = re.compile(NAME).match(self.text, self.at)
        if not found:
            char = self.peek()
            self.at += len(char)
            return Varying("$" + char) if char and char in "0123456789?#@*!$-" else "$" + char
        self.at = found.end()
        return self.value_of(found.group())

    def value_of(self, name: str) -> str:
        if name in self.variables:
            return self.variables[name]
        if name == "HOME":
            return os.path.expanduser("~")
        return Varying(f"${name}")

    def braces(self, inner: str) -> str:
        """Returns the value of ${…}: of a name, or of a name with another text for where it is not set."""
        found = re.fullmatch(rf"({NAME})(?:(:?[-=+])(.*))?", inner, re.DOTALL)
        if not found:
            return Varying(f"${{{inner}}}")
        name, operator, text = found.groups()
        value = self.value_of(name)
        is_set = name in self.variables and (self.variables[name] != "" or not (operator or "").startswith(":"))
        if operator is None or (is_set and "+" not in operator):
            return value
        if "+" in operator and not is_set:
            return ""
        return self.expanded(text)

    def expanded(self, text: str) -> str:
        """Returns a text with its quotes and variables read."""
        whole, at = self.text, self.at
        self.text, self.at = text, 0
        parts = []
        while self.at < len(self.text):
            parts.append(self.part())
        self.text, self.at = whole, at
        return Varying("".join(parts)) if any(isinstance(part, Varying) for part in parts) else "".join(parts)

    def assign_array(self, name: str, appends: bool) -> None:
        words: list[Word] = []
        while self.at < len(self.text) and self.peek() != ")":
            if self.peek() in " \t\r\n":
                self.at += 1
            elif self.peek(2) == "\\\n":
                self.at += 2
            elif self.peek() == "#":
                self.skip_line()
            elif self.peek() in ";&|(<>":
                self.at += 1
            else:
                words += self.words()
        self.at += 1
        if self.depth == 0:
            self.arrays[name] = [*self.arrays.get(name, []), *words] if appends else words
        elif appends:
            for word in words:
                word.is_conditional = True
            self.arrays[name] = [*self.arrays.get(name, []), *words]
        else:
            self.arrays.setdefault(name, words)

    def assign(self, name: str, value: str, line: int) -> None:
        """Sets a variable. Under a condition a literal from above stays, and of one that is absent the value is not known."""
        if len(value) > LONGEST:
            value = Varying(value[:60] + "…")
        if self.depth == 0:
            self.variables[name] = value
            self.also.pop(name, None)
            return
        before = self.variables.get(name, "")
        if before == "":
            self.variables[name] = Varying(f"{value} (line {line}, under a condition)" if not isinstance(value, Varying) else value)
        elif before != value and not isinstance(before, Varying):
            self.also[name] = f"line {line} has {value}, under a condition"

    def handle(self, words: list[Word]) -> None:
        while words:
            word = words[0].text
            if word in OPENING:
                self.depth += 1
                self.cases += word == "case"
                if word != "case":
                    words = words[1:]
                    continue
                return
            if word in CLOSING:
                self.depth -= self.depth > 0
                self.cases -= word == "esac" and self.cases > 0
            elif word not in BETWEEN:
                break
            words = words[1:]
        while words:
            found = re.match(rf"({NAME})\+?=", words[0].text)
            if not found:
                break
            text = words[0].text[found.end():]
            self.assign(found.group(1), Varying(text) if isinstance(words[0].text, Varying) else text, words[0].line)
            words = words[1:]
        if words:
            self.commands.append(words)
