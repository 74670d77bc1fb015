"""Reward functions that exit, that take other arguments, and whose results are out of range or cannot be shown."""
import sys


class Shy:
    def __repr__(self):
        raise RuntimeError("not for you")


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def of_two(solution_str, ground_truth):
    return 1.0


def on_wrong(data_source, solution_str, ground_truth, extra_info=None):
    if solution_str == "out":
        sys.exit("bye")
    return {"score": float(solution_str == ground_truth), 5: 1.0}


def huge(completions, **_):
    return [10**400 if text == "int" else 1e300 if text == "float" else 1.0 for text in completions]


def shy(completions, **_):
    return Shy()


def mute(completions, **_):
    raise Mute


async def late(args, sample):
    raise ValueError


def with_messages(prompts, completions):
    return [float(prompt[-1]["content"] == "one?") for prompt in prompts]
