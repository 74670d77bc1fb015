"""Makes the JSON schema of a tool from its type hints and its docstring in Google's style, as transformers' get_json_schema does."""
import enum
import inspect
import json
import re
import types
import typing

from qrl_reward_file import Refused, place_of

SCALARS = {int: "integer", float: "number", str: "string", bool: "boolean", type(None): "null"}
PLAIN = {**{kind: {"type": name} for kind, name in SCALARS.items()},
         list: {"type": "array"}, tuple: {"type": "array"}, dict: {"type": "object"}, typing.Any: {}}
ARGUMENT = re.compile(r"([ \t]*)(\w+)(?:[ \t]*\([^()]*\))?:(.*)")
CHOICES = re.compile(r"\(choices:\s*(.*?)\)\s*$", re.IGNORECASE | re.DOTALL)


# ---- type hints

def schema_of_values(values, what):
    if not values or any(type(value) not in SCALARS for value in values):
        raise TypeError(f"{what} must have values, each a text, number, bool or None")
    names = list(dict.fromkeys(SCALARS[type(value)] for value in values))
    return {"type": names[0] if len(names) == 1 else names, "enum": values}


def schema_of_union(kinds):
    options = [schema_of(kind) for kind in kinds if kind is not type(None)]
    if len(options) == 1:
        schema = options[0]
    elif all(option.keys() == {"type"} and isinstance(option["type"], str) for option in options):
        names = sorted({option["type"] for option in options})
        schema = {"type": names[0] if len(names) == 1 else names}
    else:
        schema = {"anyOf": options}
    return {**schema, "nullable": True} if type(None) in kinds else schema


def schema_of(hint):
    """Returns the schema of a type hint. Raises TypeError for a type that JSON has not."""
    origin, kinds = typing.get_origin(hint), typing.get_args(hint)
    if origin is None and isinstance(hint, type) and issubclass(hint, enum.Enum):
        return schema_of_values([member.value for member in hint], f"the enum {hint.__name__}")
    if origin is None and hint in PLAIN:
        return dict(PLAIN[hint])
    if origin in (typing.Union, types.UnionType):
        return schema_of_union(kinds)
    if origin is typing.Literal:
        return schema_of_values(list(kinds), "a Literal")
    if origin is list:
        return {"type": "array", "items": schema_of(kinds[0])}
    if origin is tuple and len(kinds) > 1 and ... not in kinds:
        return {"type": "array", "prefixItems": [schema_of(kind) for kind in kinds]}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(kinds[1])}
    shown = hint.__name__ if isinstance(hint, type) and origin is None else str(hint).replace("typing.", "")
    raise TypeError(f"{shown} has no JSON schema; expected int, float, str, bool, Any, Enum, Literal, list, tuple, dict or a union of them")


# ---- docstrings

def until(text, words):
    """Returns a text up to the first of some words, without the space before it."""
    return text[:min((at for at in map(text.find, words) if at >= 0), default=len(text))].rstrip()


def sections_of(text):
    """Returns a docstring's description, its block `Args:` and its block `Returns:`; None for a block that it has not."""
    args, returns = (re.search(rf"\n\s*{word}:\n", text) for word in ("Args", "Returns"))
    return (until(text, ("Args:", "Returns:", "Raises:")), args and until(text[args.end():], ("Returns:", "Raises:")),
            returns and until(text[returns.end():], ("Raises:",)).lstrip())


def arguments_of(block):
    """Returns the description of each argument in a block `Args:`. Lines that are indented deeper continue a description."""
    found, indent, name = {}, None, None
    for line in filter(str.strip, (block or "").split("\n")):
        begin = ARGUMENT.match(line)
        if begin and not (name and begin[1] != indent and begin[1].startswith(indent)):
            indent, name = begin[1], begin[2]
            found[name] = [begin[3].strip()]
        elif name:
            found[name].append(line.strip())
    return {name: " ".join(filter(None, lines)) for name, lines in found.items()}


def described(schema, text):
    """Returns the schema with a description; `(choices: [...])` at its end becomes the enum."""
    choices = CHOICES.search(text)
    if choices:
        values = [value.strip() if isinstance(value, str) else value for value in json.loads(choices[1])]
        return {**schema, "enum": values, "description": text[:choices.start()].strip()}
    return {**schema, "description": text}


def function_schema(function):
    """Returns the schema of a function or method in OpenAI's form. Raises Refused, with its file and line, if that cannot be made."""
    name, where = function.__name__, place_of(function)
    if not inspect.getdoc(function):
        raise Refused(f"{where}the tool {name} has no docstring; expected one that says what it does, with a block Args:")
    description, block, returns = sections_of(inspect.getdoc(function).strip())
    texts, parameters = arguments_of(block), inspect.signature(function).parameters
    if next(iter(parameters), "") in ("self", "cls"):
        parameters = {key: one for key, one in list(parameters.items())[1:]}
    properties = {}
    try:
        hints = typing.get_type_hints(function)
    except Exception as error:
        raise Refused(f"{where}the type hints of the tool {name} cannot be read: {error}") from None
    for key, one in parameters.items():
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD, one.POSITIONAL_ONLY):
            raise Refused(f"{where}the tool {name} takes {one}; expected parameters that have names")
        if key not in hints:
            raise Refused(f"{where}the parameter {key} of the tool {name} has no type hint")
        if key not in texts:
            raise Refused(f"{where}the docstring of the tool {name} does not describe {key} in a block Args:")
        try:
            properties[key] = described(schema_of(hints[key]), texts[key])
        except (TypeError, ValueError) as error:
            raise Refused(f"{where}the parameter {key} of the tool {name}: {error}") from None
    required = [key for key, one in parameters.items() if one.default is one.empty]
    schema = {"name": name, "description": description,
              "parameters": {"type": "object", "properties": properties, **({"required": required} if required else {})}}
    try:
        result = schema_of(hints["return"])
        schema["return"] = {**result, "description": returns} if returns is not None else result
    except (KeyError, TypeError):
        pass  # templates do not show it
    return {"type": "function", "function": schema}
