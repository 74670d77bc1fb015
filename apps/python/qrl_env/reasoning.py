"""Rows and scores of reasoning-gym's generators."""
import inspect
import re

from qrl_reward_file import Refused, number, read_result

from .talk import Environment

ANSWER = re.compile(r"<answer>\s?(.*?)\s?</answer>", re.DOTALL)


def answer_of(text):
    """Returns what is between the last <answer> and </answer>; without them the whole text after its thought."""
    found = ANSWER.findall(text)
    return found[-1].strip() if found else text.rpartition("</think>")[2].strip()


class Player:
    def __init__(self, dataset):
        self.dataset = dataset

    def begin(self, start):
        # Made again: a row that went through JSON has lists for tuples, and texts for the numbers of its keys.
        self.entry = self.dataset[start["row"]["index"]]

    def step(self, message):
        answer = answer_of(message["text"])
        score = read_result(type(self.dataset).score_answer, self.dataset.score_answer(answer, self.entry), "a number from 0 to 1", number)
        return {"done": True, "scores": {"score": score}, "extracted": answer}


def reasoning_gym(hello, name, *, size=1000, val=100, seed=None, **options):
    try:
        import reasoning_gym as package
    except ImportError as error:
        raise Refused(f"reasoning_gym:{name} needs the package reasoning-gym: pip install reasoning-gym ({error})") from None
    try:
        # Held-out rows follow the training rows: row i of a generator is a function of its seed and i.
        dataset = package.create_dataset(name, size=size + val, seed=hello["seed"] if seed is None else seed, **options)
    except Exception as error:
        known = inspect.signature(package.factory.DATASETS[name][1]).parameters if name in package.factory.DATASETS else package.factory.DATASETS
        raise Refused(f"reasoning_gym:{name}: {error}; known: {', '.join(sorted(known))}") from None

    def row(part, index):
        place = index + (size if part == "val" else 0)
        entry = dataset[place]
        return {"prompt": entry["question"], "ground_truth": str(entry["answer"]), "data_source": name, "index": place}

    return Environment({"scores": {"score": 1}, "rows": {"train": size, "val": val}}, lambda: Player(dataset), row)
