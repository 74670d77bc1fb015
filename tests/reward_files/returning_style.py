"""Reward functions that return what their trainers would not take."""


def a_float(completions, **_):
    return 0.5


def three(completions, **_):
    return [1.0, 1.0, 1.0]


def a_dict(completions, **_):
    return {"score": 1.0}


def a_text(data_source, solution_str, ground_truth, extra_info=None):
    return "good"


def no_score(data_source, solution_str, ground_truth, extra_info=None):
    return {"points": 1}


async def nothing(args, sample):
    return []


def a_list(ground_truth, response):
    return [1, True]
