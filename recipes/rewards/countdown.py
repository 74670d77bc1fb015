"""Countdown's rules as a reward in Python: the verdicts of `reward.verifier: countdown` on answers of plain arithmetic.

recipes/countdown_python.yaml trains with it. A program of your own needs the last lines alone: a function of a row, and the
names of its scores.
"""
import json
import re
from collections import Counter
from fractions import Fraction

from qrl_reward import serve

TOKEN = re.compile(r"[ \t\n\r\f\v]*(?:([0-9]+)|([-+*/()]))")


class Grammar(Exception):
    pass


class Expression:
    """sum = product {(+|-) product}, product = signed {(*|/) signed}, signed = {+|-} (number | "(" sum ")")."""

    def __init__(self, text):
        self.tokens, self.numbers, at = [], [], 0
        text = text.rstrip(" \t\n\r\f\v")
        while at < len(text):
            token = TOKEN.match(text, at)
            if token is None:
                raise Grammar
            self.tokens.append(token.group(1) or token.group(2))
            at = token.end()
        self.tokens.append("")
        self.at = 0
        self.value = self.sum()
        if self.tokens[self.at]:
            raise Grammar

    def take(self, wanted):
        if self.tokens[self.at] and self.tokens[self.at] in wanted:
            self.at += 1
            return self.tokens[self.at - 1]
        return ""

    def sum(self):
        value = self.product()
        while operator := self.take("+-"):
            other = self.product()
            if None not in (value, other):
                value = value + other if operator == "+" else value - other
            else:
                value = None
        return value

    def product(self):
        value = self.signed()
        while operator := self.take("*/"):
            other = self.signed()
            if None in (value, other) or (operator == "/" and other == 0):
                value = None  # without a value, and still to be in the grammar
            else:
                value = value * other if operator == "*" else value / other
        return value

    def signed(self):
        sign = 1
        while operator := self.take("+-"):
            sign = -sign if operator == "-" else sign
        if self.take("("):
            value = self.sum()
            if not self.take(")"):
                raise Grammar
        else:
            digits = self.tokens[self.at]
            if not digits.isdigit() or (len(digits) > 1 and digits[0] == "0"):
                raise Grammar
            self.at += 1
            self.numbers.append(int(digits))
            value = Fraction(int(digits))
        return None if value is None else sign * value


def answer_of(response):
    """What stands in the last <answer> that is closed."""
    close = response.rfind("</answer>")
    begin = response.rfind("<answer>", 0, max(close, 0))
    if close < 0 or begin < 0:
        return None
    begin += len("<answer>")
    return response[begin:response.find("</answer>", begin)].strip(" \t\n\r\f\v")


def judge(row):
    truth = row["ground_truth"]
    if isinstance(truth, str):
        truth = json.loads(truth)
    answer = answer_of(row["response"])
    outcome = "no_answer"
    if answer is not None:
        try:
            expression = Expression(answer)
            right = Counter(expression.numbers) == Counter(truth["numbers"]) and expression.value == truth["target"]
            outcome = "correct" if right else "wrong"
        except Grammar:
            pass
    return {"scores": {"correct": outcome == "correct", "format": outcome == "wrong"}, "outcome": outcome, "extracted": answer}


if __name__ == "__main__":
    serve(judge, scores={"correct": 1, "format": 0})
