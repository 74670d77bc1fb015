"""Environments in TRL's style: a class for environment_factory, tools, and reward functions that read `environments`."""
import asyncio
import random
import sqlite3
import threading


class Adder:
    """Adds to a total; get_reward compares it with the row's answer."""

    made = 0

    def __init__(self):
        print("an Adder is made")
        Adder.made += 1
        self.database = sqlite3.connect(":memory:")  # of the thread that made it

    def reset(self, answer=0, **row) -> str | None:
        self.database.execute("SELECT 1")
        assert "environment" not in row
        self.total, self.answer, self.row = 0, int(answer), row
        return row.get("hint")

    def add(self, value: int) -> str:
        """Adds to the total.

        Args:
            value: What to add.
        """
        print("adding", value)
        self.total += value
        return f"total {self.total}"

    async def wait(self, seconds: float) -> list:
        """Waits.

        Args:
            seconds: How long.
        """
        await asyncio.sleep(seconds)
        return [{"type": "text", "text": "waited "}, {"type": "text", "text": str(seconds)}]

    def fail(self, text: str) -> str:
        """Raises an error.

        Args:
            text: What it says.
        """
        raise ValueError(text)

    def get_reward(self) -> float:
        return float(self.total == self.answer)

    def _hidden(self):
        return 1


class Silent:
    def reset(self):
        return None

    def thread(self) -> str:
        """Says whether this is the main thread."""
        return str(threading.current_thread() is threading.main_thread())

    def large(self) -> str:
        """Returns ten megabytes."""
        return "x" * 10_000_000

    def odd(self) -> str:
        """Returns half of a surrogate pair."""
        return "a\ud800b"

    def drawn(self) -> str:
        """Returns a random number."""
        return str(self.random.random())


class Seeded(Silent):
    def reset(self, seed):
        self.random = random.Random(seed)


class Undescribed:
    def reset(self):
        return None

    def tool(self, x: int):
        return x


class Failing:
    def reset(self, **_):
        raise RuntimeError("no server")


class Asynchronous:
    async def get_reward(self):
        return None

    def reset(self, **_):
        self.done = False


def search(query: str) -> dict:
    """Searches.

    Args:
        query: What for.
    """
    return {"found": query}


def add(value: int) -> int:
    """Has the name of a method.

    Args:
        value: A number.
    """
    return value


def totals(environments, completions, answer, **_):
    return [environment.total + len(completion) / 100 for environment, completion in zip(environments, completions)]


def said(completions, prompts):
    return [len(completions[0][-1]["content"])]


def ids(completion_ids):
    return [0.0]


routed = {"adder": Adder, "failing": Adder}
mixed = {"adder": Adder, "silent": Silent}
both = [search]
