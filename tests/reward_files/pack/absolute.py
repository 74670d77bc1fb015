from pack.util import same

from . import util


def exact(completions, answer, **kwargs):
    assert util.same is same
    return [same(text, gold) for text, gold in zip(completions, answer)]
