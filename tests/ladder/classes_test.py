#!/usr/bin/env python3
"""No class of the sources has more than 20 public members.

Functions and data count, each overload once. Constructors, destructors, assignment, nested types and friends do not, nor
do overrides, which are the interface's. A struct is data that lies open, and is not counted.

usage: classes_test.py
"""
import pathlib
import re
import sys

from functions_test import without_texts

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT = 20
CLASS = re.compile(r"(?<!enum )\bclass\s+(?:\[\[\w+\]\]\s*)?([\w:]+)(?:\s+final)?\s*(?::(?!:)[^;{}()]*)?\{")
NO_MEMBER = re.compile(r"(friend|using|typedef|static_assert|enum|struct|class|union|template\s*<[^>]*>\s*(struct|class))\b")


def body_of(text, begin):
    """The text between the brace before `begin` and its partner, without what inner braces hold."""
    depth, kept = 1, []
    for at in range(begin, len(text)):
        char = text[at]
        depth += (char == "{") - (char == "}")
        if depth == 0:
            break
        if depth == 1 and char != "}":
            kept.append(char)
        elif depth == 1:
            kept.append("{}")
    return "".join(kept)


def public_members(name, body):
    """Declarations of a class's public sections."""
    short, access = name.split("::")[-1], "private"
    # A statement ends at ';', a function's body at '}', and a section begins at ':'.
    for part in re.split(r";|(?<=\{\})(?=\s*\n)|(?<=public)\s*:|(?<=private)\s*:|(?<=protected)\s*:", body):
        part = part.strip().removesuffix("{}").strip()
        section = re.search(r"\b(public|private|protected)$", part)
        if section:
            access = section.group(1)
        elif part and access == "public" and not NO_MEMBER.match(part) and not re.search(r"\boverride\b", part):
            if not re.search(rf"(?<!\w)~?{short}\s*\(", part.split("(")[0] + "(") and "operator=" not in part:
                yield part


def classes(text):
    """(name, line, public members) of every class with a body."""
    for found in CLASS.finditer(text):
        members = list(public_members(found.group(1), body_of(text, found.end())))
        yield found.group(1), text.count("\n", 0, found.start()) + 1, members


def check_itself():
    text = """class A final : public B<int> {
      int hidden_;
     public:
      explicit A(int a) : hidden_(a) {}
      ~A();
      A& operator=(const A&) = delete;
      int one() const { if (x) { return 1; } return 2; }
      int two = 2;
      void three(int a, int b);
      void three(const std::function<void(int)>& f = {});
      void theirs() override;
      class Nested { public: int n; int m() const { return 0; } };
      enum class Kind { a, b };
      using Word = int;
     private:
      int four();
    };"""
    found = {name: len(members) for name, _, members in classes(text)}
    if found != {"A": 4, "Nested": 2}:
        sys.exit(f"classes_test: expected 4 public members of A and 2 of Nested, got {found}")


def main():
    check_itself()
    seen, faults = 0, []
    for top in ("src", "apps", "cuda"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix not in (".h", ".cpp", ".cu", ".cuh", ".inc"):
                continue
            for name, line, members in classes(without_texts(path.read_text(encoding="utf-8"))):
                seen += 1
                if len(members) > LIMIT:
                    where = f"{path.relative_to(ROOT).as_posix()}:{line}: class {name}"
                    faults.append(f"{where}: expected at most {LIMIT} public members, got {len(members)}")
    print("\n".join(faults + [f"{seen} classes, {len(faults)} with more than {LIMIT} public members"]))
    return 1 if faults or seen < 150 else 0


if __name__ == "__main__":
    sys.exit(main())
