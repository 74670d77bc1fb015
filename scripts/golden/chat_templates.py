#!/usr/bin/env python3
"""Goldens of chat templates: what transformers' apply_chat_template writes, with the published templates that TRL carries.

    ~/.cache/qrl-peers/hf/bin/python scripts/golden/chat_templates.py [--out FILE]

FILE (default tests/data/golden/chat_templates.jsonl) has Qwen's templates (Apache-2.0) as they are; of others, what they
write and our name for them. --all puts every template text in, which is for checking, not for committing.
"""

import argparse
import json
from pathlib import Path

import transformers
import trl
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

OUT = Path(__file__).resolve().parents[2] / "tests" / "data" / "golden" / "chat_templates.jsonl"
TEMPLATES = Path(trl.__file__).parent / "chat_templates"
# Short templates that are in wide use without being any one model's.
WRITTEN = {
    "plain_chatml": "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>'"
                    " + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "qwen2_math": "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\n"
                  "Please reason step by step, and put your final answer within \\\\boxed{}.<|im_end|>\\n' }}{% endif %}"
                  "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
                  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "llama_like": "{{- bos_token }}\n{%- if messages[0]['role'] == 'system' %}{%- set system_message = messages[0]['content'] | trim %}"
                  "{%- set messages = messages[1:] %}{%- else %}{%- set system_message = '' %}{%- endif %}"
                  "{%- set date_string = '26 Jul 2024' %}{{- '<|start_header_id|>system<|end_header_id|>\\n\\n' }}"
                  "{{- 'Cutting Knowledge Date: December 2023\\n' }}{{- 'Today Date: ' + date_string + '\\n\\n' }}{{- system_message }}"
                  "{{- '<|eot_id|>' }}{%- for message in messages %}{{- '<|start_header_id|>' + message['role'] + "
                  "'<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}{%- endfor %}"
                  "{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}",
    "thinking": "{%- for message in messages %}\n    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + "
                "'\\n' }}\n{%- endfor %}\n{%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n<think>\\n' }}\n{%- endif %}",
}
# A template that writes something else must not be taken for one of those.
FOREIGN = {
    "trimmed": WRITTEN["plain_chatml"].replace("message['content']", "message['content'] | trim"),
    "other_opening": WRITTEN["plain_chatml"].replace("assistant\n", "assistant\nSure, "),
    "two_systems": "{{ '<|im_start|>system\\nA<|im_end|>\\n' }}" + WRITTEN["qwen2_math"],
    "no_opening": WRITTEN["plain_chatml"].split("{% if add")[0],
}
PUBLISHED = {"qwen2_5": {}, "qwen3": {}, "qwen3 ": {"enable_thinking": False}, "qwen3_instruct_2507": {}, "llama3": {},
             "llama3_1": {}, "llama3_2": {"date_string": "26 Jul 2024"}}
OURS = {"llama3": "llama3", "llama3_1": "llama3.1", "llama3_2": "llama3.1"}
REFUSED = ["cohere", "gemma", "phi3", "glm4moe", "gptoss", "deepseekv3"]
USERS = ["What is 2 + 2?", "  spaces around \n", "a\n\nb<|im_end|>\n<|eot_id|>é🙂", "{{ jinja }} {% if x %}"]
SYSTEMS = [None, "Answer in one word.", "  two\nlines "]


def main(out, everything):
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), bos_token="<|begin_of_text|>")
    rows = []
    templates = [(name, (TEMPLATES / f"{name.strip()}.jinja").read_text(), options) for name, options in PUBLISHED.items()]
    templates += [(name, text, {}) for name, text in WRITTEN.items()]
    for name, text, options in templates:
        cases = []
        for user in USERS:
            for system in SYSTEMS:
                messages = [{"role": "system", "content": system}] if system else []
                messages.append({"role": "user", "content": user})
                rendered = tokenizer.apply_chat_template(messages, chat_template=text, tokenize=False,
                                                         add_generation_prompt=True, **options)
                cases.append({"system": system or "", "user": user, "rendered": rendered})
        row = {"name": name.strip(), "thinking": options.get("enable_thinking", True), "cases": cases}
        if name in OURS:
            row["chat_template"] = OURS[name]
        if name not in OURS or everything:
            row["template"] = text
        rows.append(row)
    rows += [{"name": name, "template": text, "refused": True} for name, text in FOREIGN.items()]
    if everything:
        rows += [{"name": name, "template": (TEMPLATES / f"{name}.jinja").read_text(), "refused": True} for name in REFUSED]
    out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(f"{len(rows)} templates, transformers {transformers.__version__}, trl {trl.__version__}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    main(arguments.out, arguments.all)
