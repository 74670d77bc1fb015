"""Imports relatively, in a folder without __init__.py."""
from .util import same


def exact(completions, answer, **kwargs):
    return [same(text, gold) for text, gold in zip(completions, answer)]
