"""Finds a model's tool calls in what it wrote: the forms of Hermes and Qwen3, of Qwen3.5, and of Llama 3.1."""
import dataclasses
import json
import math
import re

BLOCK = re.compile(r"<tool_call>(.*?)(?:(</tool_call>)|(?=<tool_call>)|\Z)", re.DOTALL)
XML = re.compile(r"\s*<function=([^\n>]+)>(.*)</function>\s*", re.DOTALL)
PARAMETER = re.compile(r"<parameter=([^>\n]+)>\s*(.*?)\s*</parameter>", re.DOTALL)
BETWEEN = re.compile(r"[\s;]*")
BARE = re.compile(r'\{\s*(?:"type"\s*:\s*"function"\s*,\s*)?"name"\s*:')


@dataclasses.dataclass
class Call:
    """Holds one call of a tool. With an error it could not be read, or it failed."""

    name: str
    arguments: dict | None
    error: str = ""

    def record(self):
        return {"name": self.name, "arguments": self.arguments, **({"error": self.error} if self.error else {})}


def broken(error):
    return Call("", None, error)


DECODER = json.JSONDecoder(parse_constant=lambda name: float("nan"))
MOST_DEEP, LARGEST = 16, 1e300


def check(value, depth=0):
    """Raises ValueError for a value that is nested too deep, or has a number that JSON or a double has not."""
    if depth > MOST_DEEP:
        raise ValueError(f"arguments may be nested {MOST_DEEP} deep")
    if isinstance(value, (int, float)) and not (math.isfinite(value) and abs(value) < LARGEST):
        raise ValueError("a number of the arguments is too large, or no number")
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        check(one, depth + 1)


def read_json(text, at):
    """Returns a JSON value of a text and the place after it. Raises ValueError with words for the model."""
    try:
        return DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        raise ValueError(f"a call must be JSON: {error.msg} at character {error.pos - at + 1}") from None
    except RecursionError:
        raise ValueError(f"arguments may be nested {MOST_DEEP} deep") from None


def call_of_object(value, key):
    """Returns the call of {"name": …, KEY: {…}}."""
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return broken(f'expected {{"name": ..., "{key}": {{...}}}} as a call')
    arguments = value.get(key)
    if not isinstance(arguments, dict):
        return broken(f'expected an object as "{key}" of the call of {value["name"]}')
    try:
        check(arguments)
    except (ValueError, OverflowError) as error:
        return broken(str(error))
    return Call(value["name"], arguments)


def types_of(schema):
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else [*kinds]
    for option in schema.get("anyOf", []):
        kinds += types_of(option)
    return [*kinds, "null"] if schema.get("nullable") else kinds


def cast(text, kind):
    """Returns the text as a value of a JSON type. Raises ValueError if it is none."""
    if kind == "integer" or kind == "number":
        value = float(text)
        is_whole = value.is_integer() and (kind == "integer" or "." not in text)
        if kind == "integer" and not is_whole or not math.isfinite(value):
            raise ValueError
        return int(text) if text.strip().lstrip("+-").isdigit() else int(value) if is_whole else value
    if kind == "boolean" and text.lower() in ("true", "false", "1", "0"):
        return text.lower() in ("true", "1")
    if kind == "null" and text in ("null", "None"):
        return None
    value, end = read_json(text, 0) if kind in ("object", "array") else (None, 0)
    if end < len(text) or isinstance(value, dict) != (kind == "object"):
        raise ValueError
    check(value)
    return value


def typed(text, schema):
    """Returns a value of Qwen3.5's form, whose type only the tool's schema says: the first type that the text is one of, else the text."""
    for kind in types_of(schema):
        try:
            return cast(text, kind)
        except (ValueError, OverflowError):
            pass
    return text


def call_of_xml(name, body, schemas):
    parameters = schemas.get(name, {}).get("function", {}).get("parameters", {}).get("properties", {})
    return Call(name, {key: typed(text, parameters.get(key, {})) for key, text in PARAMETER.findall(body)})


def call_of_block(body, is_closed, schemas):
    if not is_closed:
        return broken("a call has no </tool_call>")
    xml = XML.fullmatch(body)
    if xml:
        return call_of_xml(xml[1].strip(), xml[2], schemas)
    try:
        value, end = read_json(body.strip(), 0)
    except ValueError as error:
        return broken(str(error))
    if end < len(body.strip()):
        return broken("a call must be one JSON object")
    return call_of_object(value, "arguments")


def bare_calls(text):
    """Returns the calls of a text that is JSON objects one after another, as Llama 3.1 writes them; [] for other texts."""
    calls, at = [], 0
    while at < len(text):
        if not BARE.match(text, at):
            return calls  # text after the calls
        try:
            value, at = read_json(text, at)
        except ValueError as error:
            return [*calls, broken(str(error))]
        calls.append(call_of_object(value, "arguments" if "arguments" in value else "parameters"))
        at = BETWEEN.match(text, at).end()
    return calls


def after_thought(text):
    """Returns a text without its thought; "" if it is all thought."""
    thought, mark, rest = text.partition("</think>")
    return rest if mark else "" if text.lstrip().startswith("<think>") else thought


def calls_of(text, schemas):
    """Returns the calls in a text, in order. A thought holds no calls."""
    text = after_thought(text)
    blocks = BLOCK.findall(text)
    return [call_of_block(body, bool(close), schemas) for body, close in blocks] if blocks else bare_calls(text.strip())


def without_calls(text):
    """Returns what a text says beside its thought and its calls, as TRL's reward functions see it."""
    text = after_thought(text).partition("<tool_call>")[0].strip()
    return "" if bare_calls(text) else text
