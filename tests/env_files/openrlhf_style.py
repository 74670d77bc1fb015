"""An agent in OpenRLHF's style, as its examples have it."""
from openrlhf.utils.agent import AgentInstanceBase, MultiTurnAgentExecutor


class Value:  # a tensor of one number
    def __init__(self, value):
        self.value = value

    def tolist(self):
        return self.value

    def item(self):
        return self.value


class AgentInstance(AgentInstanceBase):
    def __init__(self, *args, **kwargs):
        self.steps = 0

    async def reset(self, states: dict, **kwargs):
        print("reset", states["label"])
        return {"observation": states["observation"] + " Begin."}

    async def step(self, states: dict, **kwargs):
        self.steps += 1
        is_right = states["action_text"].strip() == states["label"]
        return {"rewards": Value(0.25 if not is_right else 1.0), "scores": Value([float(is_right)]), "done": is_right,
                "environment_feedback": "" if is_right else f"\n\nHuman: no {len(states['observation_text'])}\n\nAssistant: ",
                "sampling_params": states.get("sampling_params", None), "extra_logs": {"steps": self.steps}}


class AgentExecutor(MultiTurnAgentExecutor):
    def __init__(self):
        super().__init__(AgentInstance)
