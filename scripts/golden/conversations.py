#!/usr/bin/env python3
"""Goldens of conversations. Tokens and the assistant's mask are transformers' with TRL's training templates; texts of prompts of several turns
are those of the published templates.

    ~/.cache/qrl-peers/hf/bin/python scripts/golden/conversations.py [--out FILE]

FILE (default tests/data/golden/conversations.jsonl) has a row for each conversation and family. The tokenizer is the small
one of tests/data/golden/tokenizer_bpe with the control tokens of every style, as tests/data/conversation_test.cpp builds it.
"""

import argparse
import json
import random
from pathlib import Path

import transformers
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "data" / "golden"
CONTROL = ["<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<think>",
           "</think>", "<tool_call>", "</tool_call>"]
# family: small tokenizer, whether its template has a form for tools
FAMILIES = {"qwen2_5": ("qwen2", True), "qwen3": ("qwen2", True), "qwen3_instruct_2507": ("qwen2", True),
            "qwen2_5_vl": ("qwen2", False), "llama3": ("llama3", False)}
PER_FAMILY = 40
TEXTS = ["What is 2 + 2?", "  spaces around \n", "\n\nlines\nbetween\n\n", "cafe\u0301 and e\u0301\u0302, 한국어, 🙂", "def f(x):\n    return x\n",
         "{{ jinja }} {% if x %}", "3", "a\tb\r\nc", "\u0301 begins with a mark", "The end.\n"]
THOUGHTS = ["", "First I add.\n", "\nso 2 and 2\n\nare 4"]


def tokenizer_of(name):
    """The small tokenizer with CONTROL behind its added tokens."""
    file = json.loads((GOLDEN / "tokenizer_bpe" / f"{name}.json").read_text())
    added = file["added_tokens"]
    for token in CONTROL:
        if not any(entry["content"] == token for entry in added):
            added.append({**added[0], "content": token, "id": max(entry["id"] for entry in added) + 1})
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(file)), bos_token="<|begin_of_text|>")


def call(rng):
    arguments = rng.choice([{}, {"b": 1, "a": "x\"y"}, {"x": 2.5, "list": [1, None, True]}, {"é": {"z": 0, "y": -1}}])
    return {"type": "function", "function": {"name": rng.choice(["add", "look_up"]), "arguments": arguments}}


def conversation(rng, with_tools):
    messages = []
    if rng.random() < 0.5:
        messages.append({"role": "system", "content": rng.choice(TEXTS)})
    for _ in range(rng.randint(1, 3)):
        messages.append({"role": "user", "content": rng.choice(TEXTS)})
        if with_tools and rng.random() < 0.4:
            calls = [call(rng) for _ in range(rng.randint(1, 2))]
            messages.append({"role": "assistant", "content": rng.choice(["", "I look."]), "tool_calls": calls})
            messages += [{"role": "tool", "content": rng.choice(["4", "no\nresult"])} for _ in calls]
        answer = {"role": "assistant", "content": rng.choice(TEXTS)}
        kind = rng.randint(0, 3)
        if kind == 0:
            answer["content"] = f"<think>\n{rng.choice(THOUGHTS)}\n</think>\n\n" + answer["content"]
        elif kind == 1:
            answer["reasoning_content"] = rng.choice(THOUGHTS)
        messages.append(answer)
    return messages


def main(out):
    import trl  # not needed by bridges.py, which imports this file
    templates = Path(trl.__file__).parent / "chat_templates"
    rng = random.Random(0)
    tools = [{"type": "function", "function": {"name": "add", "description": "adds <tool_call> \"two\"", "parameters":
              {"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "number", "default": 0.5}}}}}]
    rows = []
    for family, (name, has_tools) in FAMILIES.items():
        tokenizer = tokenizer_of(name)
        training = (templates / f"{family}_training.jinja").read_text()
        published = (templates / f"{family}.jinja").read_text()
        for i in range(PER_FAMILY):
            messages = conversation(rng, has_tools)
            given = tools if has_tools and i % 2 == 0 else None
            got = tokenizer.apply_chat_template(messages, tools=given, chat_template=training, tokenize=True, return_dict=True,
                                                return_assistant_tokens_mask=True)
            prompt = messages[:-1]
            text = tokenizer.apply_chat_template(prompt, tools=given, chat_template=published, tokenize=False,
                                                 add_generation_prompt=True)
            # The mask in runs: how many tokens are not the assistant's, how many are, and so on.
            runs, value = [0], 0
            for bit in got["assistant_masks"]:
                if bit != value:
                    runs.append(0)
                    value = bit
                runs[-1] += 1
            rows.append({"family": family, "tokenizer": name, "messages": messages, "tools": given, "ids": got["input_ids"],
                         "mask_runs": runs, "prompt": text})
    out.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    print(f"{len(rows)} conversations, transformers {transformers.__version__}, trl {trl.__version__}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=GOLDEN / "conversations.jsonl")
    main(parser.parse_args().out)
