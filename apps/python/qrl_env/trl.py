"""TRL's environment_factory and tools, with its reward functions that read `environments`."""
import inspect

from qrl_reward import columns_of, trl_scores
from qrl_reward_file import Refused, load, load_module, number, parameters_of, place_of, read_result, rest_of

from .calls import calls_of, without_calls
from .talk import Environment, on_first_thread
from .tools import Tools, schemas_by_name, shown_tools, value_of

NOT_TOOLS = ("reset", "get_reward")


def methods_of(instance):
    """Returns the tools of an environment: the public methods of its class, in TRL's order."""
    names = [name for name, _ in inspect.getmembers(type(instance), inspect.isfunction)]
    return [getattr(instance, name) for name in names if name not in NOT_TOOLS and not name.startswith("_")]


class Player:
    """Plays conversations with one instance of each environment that its rows name."""

    def __init__(self, setup):
        self.setup = setup
        self.instances, setup.spare = setup.spare, {}  # those that were made to look at

    def instance_of(self, name):
        if name not in self.instances:
            self.instances[name] = self.setup.factories[name]()
        return self.instances[name]

    def begin(self, start):
        columns = {"prompt": [{"role": "user", "content": start["prompt"]}], **columns_of(start)}
        setup, self.start, self.columns, self.messages = self.setup, start, columns, []
        name = columns.get("environment") if setup.is_routed else None
        if name not in setup.factories:
            raise ValueError(f"expected one of {', '.join(map(str, setup.factories))} in the row's column environment, got {name!r}")
        self.environment = self.instance_of(name)
        methods = methods_of(self.environment) if self.environment is not None else []
        functions = {function.__name__: function for function in [*setup.tools, *methods]}
        self.tools = Tools(setup.schemas, lambda tool, arguments: functions[tool](**arguments), setup.hello)
        if self.environment is None:
            return None
        return read_result(self.environment.reset, value_of(self.environment.reset(**self.arguments_of_reset(columns))), "a text or None", as_text)

    def arguments_of_reset(self, columns):
        """Returns the row's columns that reset takes. A parameter `seed` gets the conversation's if the row has none."""
        reset = self.environment.reset
        given = {**({"seed": self.start["seed"]} if "seed" in parameters_of(reset) else {}), **columns}
        if self.setup.is_routed:
            given.pop("environment")
        return given if rest_of(reset) else {key: value for key, value in given.items() if key in parameters_of(reset)}

    def step(self, message):
        text = message["text"]
        answer = None if message["last"] else self.tools.answer(text)
        said = {"role": "assistant", "content": without_calls(text)}
        calls = [{"name": call.name, "arguments": call.arguments} for call in calls_of(text, self.setup.schemas) if call.name]
        if calls:
            said["tool_calls"] = [{"type": "function", "function": call} for call in calls]
        self.messages.append(said)
        if answer:
            self.messages += [{"role": "tool", "name": name, "content": content} for name, content in self.tools.shown]
        return answer or self.end(message)

    def end(self, _):
        return {"done": True, **({"scores": self.scores()} if self.setup.scores else {})}

    def scores(self):
        scores = dict.fromkeys(self.setup.scores)
        own = getattr(type(self.environment), "get_reward", None)
        if own:
            scores[type(self.environment).__name__] = read_result(own, value_of(self.environment.get_reward()), "a finite number or None", number)
        columns = {key: value for key, value in self.columns.items() if key != "prompt"}
        for name, function in self.setup.rewards.items():
            lists = {"prompts": [self.columns["prompt"]], "completions": [self.messages], "environments": [self.environment]}
            scores[name], = trl_scores(function, self.start, columns, lists, value_of)
        return scores


def as_text(value):
    if isinstance(value, list) and all(isinstance(part, dict) and part.get("type") == "text" for part in value):
        return "".join(part["text"] for part in value)
    if value is not None and not isinstance(value, str):
        raise TypeError
    return value


class Setup:
    """Holds everything that the instances of a run share. `factories` has {None: factory}, or one for each value of the column `environment`."""

    def __init__(self, hello, factories, tools, rewards, is_routed=False):
        self.hello, self.factories, self.tools, self.rewards, self.is_routed = hello, factories, tools, rewards, is_routed
        self.spare = {name: on_first_thread(factory) for name, factory in factories.items()}
        self.source = next((type(instance).__name__ for instance in self.spare.values()), "")
        found, owners = {}, []
        for name, instance in self.spare.items():
            if instance is None:
                continue
            if not callable(getattr(instance, "reset", None)):
                raise Refused(f"{place_of(type(instance))}{type(instance).__name__} has no method reset")
            schemas = schemas_by_name([*tools, *methods_of(instance)])
            if found and schemas != found:
                raise Refused(f"{place_of(type(instance))}the environment {name} has other tools than {next(iter(self.spare))}; "
                              "all environments of a run have the same: make them one class that is routed by a column")
            found = schemas
            owners += [type(instance).__name__] if hasattr(instance, "get_reward") else []
        self.schemas = found or schemas_by_name(tools)
        self.scores = [*dict.fromkeys(owners), *rewards]

    def environment(self, rows=None):
        ready = {"scores": dict.fromkeys(self.scores, 1), **shown_tools(self.schemas, self.hello)}
        if rows is None:
            return Environment(ready, lambda: Player(self))
        if not isinstance(rows, int) or rows < 1:
            raise Refused(f"expected a number of rows from 1, got rows={rows}")
        return Environment({**ready, "rows": {"train": rows}}, lambda: Player(self), lambda _, index: {
            "prompt": [{"role": "user", "content": ""}], "data_source": self.source, "index": index})


def rewards_of(file, names):
    functions = {name: load(file, name) for name in names.split(",")} if names else {}
    for name, function in functions.items():
        one = parameters_of(function).get("completion_ids")
        if one and one.default is one.empty:
            raise Refused(f"{place_of(function)}{name} takes completion_ids, which an environment does not know: judge by reward.verifier instead")
    return functions


def tools_of(file, names):
    """Returns the functions of that names, in order; a name may be that of a list of functions."""
    module, found = load_module(file), []
    for name in names:
        value = getattr(module, name, None)
        if isinstance(value, (list, tuple)) and all(map(callable, value)):
            found += value
        else:
            found.append(load(file, name))
    return found


def trl(hello, file, names, rewards="", *, rows=None):
    first, *tools = names.split(",")
    value = getattr(load_module(file), first, None)
    factories = value if isinstance(value, dict) else {None: load(file, first)}
    return Setup(hello, factories, tools_of(file, tools), rewards_of(file, rewards), isinstance(value, dict)).environment(rows)


def tools(hello, file, names="", rewards=""):
    """Returns an environment of functions. Without names they are the public functions that the file defines."""
    module = load_module(file)
    own = [name for name, value in vars(module).items() if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")]
    functions = tools_of(file, names.split(",") if names else [name for name in own if name not in rewards.split(",")])
    if not functions:
        raise Refused(f"expected functions in {file}, got none")
    return Setup(hello, {None: lambda: None}, functions, rewards_of(file, rewards)).environment()
