"""Environments of their own, by qrl_env.serve: guess a number that the seed or the row has."""
import random
import sys

from qrl_env import serve


class Guess:
    def reset(self, row):
        self.number = random.Random(row["seed"]).randint(1, 9) if row["ground_truth"] is None else int(row["ground_truth"])
        return " From 1 to 9."

    def step(self, turn):
        if turn["text"] == "nan":
            return {"observation": "x", "calls": [{"name": "f", "arguments": {"x": float("nan")}}]}
        guess = int(turn["text"])
        if guess == self.number or turn["last"]:
            return {"done": True, "scores": {"correct": guess == self.number}, "extracted": turn["text"]}
        return "higher" if guess < self.number else "lower"


def row_of(index):
    return {"prompt": f"number {index}", "ground_truth": str(index % 9 + 1)}


serve(Guess, scores={"correct": 1}, rows={"train": (20, row_of), "val": (2, row_of)} if "rows" in sys.argv else None)
