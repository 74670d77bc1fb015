"""Plays the tools of a conversation, and shows them to the model."""
import asyncio
import inspect
import json
import sys
import threading

from qrl_reward_file import Refused, place_of, traceback_of

from .calls import Call, calls_of
from .schema import function_schema

MOST_CALLS = 64  # of a turn, as the protocol has it
SAMPLES = {"integer": 3, "number": 2.5, "string": "text", "boolean": True, "array": [], "object": {}, "null": None}


class Loop:
    """Runs coroutines of all conversations in one event loop, on a thread of its own."""

    loop, lock = None, threading.Lock()

    @classmethod
    def wait(cls, awaitables):
        """Returns the results of awaitables that run at once; an exception is a result."""
        with cls.lock:
            if cls.loop is None:
                cls.loop = asyncio.new_event_loop()
                threading.Thread(target=cls.loop.run_forever, daemon=True).start()

        async def all_of_them():
            return await asyncio.gather(*awaitables, return_exceptions=True)

        return asyncio.run_coroutine_threadsafe(all_of_them(), cls.loop).result()


def value_of(result):
    """Returns a result, that of a coroutine once it is done."""
    if inspect.isawaitable(result):
        result, = Loop.wait([result])
        if isinstance(result, BaseException):
            raise result
    return result


def text_of(content):
    """Returns a tool's result as text. A list of content parts is joined; a part that is no text raises ValueError."""
    parts = content if isinstance(content, list) else []
    if parts and all(isinstance(part, dict) and "type" in part for part in parts):
        other = [part["type"] for part in parts if part["type"] != "text"]
        if other:
            raise ValueError(f"a tool returned a part of the type {other[0]!r}; models are text only")
        return "".join(part["text"] for part in parts)
    return str(content)


def schemas_by_name(functions):
    """Returns {name: schema} of functions or methods. Raises Refused for two of one name."""
    schemas, places = {}, {}
    for function in functions:
        name = function.__name__
        if name in schemas:
            raise Refused(f"two tools are named {name}: {places[name]} and {place_of(function).rstrip(': ')}")
        schemas[name], places[name] = function_schema(function), place_of(function).rstrip(": ")
    return schemas


def example_call(schema):
    """Returns a call of a tool with a value for each required argument, as a model is shown it."""
    parameters = schema["function"].get("parameters", {})
    arguments = {}
    for key in parameters.get("required", []):
        one = parameters["properties"][key]
        kind = one.get("type", "string")
        arguments[key] = one["enum"][0] if one.get("enum") else SAMPLES[kind if isinstance(kind, str) else kind[0]]
    return json.dumps({"name": schema["function"]["name"], "arguments": arguments})


def system_text(schemas):
    """Returns what tells a model whose chat template has no tools how to call them."""
    shown = "\n".join(json.dumps({key: value for key, value in schema["function"].items() if key != "return"}) for schema in schemas)
    return (f"You can call these tools:\n{shown}\n\nTo call a tool, write one JSON object between <tool_call> and </tool_call>, like this:\n"
            f"<tool_call>\n{example_call(schemas[0])}\n</tool_call>\nThe next message has the result.")


def shown_tools(schemas, hello):
    """Returns the fields of ready that show tools to the model, by the role and style of the conversation."""
    if not schemas or hello["style"] == "continue":
        return {}
    if hello["role"] == "user":
        return {"system": system_text(list(schemas.values()))}
    return {"tools": list(schemas.values())}


def error_text(error):
    return str({"error": str(error)})  # as TRL writes it


class Tools:
    """Plays the tools of one conversation. `say_error(name, error)` words what a failed call returns."""

    traced = set()

    def __init__(self, schemas, run, hello, say_error=lambda name, error: error_text(error)):
        self.schemas, self.run, self.say_error = schemas, run, say_error
        self.is_joined = hello["style"] == "continue" or hello["role"] == "user"

    def outcome(self, call, result):
        """Returns the text that a call's result is shown as, and notes its error."""
        try:
            if isinstance(result, BaseException):
                raise result
            return text_of(result)
        except Exception as error:
            if "main thread" in str(error):
                raise  # no fault of the model: signals need sessions: 1
            call.error = f"{type(error).__name__}: {error}"
            trace = traceback_of(error)
            place = trace.rpartition("  File ")[2].partition(", in ")[0]  # the file and line where it was raised
            if trace and place not in self.traced:
                self.traced.add(place)
                print(trace, end="", file=sys.stderr)
            return self.say_error(call.name, error)

    def begin(self, call):
        """Returns a call's result, or its awaitable, or its exception."""
        if call.name not in self.schemas:
            return ValueError(f"Tool {call.name} not found.")
        try:
            return self.run(call.name, call.arguments)
        except MemoryError:
            raise
        except Exception as error:
            return error

    def answer(self, text):
        """Returns the answer to a turn that calls tools; None for one that calls none. `shown` then has the results as TRL shows them."""
        calls, self.shown = calls_of(text, self.schemas), []
        if len(calls) > MOST_CALLS:
            calls = [Call("", None, f"a turn may have {MOST_CALLS} calls, got {len(calls)}")]
        if not calls:
            return None
        results = [None if call.error else self.begin(call) for call in calls]
        waiting = [i for i, result in enumerate(results) if inspect.isawaitable(result)]
        for i, result in zip(waiting, Loop.wait([results[i] for i in waiting]) if waiting else []):
            results[i] = result
        texts = [error_text(call.error) if call.error else self.outcome(call, result) for call, result in zip(calls, results)]
        self.shown = [(call.name, result if isinstance(result, list) else content) for call, result, content in zip(calls, results, texts)]
        records = [call.record() for call in calls]
        if self.is_joined:
            return {"observation": "\n".join(texts), "calls": records}
        messages = [{"content": content, **({"name": call.name, "call": {"name": call.name, "arguments": call.arguments}} if call.name else {})}
                    for call, content in zip(calls, texts)]
        return {"observations": messages, "calls": records}
