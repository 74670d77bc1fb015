"""Plays environments and tools for qrl-train.

    environment: {command: [python3, -m, qrl_env, "trl:envs.py:Calculator"]}

trl:FILE:FACTORY[,TOOL…][:REWARD,…]   TRL's environment_factory: a class with reset whose public methods are tools.
                                      Further tools and reward functions are as TRL has them.
                                      With ?rows=N its reset gives the prompt, and the run needs no data.
tools:FILE[:TOOL,…][:REWARD,…]        Functions as tools; without names all public ones.
reasoning_gym:NAME[?size=N&val=N&…]   Rows and scores of a generator.
skyrl_gym:ID[?…], :FILE.py:CLASS[?…]  An environment of SkyRL-gym, with the fields of its configuration.
openrlhf:FILE                         OpenRLHF's AgentInstance or AgentExecutor.
openenv:URL[?action=…&observation=…]  A server of OpenEnv.
verl_tools:FILE.yaml[,FILE.py]        veRL's BaseTool classes and @function_tool functions.
                                      With ?score=tool_reward the environment judges by the rewards of the calls.

Tools may be async and may print (it goes to standard error). The model sees an exception of a tool; any other is an error of the
conversation. `serve` is for an environment of your own (docs/howto/environments.md).
"""
import json

from qrl_reward import open_channel
from qrl_reward_file import Refused, traceback_of, words_of

from .talk import Environment, Threads, Worker, talk

__all__ = ["serve"]


class OwnPlayer:
    """Plays an environment of the user: reset(row) -> text or None, step(turn) -> text or an answer of the protocol."""

    def __init__(self, kind):
        self.own = kind()

    def begin(self, start):
        reset = getattr(self.own, "reset", None)
        return reset(start) if reset else None

    def step(self, message):
        answer = self.own.step(message)
        return answer if isinstance(answer, dict) else {"observation": answer}


def run(make):
    """Greets the run, and talks to it with the environment that make(hello) returns."""
    source, write = open_channel()
    line = source.readline()
    if not line:
        return
    hello = json.loads(line)["hello"]
    Threads.first = Worker() if hello["sessions"] > 1 else None
    try:
        environment = make(hello)
    except Refused as error:
        write({"error": str(error)})
    except Exception as error:
        trace = traceback_of(error)
        write({"error": words_of(error) + (f"\n{trace}" if trace else "")})
    else:
        talk(source, write, environment)


def serve(environment, scores=None, rows=None):
    """Plays a class, with an instance for each of the conversations that run at once. `scores` has the names and weights of its scores.

    rows: {"train": function of an index, "val": …} with their number, as {"train": (1000, function)}, if it owns its rows.
    """
    ready = {"scores": scores, "rows": {name: count for name, (count, _) in rows.items()} if rows else None}
    run(lambda hello: Environment(ready, lambda: OwnPlayer(environment), rows and (lambda name, index: rows[name][1](index))))
