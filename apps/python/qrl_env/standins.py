"""Stands in for the base classes of a trainer that is not installed, so that a file which imports them runs as it is."""
import importlib.abc
import importlib.util
import json
import sys
import types

from qrl_reward_file import Refused

from .schema import function_schema


# ---- veRL

class Schema(dict):
    """Has the fields of a nested dict as attributes, and pydantic's two methods."""

    @classmethod
    def model_validate(cls, value):
        return cls(value)

    def __getattr__(self, name):
        if name not in self:
            raise AttributeError(name)
        value = self[name]
        return Schema(value) if isinstance(value, dict) else value

    def model_dump(self, **_):
        return dict(self)


class ToolResponse:
    def __init__(self, text=None, image=None, video=None):
        self.text, self.image, self.video = text, image, video


class BaseTool:
    def __init__(self, config, tool_schema):
        self.config = config
        self.tool_schema = tool_schema or self.get_openai_tool_schema()
        self.name = self.tool_schema.function.name

    def get_openai_tool_schema(self):
        return self.tool_schema

    async def create(self, instance_id=None, **_):
        return instance_id or "", ToolResponse()

    async def execute(self, instance_id, parameters, **_):
        return ToolResponse(text="Updated the tool state."), 0.0, {}

    async def calc_reward(self, instance_id, **_):
        return 0.0

    async def release(self, instance_id, **_):
        pass


REGISTRY = {}


def function_tool(name=None, *, schema=None):
    def register(function):
        tool = schema or function_schema(function)
        known = name if isinstance(name, str) else function.__name__
        tool = Schema({**tool, "function": {**tool["function"], "name": known}})
        if known in REGISTRY and REGISTRY[known].fn is not function:
            raise ValueError(f"two tools are named {known}")
        REGISTRY[known] = types.SimpleNamespace(name=known, fn=function, tool_schema=tool)
        return function

    return register(name) if callable(name) else register


def normalize_function_tool_return(value):
    value = value if isinstance(value, tuple) else (value,)
    if not 1 <= len(value) <= 3:
        raise TypeError(f"expected (response, reward, metrics), got a tuple of {len(value)}")
    text, reward, metrics = [*value, None, None][:3]
    if not isinstance(text, ToolResponse):
        text = ToolResponse(text=json.dumps(text, ensure_ascii=False) if isinstance(text, dict) else str(text))
    return text, float(reward or 0.0), metrics or {}


def rollout_trace_op(function):
    return function


# ---- OpenRLHF

class AgentInstanceBase:
    async def reset(self, states, **_):
        return states


class AgentExecutorBase:
    async def execute(self, *_, **__):
        raise NotImplementedError


class MultiTurnAgentExecutor(AgentExecutorBase):
    def __init__(self, agent_instance_cls):
        self.agent_instance_cls = agent_instance_cls


MODULES = {
    "verl": {}, "verl.utils": {}, "verl.utils.rollout_trace": {"rollout_trace_op": rollout_trace_op},
    "verl.tools": {}, "verl.tools.base_tool": {"BaseTool": BaseTool, "ToolResponse": ToolResponse, "OpenAIFunctionToolSchema": Schema},
    "verl.tools.schemas": {"ToolResponse": ToolResponse, **dict.fromkeys((
        "OpenAIFunctionToolSchema", "OpenAIFunctionSchema", "OpenAIFunctionParametersSchema", "OpenAIFunctionPropertySchema"), Schema)},
    "verl.tools.function_tool": {"FUNCTION_TOOL_REGISTRY": REGISTRY, "function_tool": function_tool,
                                 "normalize_function_tool_return": normalize_function_tool_return},
    "openrlhf": {}, "openrlhf.utils": {}, "openrlhf.utils.agent": {
        "AgentInstanceBase": AgentInstanceBase, "AgentExecutorBase": AgentExecutorBase, "MultiTurnAgentExecutor": MultiTurnAgentExecutor}}


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of MODULES. It comes last, so that an installed trainer is found before."""

    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self, is_package=True) if name in MODULES else None

    def exec_module(self, module):
        def missing(name):
            raise AttributeError(f"{module.__name__} is not installed, and its stand-in has no {name}")

        module.__dict__.update(MODULES[module.__name__], __getattr__=missing)


def stand_in(package):
    """Makes `package` importable. Returns notes for the log: that it is stood in for, if it is not installed."""
    try:
        is_installed = importlib.util.find_spec(package) is not None
    except (ImportError, ValueError) as error:
        raise Refused(f"{package} cannot be imported: {error}") from None
    if is_installed:
        return []
    sys.meta_path.append(Finder())
    return [f"{package} is not installed: qrl_env stands in for the base classes that the file imports"]
