"""Reward functions that read fields by name: of their row, and such as no row has."""


def columns(completions, answer, bonus=2, **kwargs):
    assert kwargs.get("level") is None
    return [float(len(ids) * bonus) for ids in kwargs["completion_ids"]]


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    assert extra_info.get("level") is None
    return float(solution_str == ground_truth == extra_info["gold"])


async def custom(args, sample):
    if args.rm_type:
        return 0.0
    return float(sample.response == sample.label)
