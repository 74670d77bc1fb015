"""OpenRLHF's agents: a file with an AgentInstance, or with a MultiTurnAgentExecutor that names one."""
import types

from qrl_reward_file import Refused, load_module, named, number, place_of, plain, read_result

from .standins import stand_in
from .talk import Environment
from .tools import value_of


def instance_class(module, base):
    """Returns the file's class of agents. Raises Refused for an executor with a loop of its own."""
    executor = getattr(module, "AgentExecutor", None)
    if executor is not None:
        if not issubclass(executor, base.MultiTurnAgentExecutor) or executor.execute is not base.MultiTurnAgentExecutor.execute:
            raise Refused(f"{place_of(executor)}AgentExecutor runs a loop of its own, which needs OpenRLHF's engine; "
                          "expected MultiTurnAgentExecutor with an AgentInstance")
        return executor().agent_instance_cls
    if not isinstance(getattr(module, "AgentInstance", None), type):
        raise Refused(f"expected a class AgentExecutor or AgentInstance in {module.__file__}")
    return module.AgentInstance


class Player:
    def __init__(self, kind):
        self.kind = kind

    def begin(self, start):
        self.agent, self.label = self.kind(), start["ground_truth"]
        self.sampling, self.total = types.SimpleNamespace(), 0.0
        states = value_of(self.agent.reset({"observation": start["prompt"], "label": self.label}))
        self.observed = read_result(self.agent.reset, states, 'a dict with a text "observation"', lambda states: states["observation"] + "")
        if not self.observed.startswith(start["prompt"]):
            raise ValueError("reset changed the prompt; it may only append text to it")
        return self.observed[len(start["prompt"]):] or None

    def step(self, message):
        result = value_of(self.agent.step({"observation_text": self.observed, "action_text": message["text"], "label": self.label,
                                           "sampling_params": self.sampling}))
        reward, scores, feedback, done = read_result(
            self.agent.step, result, 'a dict with "rewards", "environment_feedback" and "done"', lambda result: (
                number(result["rewards"]), result.get("scores"), result["environment_feedback"] + "", bool(plain(result["done"]))))
        if result.get("sampling_params") not in (None, self.sampling) or vars(self.sampling):
            raise ValueError("step changed sampling_params; the recipe sets them for all turns")
        self.total += reward
        self.observed += message["text"] + feedback
        answer = {"scores": {"reward": reward}}
        if not done and not message["last"]:
            return {**answer, "observation": feedback}
        answer["scores"]["score"] = self.total if scores is None else number(scores)
        extra = {name: value for name, value in (result.get("extra_logs") or {}).items() if name not in answer["scores"]}
        text = ", ".join(f"{name}={value}" for name, value in named({"score": 0.0, **extra}, "score").items() if name != "score")
        return {**answer, "done": True, **({"reason": text} if text else {})}


def openrlhf(hello, file):
    if hello["style"] != "continue":
        raise Refused("openrlhf: environment_feedback has the template's own marks in it; expected environment.style: continue, got chat")
    notes = stand_in("openrlhf")
    module = load_module(file)
    import openrlhf.utils.agent as base  # the package, or its stand-in
    kind = instance_class(module, base)
    return Environment({"scores": {"reward": 1, "score": 0}, "notes": notes}, lambda: Player(kind))
