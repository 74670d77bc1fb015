"""The command `python3 -m qrl_env KIND:…`."""
import inspect
import json
import sys
import urllib.parse

import qrl_env

from . import openenv, openrlhf, reasoning, skyrl, trl, verl

KINDS = {"trl": trl.trl, "tools": trl.tools, "reasoning_gym": reasoning.reasoning_gym, "skyrl_gym": skyrl.skyrl_gym,
         "openrlhf": openrlhf.openrlhf, "openenv": openenv.openenv, "verl_tools": verl.verl_tools}


def value_of(text):
    try:
        return json.loads(text)
    except ValueError:
        return text


def parsed(argument):
    """Returns a function of hello that makes the environment of KIND:…?…; None if the argument has another form."""
    kind, _, rest = argument.partition(":")
    rest, _, query = rest.partition("?")
    if kind not in KINDS or not rest:
        return None
    parts = [rest] if kind == "openenv" else rest.split(":")
    options = {key: value_of(text) for key, text in urllib.parse.parse_qsl(query, keep_blank_values=True)}
    try:
        inspect.signature(KINDS[kind]).bind(None, *parts, **options)
    except TypeError:
        return None
    return lambda hello: KINDS[kind](hello, *parts, **options)


def main():
    argument = sys.argv[1] if len(sys.argv) == 2 else ""
    make = parsed(argument)
    if make is None:
        sys.exit(f"{qrl_env.__doc__}\nqrl_env: expected one argument that begins with {', '.join(f'{kind}:' for kind in KINDS)}, got {argument!r}")
    qrl_env.run(make)


if __name__ == "__main__":
    main()
