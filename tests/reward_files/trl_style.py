"""Reward functions as TRL has them: of texts, of messages, with columns, with None, async."""
import re


def length_reward(completions, **kwargs):
    return [len(text) / 10 for text in completions]


def answer_reward(prompts, completions, answer, completion_ids, **kwargs):
    print(prompts)
    return [1.0 if text == gold and len(ids) == 3 else 0.0 for text, gold, ids in zip(completions, answer, completion_ids)]


def think_reward(completions, **kwargs):
    texts = [completion[0]["content"] for completion in completions]
    return [1.0 if re.match(r"^<think>.*</think>", text) else None for text in texts]


async def best_of_group(completions):
    best = max(len(text) for text in completions)
    return [float(len(text) == best) for text in completions]


def sometimes(completions, **kwargs):
    return [float("nan") if len(text) == 1 else float("inf") if text == "beyond" else 1.0 for text in completions]


def from_step(completions, trainer_state, **kwargs):
    return [float(trainer_state.global_step) for _ in completions]
