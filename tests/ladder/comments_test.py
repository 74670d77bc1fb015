#!/usr/bin/env python3
"""Comments of the C++ code have short sentences, begin with a verb or a noun, and use the words of the field.

usage: comments_test.py [ROOT]     ROOT: the checkout to read, this one if it is left out

Words in `backquotes` and rows of tables are not read. A sentence ends at . ! ? or ; before a space.
"""
import pathlib
import re
import sys

FOLDERS = ("apps", "cuda", "parquet", "src", "tests")
SUFFIXES = {".cpp", ".h", ".cu", ".cuh", ".inc"}
MOST_WORDS = 28
MOST_OPENERS = 0.01  # of all sentences
MOST_DIALECT = 0.0005  # of all words
OPENERS = re.compile(r"(Of|By(?! default)|As(?! long as| soon as| in)|That|Than|Up to|From|Whose|Whoever|Whether or|Beside|Behind"
                     r"|With which|What|Where|So many|In turn|Nor|Too|At most as)\b")
DIALECT = {  # a pattern, and what to write instead
    r"\bwhoever\b|\bnobody\b|\bsomebody\b": "the part: the caller, the kernel, no code path",
    r"\bso many\b|\bas many\b(?! as)": "the number or its name",
    r"\bas (\w+) as (has|it|there|they)\b": "the quantity",
    r"\b(asks?|asked) for\b": "requests, prefetches or allocates",
    r"\b(is|are) told\b|\btold of\b": "receives, or is notified",
    r"\bmeets?\b": "reaches, or occurs",
    r"\bthe ones? (that|which|before|behind)\b": "the noun again",
    r", too[.;,:]|, too$": "also, before the verb",
    r"\b(is|are) there\b(?! a)|\bis not there\b": "exists, or is allocated",
    r"\bmends?\b|\bmended\b": "repairs",
    r"\bone (behind|after) the other\b|\bin turn\b": "sequentially",
    r"\bgoes on\b|\bgo on\b": "continues, or resumes",
    r"\b(for|of) nobody\b": "unused",
    r"\bbrings?\b": "uploads, copies or loads",
    r"\bstands? (in|for|at|beside|behind)\b": "is in, or represents",
}


def comments(path):
    """Pairs of a line number and a comment's text; blank lines, items of lists and rows of tables divide a comment."""
    first, text = 0, []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines() + [""], 1):
        whole = re.match(r"\s*//+[/!<]*\s?(.*)$", line)
        piece = whole[1].strip() if whole else ""
        if text and (not piece or re.match(r"([-*|]|\d+\.)\s", piece)):
            yield first, " ".join(text)
            text = []
        if piece:
            first = first if text else number
            text.append(piece)
        tail = None if whole else re.search(r"\S\s+//+[/!<]*\s?(.*)$", line)
        if tail and not re.search(r'"[^"]*//[^"]*"', line):
            yield number, tail[1]


def words_of(text):
    """Words of two letters and more: no operators, digits and letters of formulas."""
    return re.findall(r"[A-Za-z][A-Za-z'-]+", text)


def sentences(text):
    if text.count("|") >= 2 or re.match(r"NOLINT|clang-format|namespace|SPDX", text):
        return []
    parts = re.split(r"(?<=[.!?;])\s+(?=[A-Za-z0-9`(\u0370-\u03ff])", re.sub(r"`[^`]*`", "CODE", text))
    return [part.strip() for part in parts if len(words_of(part)) >= 3]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]).resolve()
    num_words = num_sentences = 0
    long, openers, dialect = [], [], []
    paths = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*")) if path.suffix in SUFFIXES]
    if len(paths) < 300:
        sys.exit(f"{root}: expected a checkout, got {len(paths)} files of C++")
    for path in paths:
        for number, text in comments(path):
            num_words += len(text.split())
            for sentence in sentences(text):
                num_sentences += 1
                where = f"{path.relative_to(root)}:{number}"
                if len(words_of(sentence)) > MOST_WORDS:
                    long.append(f"{where}: expected at most {MOST_WORDS} words, got {len(words_of(sentence))}: {sentence}")
                if found := OPENERS.match(sentence):
                    openers.append(f"{where}: expected a verb or a noun first, got {found[0]!r}: {sentence}")
                dialect += [f"{where}: expected {better}, got {found[0]!r}" for pattern, better in DIALECT.items()
                            if (found := re.search(pattern, sentence))]
    faults = long
    if len(openers) > MOST_OPENERS * num_sentences:
        faults += openers
    if len(dialect) > MOST_DIALECT * num_words:
        faults += dialect
    print("\n".join(faults + [f"{num_sentences} sentences: {len(long)} too long, {len(openers)} begin with a preposition "
                              f"or pronoun, {len(dialect)} have a word of the list"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
