#!/usr/bin/env python3
"""Goldens of data/jinja: what transformers' Jinja environment writes for small templates, or that it fails.

    ~/.cache/qrl-peers/hf/bin/python scripts/golden/jinja.py        writes tests/data/golden/jinja.jsonl

Rows {"template", "rendered"}; "rendered" is null where Jinja itself fails. The variables are VARIABLES below, in the
first row.
"""

import json
from pathlib import Path

from transformers.utils.chat_template_utils import _compile_jinja_template

OUT = Path(__file__).resolve().parents[2] / "tests" / "data" / "golden" / "jinja.jsonl"
VARIABLES = {"messages": [{"role": "system", "content": " s\n"}, {"role": "user", "content": "a</think>\n b\u3000"}],
             "tools": None, "text": "  x y \n", "number": 7, "flag": True, "empty": "", "word": "ab,c,ab"}
TEMPLATES = [
    # White space around tags.
    "a\n  {% if flag %}\n b\n  {% endif %}\nc\n", "a\n  {%- if flag -%}\n b\n  {%- endif -%}\nc\n\n", "x {% if flag %} y {% endif %} z",
    "  {% if flag %}a{% endif %}  \n  {{ number }}  \n", "{{- number -}}  \n x", "a \n {{- number }}\n\nb", "a {%+ if flag +%}\nb{% endif %}",
    "\n\n{% if flag %}\n\n{% endif %}\n\n", "a\r\nb\r\n{% if flag %}\r\nc{% endif %}", "{# c\n 'x #}\n  {# d #}\ne", "a {#- b -#} c", "\t{% set x = 1 %}\n\t{{ x }}",
    "{{ number }}\n{% if flag %}\n{% endif %}\n{{ number }}", "{{ number }}  {% if flag %}a{% endif %}", "{% if flag %}  {% if flag %}a{% endif %}{% endif %}",
    "{ % } {x} {{ '{{' }} {{ '%}' }}", "{{ '}}' }}{{ \"'\" }}{{ 'a\\n\\t\\'\\\\b' }}", "{{ 'a' 'b' \"c\" }}", "{{ 'a\nb' }}", "{{ '\\d\\.\\<' }}", "{{ '\\a' }}{{ '\\u0041' }}",
    # Values and operators.
    "{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ -number }} {{ 7 % 4 }} {{ 2 - -3 }}", "{{ 'a' + 'b' ~ 1 ~ true }}", "{{ flag }}{{ none }}{{ tools }}{{ missing }}",
    "{{ number > 6 }}{{ number <= 6 }}{{ number == 7 }}{{ number != 7 }}{{ '7' == number }}", "{{ flag and not missing }}{{ missing or 'x' }}{{ empty and 1 }}",
    "{{ 'a' if flag else 'b' }}{{ 'a' if missing }}{{ 'a' if missing else 'b' if missing else 'c' }}", "{{ 'think' in messages[1].content }}{{ 'x' not in 'abc' }}",
    "{{ 'role' in messages[0] }}{{ 'tool_calls' in messages[0] }}{{ 3 in [1, 2, 3] }}{{ [] == [] }}", "{{ not flag is defined }}{{ not (flag is defined) }}", "{{ not 'a' == 'b' }}",
    "{{ text | trim + '!' }}{{ text|length }}", "{{ 'a' + text | trim }}", "{{ messages | length - 1 }}", "{{ messages|length == 2 and messages[0].role == 'system' }}",
    "{{ messages[-1].role }}{{ messages[5] }}{{ messages[0]['none'] }}{{ messages[0].none }}", "{{ messages[5].role }}", "{{ missing.x }}", "{{ missing + 'a' }}", "{{ 1 + 'a' }}",
    "{{ messages[1:]|length }}{{ messages[::-1][0].role }}{{ messages[:1][0].role }}{{ messages[-1:]|length }}{{ messages[3:]|length }}{{ messages[:-5]|length }}",
    "{{ text.strip() }}|{{ text.lstrip() }}|{{ text.rstrip() }}|{{ text.rstrip('\n') }}|{{ 'aabca'.strip('ab') }}|{{ 'xx'.strip('x') }}",
    "{{ messages[1].content.split('</think>')[-1].lstrip('\n') }}", "{{ word.split(',')|length }}{{ word.split(',')[0] }}{{ word.replace('ab', 'z') }}", "{{ messages[1].content | trim }}.",
    "{{ word.startswith('ab') }}{{ word.endswith(',ab') }}{{ word.startswith('x') }}", "{{ messages[0].get('role') }}{{ messages[0].get('x') }}{{ messages[0].get('x', 'y') }}",
    "{{ missing | default('d') }}{{ empty | default('d') }}{{ messages | first | length }}{{ (messages | last).role }}", "{{ number | string + 'x' }}{{ none | string }}",
    # Tests.
    "{{ missing is defined }}{{ tools is defined }}{{ tools is none }}{{ missing is none }}{{ tools is not none }}", "{{ text is string }}{{ number is string }}{{ messages is string }}",
    "{{ flag is true }}{{ flag is false }}{{ missing is false }}{{ number is true }}{{ 1 is true }}", "{{ messages is iterable }}{{ text is sequence }}{{ messages[0] is mapping }}{{ messages is mapping }}",
    "{{ missing is undefined }}{{ flag is boolean }}{{ messages[0].tool_calls is defined and messages[0].tool_calls }}",
    # Statements and scopes.
    "{% for m in messages %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ m.role }};{% endfor %}",
    "{% for m in messages %}{% if not loop.first %}{{ loop.previtem.role }}{% endif %}{% if not loop.last %}{{ loop.nextitem.role }}{% endif %}{% endfor %}",
    "{% set x = 1 %}{% for m in messages %}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}", "{% set x = 1 %}{% if flag %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% set ns = namespace(n=0, s='') %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% set ns.s = ns.s + m.role %}{% endfor %}{{ ns.n }}{{ ns.s }}{{ ns.other }}",
    "{% if missing %}a{% elif number == 7 %}b{% else %}c{% endif %}{% if missing %}a{% else %}c{% endif %}{% if missing %}a{% endif %}",
    "{% set messages = messages[1:] %}{% for message in messages %}{{ message.role }}{% endfor %}", "{% for m in messages %}{% for m in messages %}{{ loop.index }}{% endfor %}{{ loop.index }}{{ m.role }}{% endfor %}",
    "{% for m in [] %}a{% endfor %}b", "{% for m in missing %}a{% endfor %}", "{% generation %}a{% endgeneration %}", "{{ raise_exception('why') }}", "{% if missing %}{{ raise_exception('why') }}{% endif %}ok",
    "{% for c in messages[0].role %}{{ c }}{% endfor %}", "{% set loop = 3 %}{{ loop }}", "{{ loop is defined }}", "{% set a = messages %}{{ a[0].role }}{% set a = 'z' %}{{ a }}",
    # Not executed, so not of interest; some of it is not known here at all.
    "{% if missing %}{{ x | tojson(indent=4) }}{{ {'a': {'b': 1}} }}{{ (1, 2) }}{{ 1 < 2 < 3 }}{% for k, v in x.items() %}{% endfor %}{% for k in x if k %}{% else %}{% endfor %}{% endif %}ok",
    "{% macro f(a, b='x') %}{{ a }}{% endmacro %}ok", "{% if missing %}{% set x %}a{% endset %}{% endif %}ok",
    "{% if missing %}{{ number is divisibleby 7 }}{{ x | join(', ') ~ '\n' }}{{ strftime_now('%d') }}{% for k in x %}{% break %}{% endfor %}{% endif %}ok",
    # Executed, and not known here.
    "{{ messages | tojson }}", "{% macro f(a) %}{{ a }}{% endmacro %}{{ f('x') }}", "{% for k, v in messages[0].items() %}{{ k }}{% endfor %}", "{{ [1, 2] }}", "{{ 1 == true }}",
    "{% set a = namespace(x=1) %}{% set b = a %}{% set a.x = 2 %}{{ b.x }}", "{{ word | upper }}", "{{ 1 < 2 < 3 }}", "{{ '\\x41' }}", "{{ 1.5 }}", "{{ text[1:3] }}", "{{ number is divisibleby 7 }}",
    "{% for m in messages %}{{ loop.revindex }}{% endfor %}", "{{ messages[0].items is defined }}", "{{ 'ab' * 3 }}", "{{ 7 // 2 }}", "{% set x %}a{% endset %}{{ x }}", "{{ cycler }}",
    # Macros, objects, tuples, pairs, conditions of loops, captured blocks.
    "{% macro f(a, b='x') %}{{ a }}{{ b }}{% endmacro %}{{ f('1') }}{{ f(1, b=2) }}{{ f() }}", "{% set x = 5 %}{% macro f() %}{{ x }}{{ y }}{% endmacro %}{% for y in [1] %}{{ f() }}{% endfor %}",
    "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}", "{% for k, v in {'a': 1, 'b': [2]}.items() %}{{ k }}{{ v }}{% endfor %}",
    "{% for k, v in {'B': 1, 'a': 2} | dictsort %}{{ k }}{{ v }}{% endfor %}", "{% for m in messages if m.role == 'user' %}{{ loop.index }}{{ m.role }}{{ loop.length }}{% else %}none{% endfor %}",
    "{% for m in messages if m.role == 'x' %}a{% else %}none{% endfor %}", "{% set x %}a{{ number }}{% endset %}{{ x + '!' }}", "{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{{ range(3) | list }}{{ range(1, 3) | list }}{{ range(3, 0, -1) | list }}", "{{ (1, 2)[1] }}{{ [1] + [2] }}{{ [[1, 'a'], {}] }}", "{{ {'a': {'b': 'c\"d'}, 'e': none, 'f': true} }}",
    "{{ {'a': [1, 2.5, none, 'é<'], 'b': {}} | tojson }}", "{{ {'a': [1, {}], 'b': {'c': []}} | tojson(indent=2) }}", "{{ messages | tojson(indent=4) }}", "{{ ['a', 1, true] | join(', ') }}{{ messages | join('|', attribute='role') }}",
    "{{ messages | map(attribute='role') | join }}{{ ['a', 'b'] | map('upper') | list }}", "{{ messages | selectattr('role', 'equalto', 'user') | list | length }}{{ messages | rejectattr('role', 'equalto', 'user') | map(attribute='role') | list }}",
    "{{ ['a', '', 'b'] | select | list }}{{ ['a', 'b'] | reject('equalto', 'a') | list }}", "{{ text[1:3] }}{{ 'héllo'[1] }}{{ 'héllo'[::-1] }}{{ 'héllo' | length }}{{ 'abc'[-1:] }}",
    "{{ 'Ab é' | upper }}{{ 'ÀB' | lower }}{{ 'aBC' | capitalize }}{{ 'straße'.upper() }}", "{{ word.split(',', 1) }}{{ 'a b'.split(' ')[-1] }}{{ ' '.join(['a', 'b']) }}", "{{ messages[0].keys() | list }}{{ messages[0].values() | list }}",
    "{{ missing | length }}{{ missing | list }}{% for x in missing %}a{% endfor %}{{ 'a' in missing }}{{ missing == none }}{{ missing ~ 'x' }}", "{{ messages[0]['items'] is defined }}{{ messages[0].items is mapping }}{{ messages[0].get('items') is none }}",
    "{{ 1 == true }}{{ 1 == 1.0 if false else 2 }}{{ 'a' < 'b' }}{{ [1, 2] == [1, 2] }}{{ {'a': 1} == {'a': 1} }}", "{{ number is number }}{{ number is integer }}{{ true is number }}{{ 'a' is in ['a'] }}{{ 'b' is not in 'abc' }}{{ 3 is eq 3 }}",
    "{{ messages | last }}", "{% for m in messages %}{{ loop.revindex }}{{ loop.revindex0 }}{% endfor %}", "{% set ns = namespace(a=1) %}{% macro f() %}{% set ns.a = 2 %}{% endmacro %}{{ f() }}{{ ns.a }}", "{{ -7 % 3 }}{{ 7 % 3 }}", "{{ {'a b': 1}['a b'] }}{{ {} }}{{ [] }}{{ () | length }}",
    "{{ \"it's\" }}{{ [\"it's\", 'say \"x\"', 'both \\' and \"'] }}", "{{ text | replace('x', 'zz') | safe }}{{ 'a' | default('b', true) }}{{ '' | default('b', boolean=true) }}", "{% set f = 3 %}{{ f }}{% macro f() %}m{% endmacro %}{{ f() }}",
    "{% generation %}{% set x = 1 %}{{ x }}{% endgeneration %}{{ x }}", "{% if flag %}{% set x %}b{% endset %}{% endif %}{{ x }}", "{% for a in [1, 2] %}{% for b in [3] %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}",
    # Python's spaces, in tags and in trim.
    "\u3000{%- if true %}x{% endif %}", "{{ 'x' -}}\u00a0y", "{{ 'x' -}}\u2028\u0085\u001c\n y", "a\u001f {#- b -#} \u205f c", "\u3000{% if flag %}\u00a0x{% endif %}", "a\n\u3000{% if flag %}x{% endif %}",
    "{{\u00a01\u3000+\u20032 }}", "[{{ 'a\u001c'|trim }}]", "[{{ '\u001da\u001e'.strip() }}]", "[{{ '\u3000a\u001f'.lstrip() }}]", "{{ 'a\u200b' -}}\u200b b",
    # Turns that break, macros in loops, and their arguments.
    "{% for x in [1] %}{% break %}{% else %}E{% endfor %}", "{% for x in [1, 2] %}{% if x == 2 %}{% break %}{% endif %}{% else %}E{% endfor %}", "{% for x in [1, 2] %}{% continue %}{% else %}E{% endfor %}",
    "{% for x in [1, 2] %}{% if x == 1 %}{% continue %}{% endif %}{% else %}E{% endfor %}", "{% for x in [] %}{% else %}{% set y = 1 %}{{ y }}{% endfor %}{{ y }}", "{% break %}", "{% for a in [1] %}{% endfor %}{% continue %}",
    "{% for a in [1] %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}", "{% for i in [1,2] %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}", "{% if flag %}{% macro m() %}x{% endmacro %}{% endif %}{{ m() }}",
    "{% macro m(a=1) %}[{{ a }}]{% endmacro %}{{ m(nope) }}{{ m() }}{{ m(none) }}", "{% macro m(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ m(b=1) }}{{ m(1, b=3) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=1) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=1) }}", "{% macro m(a) %}{{ varargs }}{% endmacro %}{{ m(1) }}", "{% macro m(a) %}{{ kwargs }}{% endmacro %}{{ m(1) }}", "{{ varargs is defined }}{{ kwargs }}", "{{ self is defined }}",
    # Types of sequences.
    "{{ (1,2) }}{{ (1,) }}{{ () }}{{ [(1, 'a'), [2]] }}", "{{ (1,2) == [1,2] }}{{ (1,2) == (1,2) }}{{ (1,2)[0:1] }}{{ (1,2) + (3,) }}", "{{ (1, [2]) | tojson }}", "{{ (1,) + [2] }}", "{{ {'a':1}|items|list }}",
    "{{ {'a':1}|items }}", "{{ {'a':1}.items() }}", "{{ {'a':1}.keys() }}", "{{ {'a':1, 'b':2}.values() | list }}{{ {'a':1}.items() | length }}", "{{ {'a':1}.items() | first }}{{ {'a':1}.items() | last }}{{ {'a':1}.items()[0] }}",
    "{{ {'b':1,'a':2}|dictsort }}", "{{ {'\u00c9':1,'\u00e8':2}|dictsort|map('first')|join }}", "{{ {'B':1,'a':2,'A':3}|dictsort|map('first')|join }}", "{{ range(3) }}", "{{ range(3)[1] }}{{ range(3) | length }}{{ 2 in range(3) }}",
    "{{ range(3)[1:] }}", "{{ range(2) | tojson }}", "{{ range(0) is sequence }}{{ messages[0].keys() is sequence }}{{ messages[0].keys() is iterable }}", "{{ 'y' if messages | selectattr('role', 'equalto', 'x') else 'n' }}",
    "{{ 'y' if messages | selectattr('role', 'equalto', 'x') | list else 'n' }}", "{{ messages | map(attribute='role') }}", "{{ messages | map(attribute='role') | length }}", "{{ (messages | map(attribute='role'))[0] }}",
    "{% set r = messages | map(attribute='role') %}{{ r | first }}{{ r | join }}", "{{ messages | map(attribute='role') | first }}", "{{ messages | map(attribute='role') | last }}", "{{ messages | map(attribute='content.x') | list }}",
    "{{ [{'a': {'b': 1}}, {'a': {'b': [5, 6]}}] | map(attribute='a.b') | list }}{{ [[1, 2], [3, 4]] | map(attribute='1') | list }}{{ [[1, 2]] | map(attribute=0) | list }}{{ [{'a': {'b': 1}}] | join('-', attribute='a.b') }}",
    "{{ messages | map(attribute='none', default='d') | list }}", "{{ ','.join([1]) }}", "{{ ','.join(['a', 'b']) }}", "{{ [3,1][true] }}{{ [3,1][false] }}{{ 'ab'[true] }}{{ [3][1.0] }}",
    # tojson's indent, methods as values, private names, numbers.
    "{{ [1]|tojson(indent=0) }}", "{{ [1]|tojson(indent=20) }}", "{{ [1, {'a': []}]|tojson(indent=-1) }}", "{{ [1]|tojson(indent=true) }}", "{{ [1]|tojson(indent=false) }}", "{{ [1, {'a': 2}]|tojson(indent='\t') }}", "{{ [1]|tojson(indent=none) }}{{ []|tojson(indent=2) }}",
    "{{ 's'.strip is defined }}{{ [].index is defined }}{{ 's'.foo is defined }}{{ 5 .real is defined }}", "{{ [].append is defined }}", "{{ {'update': 1}.update is defined }}", "{{ {'update': 1}['update'] }}", "{{ 's'.strip }}", "{{ 's'['strip'] is defined }}", "{% set ns = namespace(_x=1) %}{{ ns._x }}", "{{ messages[0]._x is defined }}", "{{ 007 }}", "{{ flag is defined if flag else 3 }}", "{{ (flag is defined) if flag else 3 }}", "{{ flag is defined is true }}", "{{ {} is eq {} }}{{ 1 is in [1] and flag is defined or 2 }}", "{{ 00 }}{{ 0 }}{{ 10 }}",
    # Safe texts escape what is joined to them.
    "{{ 'a<'|safe + '<b' }}{{ '<b' + 'a<'|safe }}{{ '&' ~ ('<'|safe) ~ '>' }}{{ ('<'|safe) + ('>'|safe) }}", "{% set x = '<a>'|safe %}{{ x }}{{ x ~ \"'\" }}{{ x|string + '<' }}{{ x|length }}{{ x == '<a>' }}{{ x is string }}",
    "{{ ('<'|safe) + {'a': '<'}|tojson }}{{ '<' | tojson | safe }}", "{{ (' <'|safe)|trim + '<' }}", "{{ ('<'|safe).strip() + '<' }}", "{{ ['<'|safe, '<'] | join }}", "{{ (('<'|safe) ~ 1 ~ none) + '&' }}",
    "{{ {2: 'x', 1: 'y', 10: 'z'} | dictsort }}{{ {true: 1, 0: 2} | dictsort }}", "{{ 'hé 🙂 \x7f ' | tojson(ensure_ascii=true) }}{{ 'hé' | tojson(true, indent=2) }}{{ {'é': ['你']} | tojson(ensure_ascii=True) }}",
    # False values in select, reject, map.
    "[{{ tools | selectattr('type', 'equalto', 'x') | list }}]", "{{ none | select | list }}{{ 0 | reject | list }}{{ '' | map('upper') | list }}{{ false | rejectattr('a') | list }}{{ {} | map('upper') | list }}{{ missing | select | list }}", "{% for x in tools %}{% endfor %}",
    "{{ 5 | select | list }}", "{{ 'y' if none | select else 'n' }}",
    # Keys of any type.
    "{{ {1: 'a', true: 'b', 2: 'c'} }}{{ {1: 'a'}[1] }}{{ {1: 'a'}[true] }}{{ {1: 'a'}.get(1) }}{{ {1: 'a'}[2] }}", "{{ {none: 1, 1.5 if false else 2: 3, (1, 2): 4} }}{{ {(1, 2): 4}[(1, 2)] }}", "{{ {1: 'a', none: 'b', true: 'c', false: 0} | tojson }}",
    "{{ {[1]: 2} }}", "{{ {(1, 2): 3} | tojson }}", "{% for k, v in {1: 'a', 'b': 2}.items() %}{{ k }}{{ v }}{% endfor %}{{ 1 in {1: 2} }}{{ '1' in {1: 2} }}{{ {1: 2} == {1: 2} }}{{ {1: 2} == {'1': 2} }}", "{{ {1: 2, 'a': 3} | dictsort }}", "{{ {2: 'x', 1: 'y'} | list }}",
    "{{ {1: 1}.items is defined }}{{ {'items': 1}['items'] }}{{ {'items': 1}.items is mapping }}",
    # format, int, min, max.
    "{{ '{} and {}'.format('a', 1) }}{{ '{0}{1}{0}'.format('x', none) }}{{ '{a}-{b}'.format(a=[1], b='z') }}{{ '{{}}{}'.format(true) }}", "{{ '{} {0}'.format(1, 2) }}", "{{ '{}'.format() }}", "{{ '{x}'.format(1) }}", "{{ '{:>5}'.format(1) }}", "{{ '{'.format(1) }}", "{{ '}'.format(1) }}",
    "{{ '{}'.format(missing) }}|", "{{ '{a.b}'.format(a=1) }}", "{{ '{!r}'.format('a') }}",
    "{{ '42' | int }}{{ ' -7 ' | int }}{{ '+5' | int }}{{ '42.9' | int }}{{ 'x' | int }}{{ 'x' | int(3) }}{{ 'x' | int(default=-1) }}{{ 3 | int }}{{ true | int }}{{ none | int }}{{ [] | int(2) }}{{ '1e3' | int }}{{ 'inf' | int }}{{ 'nan' | int(9) }}", "{{ missing | int }}", "{{ '1_000' | int }}", "{{ '0x1' | int }}",
    "{{ '+-5' | int(8) }}{{ '' | int }}{{ '.5' | int }}{{ '5.' | int }}", "{{ 'ff' | int(0, 16) }}",
    "{{ [3, 1, 2] | min }}{{ [3, 1, 2] | max }}{{ ['b', 'A', 'a'] | min }}{{ ['b', 'B'] | max }}{{ [] | min }}|{{ messages | map(attribute='role') | min }}{{ 'hello' | max }}{{ [1, true] | max }}", "{{ [1, 'a'] | min }}",
    "{{ ['b', 'A', 'a'] | min(case_sensitive=true) }}{{ ['b', 'A', 'B'] | max(true) }}{{ ([{'a': 2}, {'a': 1}] | min(attribute='a')).a }}", "{{ 5 | min }}",
    # No Jinja.
    "{% if flag %}a", "{{ 'a }}", "{{ a b }}", "{% endif %}", "{# a", "{% else %}", "{{ ) }}", "{{ '' ''", "{% for m messages %}{% endfor %}", "{{", "{%", "{",
]


def render(text):
    try:
        return _compile_jinja_template(text).render(**VARIABLES)
    except Exception:  # whatever Jinja raises
        return None


if __name__ == "__main__":
    rows = [{"variables": VARIABLES}] + [{"template": text, "rendered": render(text)} for text in TEMPLATES]
    OUT.write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(f"{len(TEMPLATES)} templates, {sum(row.get('rendered') is not None for row in rows)} rendered")
