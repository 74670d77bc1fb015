"""veRL's tools: BaseTool classes that a YAML file lists, and functions marked with @function_tool."""
import asyncio
import importlib
import inspect
import os
import sys

from qrl_reward_file import Refused, load_module, number

from .standins import stand_in
from .talk import Environment
from .tools import Tools, shown_tools


def native_tools(file):
    """Returns the BaseTool instances that a YAML file lists."""
    try:
        import yaml
    except ImportError:
        raise Refused(f"verl_tools:{file} needs PyYAML: pip install pyyaml") from None
    if not os.path.isfile(file):
        raise Refused(f"expected a YAML file, got {file!r}, which is not in {os.getcwd()}")
    with open(file, encoding="utf-8") as stream:
        listed = (yaml.safe_load(stream) or {}).get("tools") or []
    sys.path.append(os.path.dirname(os.path.abspath(file)))
    schema_class, tools = importlib.import_module("verl.tools.schemas").OpenAIFunctionToolSchema, []
    for one in listed:
        name, config = one["class_name"], one.get("config") or {}
        if config.get("type", "native") != "native":
            raise Refused(f"{file}: {name} has the type {config['type']}; expected native")
        module, _, kind = name.rpartition(".")
        try:
            found = getattr(importlib.import_module(module), kind)
        except (ImportError, AttributeError, ValueError) as error:
            raise Refused(f"{file}: {name} cannot be imported: {error}") from None
        schema = one.get("tool_schema")
        tools.append(found(config=config, tool_schema=schema_class.model_validate(schema) if schema else None))
    return tools


def function_tools(file):
    registry = importlib.import_module("verl.tools.function_tool").FUNCTION_TOOL_REGISTRY
    load_module(file)
    return [registry[name] for name in sorted(registry)]  # as veRL does


def loaded(files):
    """Returns {name: tool} of all files, in order."""
    tools = {}
    for file in files:
        for tool in function_tools(file) if file.endswith(".py") else native_tools(file):
            if tool.name in tools:
                raise Refused(f"{file}: two tools are named {tool.name}")
            tools[tool.name] = tool
    if not tools:
        raise Refused(f"expected tools in {', '.join(files)}, got none: list BaseTool classes in a YAML file, or mark functions with @function_tool")
    return tools


def error_text(name, error):
    return f"Error executing tool '{name}': {error}"  # as veRL writes it


class Player:
    def __init__(self, tools, schemas, hello, score):
        self.tools, self.schemas, self.hello, self.score = tools, schemas, hello, score

    def begin(self, start):
        row = start["row"]
        self.kwargs = row.get("tools_kwargs") or (row.get("extra_info") or {}).get("tools_kwargs") or {}
        chosen = (row.get("extra_info") or {}).get("tool_selection")
        schemas = {name: schema for name, schema in self.schemas.items() if not chosen or name in chosen}
        self.rewards = 0.0
        self.player = Tools(schemas, self.run, self.hello, error_text)

    async def run(self, name, arguments):
        """Returns the text of a call's result. veRL makes an instance of a BaseTool for each call."""
        tool = self.tools[name]
        if hasattr(tool, "fn"):
            normal = importlib.import_module("verl.tools.function_tool").normalize_function_tool_return
            is_async = inspect.iscoroutinefunction(tool.fn)
            response, reward, _ = normal(await (tool.fn(**arguments) if is_async else asyncio.to_thread(tool.fn, **arguments)))
        else:
            kwargs, instance = self.kwargs.get(name) or {}, None
            try:
                instance, _ = await tool.create(create_kwargs=kwargs.get("create_kwargs", {}))
                response, reward, _ = await tool.execute(instance, arguments, agent_data=None)
            finally:
                if instance:
                    await tool.release(instance)
        if response.image or response.video:
            raise ValueError("the tool returned an image or a video; models are text only")
        self.rewards += number(reward) or 0.0
        return response.text or ""

    def step(self, message):
        return (None if message["last"] else self.player.answer(message["text"])) or self.end(message)

    def end(self, _):
        return {"done": True, **({"scores": {"tool_reward": self.rewards}} if self.score else {})}


def verl_tools(hello, files, *, score=None):
    if score not in (None, "tool_reward"):
        raise Refused(f"verl_tools: expected score=tool_reward or no score, got score={score}")
    notes = stand_in("verl")
    tools = loaded(files.split(","))
    schemas = {name: tool.tool_schema.model_dump(exclude_unset=True, exclude_none=True) for name, tool in tools.items()}
    ready = {"scores": {"tool_reward": 1} if score else {}, "notes": notes, **shown_tools(schemas, hello)}
    return Environment(ready, lambda: Player(tools, schemas, hello, score))
