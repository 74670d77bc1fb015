"""Reward functions that use slime's own types; the two classes here imitate slime's module."""
import enum
import sys
import types

module = sys.modules["slime.utils.types"] = types.ModuleType("slime.utils.types")


class Sample:
    class Status(enum.Enum):
        COMPLETED = "completed"
        TRUNCATED = "truncated"


module.Sample = Sample


async def by_enum(args, sample):
    assert isinstance(sample, Sample)
    assert sample.status in (Sample.Status.COMPLETED, Sample.Status.TRUNCATED)
    return float(sample.status == Sample.Status.TRUNCATED and Sample.Status.COMPLETED != sample.status)


async def by_name(args, sample):
    assert args.threshold is None
    assert (sample.status == "truncated") == (sample.status.name == "TRUNCATED") == (sample.status.value == "truncated")
    return float(sample.status == sample.Status.TRUNCATED)


async def unknown(args, sample):
    return sum(sample.rollout_log_probs)
