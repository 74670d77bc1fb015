#!/usr/bin/env python3
"""Goldens of turns: the ids of whole conversations with observations, by transformers with the program's templates.

    python scripts/golden/bridges.py [--out FILE]

Needs transformers and jinja2. FILE (default tests/data/golden/bridges.jsonl) has a row for each conversation. A row has the names of
the template and of the small tokenizer, and the tools. Its messages end with an observation, and its ids with the next answer's header.
"""

import argparse
import json
import random
import re
from pathlib import Path

import transformers
from conversations import GOLDEN, tokenizer_of

FOLDER = Path(__file__).resolve().parents[2] / "src" / "data" / "templates"
# template: small tokenizer, whether it has a form for tools
TEMPLATES = {"chatml": ("qwen2", True), "qwen2.5": ("qwen2", True), "qwen3": ("qwen2", True), "llama3": ("llama3", False),
             "llama3.1": ("llama3", False)}
PER_TEMPLATE = 12
ANSWERS = ["4", "I add.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 2}}\n</tool_call>", "cafe\u0301 한국어",
           "{\"name\": \"add\", \"parameters\": {\"b\": 1}}", "The end."]
OBSERVATIONS = ["4", "no\nresult", "{\"a\": 1}", "  spaces around \n", "too high", "\n\nlines\n\n"]
TOOLS = [{"type": "function", "function": {"name": "add", "description": "adds", "parameters":
          {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}}}]


def conversation(rng, role):
    messages = [{"role": "system", "content": "Be short."}] if rng.random() < 0.5 else []
    messages.append({"role": "user", "content": rng.choice(["What is 2 + 2?", "Guess."])})
    for _ in range(rng.randint(1, 3)):
        messages.append({"role": "assistant", "content": rng.choice(ANSWERS)})
        for _ in range(rng.randint(1, 2) if role == "tool" else 1):
            messages.append({"role": role, "content": rng.choice(OBSERVATIONS)})
    return messages


def main(out):
    rng = random.Random(0)
    rows = []
    for template, (name, has_tools) in TEMPLATES.items():
        tokenizer = tokenizer_of(name)
        text = (FOLDER / f"{template}.jinja").read_text()
        text = re.sub(r"{%- include '([^']*)' %}", lambda match: (FOLDER / match[1]).read_text(), text)
        for i in range(PER_TEMPLATE):
            role = "tool" if has_tools and i % 2 == 0 else "user"
            messages = conversation(rng, role)
            tools = TOOLS if role == "tool" else None
            ids = tokenizer.apply_chat_template(messages, tools=tools, chat_template=text, tokenize=True, add_generation_prompt=True)
            ids = ids["input_ids"] if isinstance(ids, dict) else ids
            rows.append({"template": template, "tokenizer": name, "messages": messages, "tools": tools, "ids": list(ids)})
    out.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    print(f"{len(rows)} conversations, transformers {transformers.__version__}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=GOLDEN / "bridges.jsonl")
    main(parser.parse_args().out)
