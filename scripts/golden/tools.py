#!/usr/bin/env python3
"""Goldens of tools: transformers' schemas of tests/env_files/schemas_style.py, and its reading of calls with TRL's response templates.

    ~/.cache/qrl-peers/hf/bin/python scripts/golden/tools.py [--out FILE]

FILE (default tests/data/golden/tools.json) has "schemas", in the order of FUNCTIONS, and "calls": for each text and family the calls
that transformers reads. Only texts whose calls are well-formed are here: transformers raises for others, qrl_env answers an error.
"""
import argparse
import json
import sys
from pathlib import Path

import transformers
import trl
from transformers.utils import get_json_schema
from transformers.utils.chat_parsing.response_parser import parse_response
from trl import chat_template_utils

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/env_files"))
import schemas_style  # noqa: E402

FAMILIES = {"qwen3": (chat_template_utils.qwen3_template, "<|im_end|>\n"), "qwen3_5": (chat_template_utils.qwen3_5_template, "<|im_end|>\n"),
            "llama3": (chat_template_utils.llama3_template, "<|eot_id|>")}
HERMES = '<tool_call>\n{"name": "plain", "arguments": {"a": 3, "b": 4.5, "name": "é\\n\\"x\\"", "flag": true}}\n</tool_call>'
XML = ("<tool_call>\n<function=plain>\n<parameter=a>\n3\n</parameter>\n<parameter=name>\n75001\n</parameter>\n<parameter=flag>\ntrue\n</parameter>\n"
       "</function>\n</tool_call>")
TEXTS = {
    "qwen3": [HERMES, "I look.\n" + HERMES, HERMES + "\n" + HERMES, "<think>\nhm\n</think>\n\n" + HERMES, "no call", "<think>only</think>4",
              '<tool_call>{"name": "nothing", "arguments": {}}</tool_call>',
              '<tool_call>\n{"arguments": {"rows": [[1], []], "table": {"x": 1e-3}}, "name": "nested"}\n</tool_call>'],
    "qwen3_5": [XML, "<think>\nhm\n</think>\n\nSo.\n" + XML, XML + "\n" + XML,
                "<tool_call>\n<function=nested>\n<parameter=rows>\n[[1, 2], []]\n</parameter>\n<parameter=table>\n{\"x\": 1.5}\n</parameter>\n"
                "<parameter=one_of>\n12\n</parameter>\n<parameter=many>\n[1]\n</parameter>\n</function>\n</tool_call>",
                "<tool_call>\n<function=plain>\n<parameter=name>\nline 1\n  line 2\n</parameter>\n<parameter=b>\n2\n</parameter>\n</function>\n</tool_call>",
                "<tool_call>\n<function=nothing>\n</function>\n</tool_call>", "no call"],
    "llama3": ['{"name": "plain", "parameters": {"a": 3, "name": "x"}}', '{"name": "nothing", "parameters": {}}', "no call"],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "tests/data/golden/tools.json")
    options = parser.parse_args()
    schemas = [get_json_schema(function) for function in schemas_style.FUNCTIONS]
    calls = []
    for family, texts in TEXTS.items():
        template, end = FAMILIES[family]
        for text in texts:
            said = parse_response(text + end, template, prefix="", tools=schemas)
            read = [call["function"] for call in said.get("tool_calls", [])]
            calls.append({"family": family, "text": text, "calls": read, "content": said.get("content", "")})
    found = {"versions": {"transformers": transformers.__version__, "trl": trl.__version__}, "schemas": schemas, "calls": calls}
    options.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
