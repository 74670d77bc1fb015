"""Reward functions as NeMo-RL has them."""


def exact(ground_truth: str, response: str):
    return float(response == ground_truth), response == ground_truth


def short(ground_truth: str, response: str):
    return float(len(response) < 3), None
