"""qrl-train trains language models with RL on samples of quantized weights. The program is qrl_train/bin/qrl-train.

    import qrl_train
    run = qrl_train.start("recipe.yaml", {"optim.lr": 1e-5})
    for row in run:
        print(row["step"], row["critic/score/mean"])
"""
from qrl_train.launch import Refused
from qrl_train.pins import VERSION as __version__
from qrl_train.runs import Run, RunError, metrics, rollouts, start

__all__ = ["Refused", "Run", "RunError", "__version__", "metrics", "rollouts", "start"]
