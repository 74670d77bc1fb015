"""Has the surface of reasoning-gym that qrl_env uses: one generator, whose metadata JSON does not keep."""
import types


class Config:
    def __init__(self, size=500, seed=None, largest=9):
        if largest < 2:
            raise ValueError("largest must be at least 2")
        self.size, self.seed, self.largest = size, seed, largest


class Sums:
    def __init__(self, config):
        self.config = config

    def __getitem__(self, index):
        numbers = (self.config.seed + index) % self.config.largest, index % 7
        return {"question": f"{numbers[0]} + {numbers[1]} = ?", "answer": str(sum(numbers)), "metadata": {"numbers": numbers, 1: "one"}}

    def score_answer(self, answer, entry):
        if answer is None or not isinstance(entry["metadata"]["numbers"], tuple) or entry["metadata"][1] != "one":
            return float("nan")
        return 1.0 if answer == entry["answer"] else 0.05 if entry["answer"] in answer else 0.0


factory = types.SimpleNamespace(DATASETS={"sums": (Sums, Config)})


def create_dataset(name, **config):
    if name not in factory.DATASETS:
        raise ValueError(f"Dataset '{name}' not registered")
    kind, config_kind = factory.DATASETS[name]
    return kind(config_kind(**config))
