"""TRL's completion_ids: in **kwargs, as a parameter, and not taken."""


def in_kwargs(completions, **kwargs):
    return [float(len(ids)) for ids in kwargs["completion_ids"]]


def as_parameter(completions, completion_ids):
    return [float(len(ids)) for ids in completion_ids]


def without(completions):
    return [0.0 for _ in completions]
