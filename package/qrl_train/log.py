"""python -m qrl_train.log SERVICE RUN sends a run's metrics to Weights & Biases or MLflow, by the program's qrl_log.py."""
import runpy

from qrl_train.launch import PACKAGE

if __name__ == "__main__":
    runpy.run_path(str(PACKAGE / "share/qrl-train/python/qrl_log.py"), run_name="__main__")
