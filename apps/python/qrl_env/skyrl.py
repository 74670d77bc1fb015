"""SkyRL-gym's environments: those it registers, and classes of a file."""
import dataclasses
import importlib
import types
import typing

from qrl_reward_file import Refused, load, number, read_result

from .talk import Environment


def config_of(kind, values):
    """Returns the configuration of an environment's class: the data class that its type hints name, else an object with these values."""
    try:
        hint = typing.get_type_hints(kind.__init__).get("env_config")
    except Exception:
        hint = None  # a name that only a type checker has
    options = [option for option in (hint, *typing.get_args(hint)) if isinstance(option, type) and dataclasses.is_dataclass(option)]
    if not options:
        return types.SimpleNamespace(**values)
    known = [field.name for field in dataclasses.fields(options[0])]
    unknown = sorted(values.keys() - set(known))
    if unknown:
        raise Refused(f"{kind.__name__} has no option {unknown[0]}; it has {', '.join(known)}")
    return options[0](**values)


class Player:
    def __init__(self, make, hello):
        self.make, self.hello = make, hello

    def begin(self, start):
        gold = {"ground_truth": start["ground_truth"]}
        extras = {"max_turns": self.hello["max_turns"], "reward_spec": gold, "reward_model": gold, "extra_info": {},
                  "data_source": start["data_source"], **{key: value for key, value in start["row"].items() if key != "prompt"}}
        prompt = start["row"].get("prompt")
        prompt = prompt if isinstance(prompt, list) else [{"role": "user", "content": start["prompt"]}]
        self.environment = self.make(extras)
        result, _ = self.environment.init([dict(message) for message in prompt])
        return appended(prompt, result)

    def step(self, message):
        result = read_result(self.environment.step, self.environment.step(message["text"]), 'a dict with "observations", "reward" and "done"',
                             lambda result: {**result, "done": result["done"], "reward": number(result["reward"]),
                                             "observations": [dict(one) for one in result["observations"] or []]})
        if result.get("postprocessed_action") not in (None, message["text"]):
            raise ValueError("the environment edits what the model wrote (postprocessed_action); tokens are only appended here")
        scores = {"scores": {"reward": result["reward"]}}
        if result["done"]:
            self.environment.close()
            return {"done": True, **scores}
        return {**observed(result["observations"], self.hello), **scores}


def appended(prompt, result):
    """Returns what init appended to the last message; raises ValueError for another change."""
    *before, last = prompt
    if result and list(result[:-1]) == before and result[-1]["role"] == last["role"] and result[-1]["content"].startswith(last["content"]):
        return result[-1]["content"][len(last["content"]):] or None
    raise ValueError("init changed the prompt; it may only append text to its last message")


def observed(messages, hello):
    """Returns messages as an answer to a turn."""
    if hello["style"] == "continue" or not messages:
        return {"observation": "".join(message["content"] for message in messages)}
    return {"observations": [{"role": message["role"], "content": message["content"]} for message in messages]}


def skyrl_gym(hello, name, kind=None, **options):
    try:
        package = importlib.import_module("skyrl_gym")
    except ImportError as error:
        raise Refused(f"skyrl_gym:{name} needs the package skyrl-gym: pip install skyrl-gym ({error})") from None
    if kind:
        found = load(name, kind)
    else:
        registration = importlib.import_module("skyrl_gym.envs.registration")
        if name not in registration.registry:
            raise Refused(f"expected an environment of SkyRL-gym, or FILE.py:CLASS, got {name}; known: {', '.join(sorted(registration.registry))}")
        point = registration.registry[name].entry_point
        found = point if callable(point) else registration.load_env_creator(point)
    config = config_of(found, options)
    make = (lambda extras: found(env_config=config, extras=extras)) if kind else (lambda extras: package.make(name, env_config=config, extras=extras))
    return Environment({"scores": {"reward": 1}}, lambda: Player(make, hello))
