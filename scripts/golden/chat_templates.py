#!/usr/bin/env python3
"""Goldens of chat templates: what transformers' apply_chat_template writes, with the published templates that TRL carries.

    ~/.cache/qrl-peers/hf/bin/python scripts/golden/chat_templates.py [--out FILE]

FILE (default tests/data/golden/chat_templates.jsonl) has Qwen's templates (Apache-2.0) as they are; of Llama's, what they
write and our name for them. Its conversations have one question; scripts/accept/check_templates compares longer ones. --all puts every template text in, which is for checking, not for committing.
"""

import argparse
import importlib.util
import json
from pathlib import Path

import transformers
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

OUT = Path(__file__).resolve().parents[2] / "tests" / "data" / "golden" / "chat_templates.jsonl"
TEMPLATES = Path(importlib.util.find_spec("trl").origin).parent / "chat_templates"  # not imported: that needs PyTorch
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
# Other families' ways to write the same, in words of our own.
WRITTEN |= {
    "trimmed": WRITTEN["plain_chatml"].replace("message['content']", "message['content'] | trim"),
    "two_systems": "{{ '<|im_start|>system\\nA<|im_end|>\\n' }}" + WRITTEN["qwen2_math"],
    "no_opening": WRITTEN["plain_chatml"].split("{% if add")[0],
    "zephyr_like": "{% for message in messages %}\n{{ '<|' + message['role'] + '|>\\n' + message['content'] + eos_token }}\n"
                   "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}",
    "gemma_like": "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
                  "{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
                  "{{ raise_exception('Conversation roles must alternate') }}{% endif %}{% set role = 'model' if message['role'] == "
                  "'assistant' else message['role'] %}{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + "
                  "'<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}",
    "r1_like": "{% set ns = namespace(system='') %}{%- for message in messages %}{%- if message['role'] == 'system' %}"
               "{% set ns.system = message['content'] %}{%- endif %}{%- endfor %}{{ bos_token }}{{ ns.system }}"
               "{%- for message in messages %}{%- if message['role'] == 'user' %}{{ '<｜User｜>' + message['content'] }}"
               "{%- elif message['role'] == 'assistant' %}{{ '<｜Assistant｜>' + message['content'].split('</think>')[-1] + eos_token }}"
               "{%- endif %}{%- endfor %}{% if add_generation_prompt %}{{ '<｜Assistant｜><think>\\n' }}{% endif %}",
    "mistral_like": "{%- if messages[0]['role'] == 'system' %}{%- set system = messages[0]['content'] %}{%- set turns = messages[1:] %}"
                    "{%- else %}{%- set turns = messages %}{%- endif %}{{- bos_token }}{%- for message in turns %}"
                    "{%- if message['role'] == 'user' %}{%- if loop.last and system is defined %}"
                    "{{- '[INST] ' + system + '\\n\\n' + message['content'] + '[/INST]' }}{%- else %}"
                    "{{- '[INST] ' + message['content'] + '[/INST]' }}{%- endif %}{%- elif message['role'] == 'assistant' %}"
                    "{{- ' ' + message['content'] | trim + eos_token }}{%- endif %}{%- endfor %}",
}
# (text, another). Each is tried on every template that has the text.
MUTATIONS = [
    ("You are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>", "You are another.<|im_end|>"),
    ("You are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>", "<|im_end|>"),
    ("{{- '<|im_start|>' + message.role + '\\n' + ", "{{- '<|im_start|>' + 'human' + '\\n' + "),
    ("{{- '<|im_start|>' + message.role + '\\n' + ", "{{- '<|im_start|>' + message.role + ': ' + "),
    ("{{- '<|im_start|>' + message.role + '\\n' + ", "{{- '\\n<|im_start|>' + message.role + '\\n' + "),
    ("+ '<|im_end|>' + '\\n' }}", "+ '<|im_end|>' + '\\n\\n' }}"),
    ("+ '<|im_end|>' + '\\n' }}", "+ '<|im_end|>' }}"),
    ("+ '<|im_end|>' + '\\n' }}", "+ '<|im_end|>\\n' }}\n"),
    ("{{- '<|im_start|>assistant\\n' }}", ""),
    ("{{- '<|im_start|>assistant\\n' }}", "{{- '<|im_start|>assistant' }}"),
    ("{{- '<|im_start|>assistant\\n' }}", "{{- '<|im_start|>model\\n' }}"),
    ("{{- '<|im_start|>assistant\\n' }}", "{{- '<|im_start|>assistant\\nSure, ' }}"),
    ("{{- '<|im_start|>assistant\\n' }}", "{{ '<|im_start|>assistant\\n' }}"),
    ("{%- if add_generation_prompt %}", "{% if add_generation_prompt %}"),
    ("{%- if add_generation_prompt %}", " x\n{%- if add_generation_prompt %}"),
    ("{%- if add_generation_prompt %}", "{%- if add_generation_prompt and messages|length > 1 %}"),
    ("{%- if add_generation_prompt %}", "{%- if not add_generation_prompt %}"),
    ("{%- for message in messages %}", "{%- for message in messages[::-1] %}"),
    ("{%- for message in messages %}", "{%- for message in messages[1:] %}"),
    ("{%- for message in messages %}", "{{- 'Begin.' }}\n{%- for message in messages %}"),
    ("{%- for message in messages %}", "{%- for message in messages %}{%- if 'weather' in message.content %}{{- 'Rain.' }}{%- endif %}"),
    ("{%- set content = message.content %}", "{%- set content = message.content | trim %}"),
    ("{%- set content = message.content %}", "{%- set content = message.content.strip('\\n') %}"),
    ("{%- set content = message.content %}", "{%- set content = message.content.split('</think>')[-1] %}"),
    ("{%- set content = message.content %}", "{%- set content = message.content.replace('3', 'three') %}"),
    ("+ message.content +", "+ message.content.rstrip() +"),
    ("messages[0].role == 'system'", "messages[0].role == 'developer'"),
    ("messages[0]['role'] == 'system'", "messages[0]['role'] != 'system'"),
    ("'<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n'", "messages[0].content + '\\n'"),
    ("'<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n'", "'<|im_start|>system\\n' + messages[0].content|trim + '<|im_end|>\\n'"),
    ("and enable_thinking is false", "and enable_thinking is true"),
    ("and enable_thinking is false", "and not enable_thinking"),
    ("enable_thinking is defined and enable_thinking is false", "enable_thinking is not defined"),
    ("{{- '<think>\\n\\n</think>\\n\\n' }}", "{{- '<think></think>\\n' }}"),
    ("{%- endfor %}\n{%- if add", "{%- endfor %}\n{{- raise_exception('no') }}\n{%- if add"),
    ("{%- endfor %}\n{%- if add", "{%- endfor %}\n{{- strftime_now('%Y') if messages|length > 5 }}\n{%- if add"),
    ("{{- bos_token }}", ""),
    ("{{- bos_token }}", "{{- bos_token }} "),
    ("'26 Jul 2024'", "'1 Jan 2030'"),
    ("{{- system_message }}", "{{- system_message + '\\n' }}"),
    ("message['content'] | trim +", "message['content'] +"),
    ("message['content'] | trim +", "message['content'].lstrip() +"),
    ("'<|start_header_id|>assistant<|end_header_id|>\\n\\n'", "'<|start_header_id|>assistant<|end_header_id|>\\n'"),
    ("'Cutting Knowledge Date: December 2023\\n'", "''"),
    ("+ message['role'] +", "+ message['role'] | upper +"),
]
PUBLISHED = {"qwen2_5": {}, "qwen3": {}, "qwen3 ": {"enable_thinking": False}, "qwen3_instruct_2507": {}, "llama3": {},
             "llama3_1": {}, "llama3_2": {"date_string": "26 Jul 2024"}}
OURS = {"llama3": "llama3", "llama3_1": "llama3.1", "llama3_2": "llama3.1"}
USERS = ["What is 2 + 2?", "  spaces around \n", "a\n\nb<|im_end|>\n<|eot_id|>é🙂", "{{ jinja }} {% if x %}"]
SYSTEMS = [None, "Answer in one word.", "  two\nlines "]


def render(tokenizer, text, options):
    """What transformers writes for each conversation, or nothing where it fails."""
    cases = []
    for user in USERS:
        for system in SYSTEMS:
            messages = [{"role": "system", "content": system}] if system else []
            messages.append({"role": "user", "content": user})
            try:
                rendered = tokenizer.apply_chat_template(messages, chat_template=text, tokenize=False,
                                                         add_generation_prompt=True, **options)
            except Exception:  # whatever the template raises
                rendered = None
            cases.append({"system": system or "", "user": user, "rendered": rendered})
    return cases


def mutated(tokenizer, templates):
    """Rows that say of which template they are an edit: their text would be long, and not always ours to show."""
    for name, text, options in templates:
        for i, (old, new) in enumerate(MUTATIONS):
            if old in text:
                cases = render(tokenizer, text.replace(old, new), options)[::2]
                yield {"name": f"{name.strip()}, edit {i}", "of": name.strip(), "old": old, "new": new,
                       "thinking": options.get("enable_thinking", True), "cases": cases}


def main(out, everything):
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), bos_token="<|begin_of_text|>",
                                        eos_token="</s>")
    rows = []
    templates = [(name, (TEMPLATES / f"{name.strip()}.jinja").read_text(), options) for name, options in PUBLISHED.items()]
    templates += [(name, text, {}) for name, text in WRITTEN.items()]
    for name, text, options in templates:
        cases = render(tokenizer, text, options)
        row = {"name": name.strip(), "thinking": options.get("enable_thinking", True), "cases": cases}
        if name in OURS:
            row["chat_template"] = OURS[name]
        if name not in OURS or everything:
            row["template"] = text
        rows.append(row)
    of_ours = [(name, text, options) for name, text, options in templates if everything or name not in OURS]
    rows += mutated(tokenizer, of_ours)
    out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(f"{len(rows)} templates, transformers {transformers.__version__}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    main(arguments.out, arguments.all)
