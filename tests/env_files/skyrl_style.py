"""Environments in SkyRL-gym's style."""
import dataclasses
from typing import Any, Union


@dataclasses.dataclass
class EchoConfig:
    bonus: float = 0.5
    edits: bool = False


class Echo:
    def __init__(self, env_config: Union[EchoConfig, dict], extras: dict[str, Any] = {}):
        self.config, self.extras, self.turns = env_config, extras, 0
        self.answer = extras["reward_spec"]["ground_truth"]

    def init(self, prompt):
        prompt[-1] = {**prompt[-1], "content": prompt[-1]["content"] + " Go."}
        return prompt, {}

    def step(self, action):
        self.turns += 1
        is_right = action == self.answer
        done = is_right or self.turns >= self.extras["max_turns"]
        return {"observations": [] if done else [{"role": "user", "content": "again"}, {"role": "user", "content": action}],
                "reward": 1.0 if is_right else self.config.bonus if done else -0.25, "done": done, "metadata": {},
                **({"postprocessed_action": action + "!"} if self.config.edits else {})}

    def close(self):
        print("closed after", self.turns)


class Rewriting(Echo):
    def init(self, prompt):
        return [{"role": "system", "content": "other"}, *prompt], {}
