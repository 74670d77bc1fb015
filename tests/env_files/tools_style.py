"""Functions as tools."""
import math as _math
import signal as _signal


def root(x: float) -> float:
    """Takes a square root.

    Args:
        x: A number.
    """
    return _math.sqrt(x)


async def twice(text: str) -> str:
    """Repeats a text.

    Args:
        text: A text.
    """
    return text * 2


def limited() -> list:
    """Has a time limit, and returns rows."""
    _signal.signal(_signal.SIGALRM, _signal.SIG_DFL)
    return [(1, 2)]


def seen(completions, prompts, **_):
    """Counts the right messages of a conversation that calls limited and root, and then root in its last turn."""
    first, rows, root, last = completions[0]
    calls = [call["function"]["name"] for call in first["tool_calls"] + last["tool_calls"]]
    return [(first["content"] == "Look.") + (rows["content"] == [(1, 2)] and root["content"] == "2.0") + (calls == ["limited", "root", "root"])]


def short(completions, **_):
    return [float(len(completion[-1]["content"]) < 10) for completion in completions]


def _helper():
    return 0
