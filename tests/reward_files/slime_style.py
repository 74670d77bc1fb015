"""Reward functions as slime has them."""
import asyncio


async def custom_rm(args, sample):
    await asyncio.sleep(0)
    assert args.reward_key is None
    return {"score": float(sample.response == sample.label), "cut": sample.status == "truncated"}
