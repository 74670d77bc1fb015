from ..util import same


def exact(completions, answer, **kwargs):
    return [same(text, gold) for text, gold in zip(completions, answer)]
