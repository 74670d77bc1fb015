"""OpenEnv's servers, by their WebSocket: a turn is the text of an action, or calls the server's tools."""
import contextlib
import json
import urllib.request

from qrl_reward_file import Refused, number

from .talk import Environment
from .tools import Tools, error_text, shown_tools
from .websocket import WebSocket

MARKS = ("done", "reward", "metadata")


class Session:
    """Holds a connection, which is one environment of the server."""

    def __init__(self, address):
        self.socket = WebSocket("ws" + address.removeprefix("http") + "/ws")

    def ask(self, kind, data):
        """Returns {observation, reward, done}."""
        with contextlib.suppress(BrokenPipeError):  # the server has said why, and closed
            self.socket.send(json.dumps({"type": kind, "data": data}))
        answer = json.loads(self.socket.receive())
        if answer["type"] != "error":
            return answer["data"]
        code, text = answer["data"].get("code"), answer["data"].get("message")
        if code == "CAPACITY_REACHED":
            raise ConnectionError(f"the server plays no more conversations at once ({text}): set environment.sessions and environment.workers "
                                  "so that their product is at most the server's max_concurrent_envs")
        raise ValueError(f"the server answered {code}: {text}; {json.dumps(answer['data'].get('errors', ''))[:300]}")


def only_text(schema, what, option, option_name):
    """Returns the name of the field that holds a text: the given one, else the only one of that type."""
    fields = {name: one for name, one in schema.get("properties", {}).items() if name not in MARKS}
    texts = [name for name, one in fields.items() if one.get("type") == "string"]
    if option is not None and option not in fields:
        raise Refused(f"openenv: the {what} has no field {option}; it has {', '.join(fields) or 'none'}")
    if option is None and len(texts) > 1:
        raise Refused(f"openenv: the {what} has several texts, {', '.join(texts)}: choose one with ?{option_name}=NAME")
    return option or (texts[0] if texts else None)


class Player:
    def __init__(self, server, hello):
        self.server, self.hello = server, hello
        self.session, server.spare = server.spare, None  # a server may have one alone, and is slow to see that it was closed

    def begin(self, start):
        if self.session is None:
            self.session = Session(self.server.address)
        self.tools = Tools(self.server.schemas, self.call, self.hello)
        columns = {key: value for key, value in start["row"].items() if key not in ("prompt", "ground_truth", "data_source")}
        self.is_done = False
        first = self.session.ask("reset", {"seed": start["seed"], **columns})
        return self.text_of(first) or None

    def text_of(self, data):
        """Returns an observation as text: its one text, else its fields as JSON; "" for none."""
        fields = {key: value for key, value in data["observation"].items() if key not in MARKS and value is not None}
        if self.server.observation is not None:
            return str(fields.get(self.server.observation, ""))
        return json.dumps(fields, ensure_ascii=False) if fields and not self.server.schemas else ""

    def note(self, data):
        self.reward += number(data["reward"]) or 0.0
        self.is_done = self.is_done or bool(data["done"])

    def call(self, name, arguments):
        data = self.session.ask("step", {"type": "call_tool", "tool_name": name, "arguments": arguments})
        self.note(data)
        if data["observation"].get("error"):
            raise ValueError(data["observation"]["error"].get("message"))
        result = data["observation"].get("result")
        content = result.get("data", result) if isinstance(result, dict) else result
        return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)

    def answer(self, text):
        if self.server.schemas:
            return self.tools.answer(text)
        try:
            data = self.session.ask("step", {self.server.action: text})
        except ValueError as error:  # an action that the server does not take
            return {"observation": error_text(error), "calls": [{"name": "", "arguments": None, "error": str(error)}]}
        self.note(data)
        return {"observation": self.text_of(data)}

    def step(self, message):
        self.reward = 0.0  # of this turn
        # A text is an action even in the last turn; calls of that turn are not made.
        answer = None if message["last"] and self.server.schemas else self.answer(message["text"])
        scores = {"scores": {"reward": self.reward}}
        if answer is None or self.is_done or message["last"]:
            calls = {"calls": answer["calls"]} if answer and "calls" in answer else {}
            return {"done": True, **calls, **scores}
        return {**answer, **scores}


class Server:
    def __init__(self, address, action, observation):
        self.address, self.spare = address, None
        try:
            with urllib.request.urlopen(f"{address}/schema", timeout=30) as answer:
                schema = json.load(answer)
        except (OSError, ValueError) as error:
            raise Refused(f"openenv: {address}/schema cannot be read: {error}; expected the address of a server that runs, http://HOST:PORT") from None
        takes_calls = {"tool_name", "arguments"} <= schema["action"].get("properties", {}).keys() or not schema["action"].get("properties")
        self.schemas = self.listed_tools() if takes_calls else {}
        self.action = None if self.schemas else only_text(schema["action"], "action", action, "action")
        self.observation = observation if self.schemas else only_text(schema["observation"], "observation", observation, "observation")
        if not self.schemas and self.action is None:
            raise Refused(f"openenv: the action has no text to put a turn in; it has {', '.join(schema['action'].get('properties', {})) or 'no fields'}")

    def listed_tools(self):
        self.spare = Session(self.address)
        self.spare.ask("reset", {})
        listed = self.spare.ask("step", {"type": "list_tools"})["observation"].get("tools", [])
        return {tool["name"]: {"type": "function", "function": {"name": tool["name"], "description": tool.get("description", ""),
                                                                "parameters": tool["input_schema"]}} for tool in listed}


def openenv(hello, address, *, action=None, observation=None):
    server = Server(address.rstrip("/").replace("ws", "http", 1) if address.startswith("ws") else address.rstrip("/"), action, observation)
    return Environment({"scores": {"reward": 1}, **shown_tools(server.schemas, hello)}, lambda: Player(server, hello))
