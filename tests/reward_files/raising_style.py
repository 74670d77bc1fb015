"""Reward functions that raise: on an empty answer, for an absent column, for an absent entry."""


def exact(completions, answer, **_):
    return [float(text.split()[0] == gold) for text, gold in zip(completions, answer)]


def needs(completions, solution):
    return [float(text == gold) for text, gold in zip(completions, solution)]


def of_extra(data_source, solution_str, ground_truth, extra_info=None):
    return float(solution_str == extra_info["gold_answer"])
