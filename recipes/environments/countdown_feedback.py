"""Countdown with feedback: a wrong answer is followed by its value, as the demonstrations write a failed attempt, and a further try.

recipes/environments/countdown_feedback.yaml trains with it. `reward.verifier` judges the last answer. With the argument `silent` the
environment says nothing, which shows the worth of a second try alone.
"""
import json
import pathlib
import sys

from qrl_env import serve

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "rewards"))
from countdown import Expression, Grammar, answer_of, judge  # noqa: E402

IS_SILENT = "silent" in sys.argv


def value_of(answer):
    """Returns the value of an answer; None if it has none."""
    try:
        return Expression(answer or "").value
    except Grammar:
        return None


class Feedback:
    def reset(self, row):
        truth = row["ground_truth"]
        self.truth = json.loads(truth) if isinstance(truth, str) else truth

    def step(self, turn):
        if turn["last"] or judge({"ground_truth": self.truth, "response": turn["text"]})["outcome"] == "correct":
            return {"done": True}
        value = value_of(answer_of(turn["text"]))
        return "" if IS_SILENT else f"={'' if value is None else value}~{self.truth['target']}?"  # "=15~36?"


if __name__ == "__main__":
    serve(Feedback)
