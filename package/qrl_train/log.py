"""python -m qrl_train.log SERVICE RUN sends a run's metrics to Weights & Biases or MLflow, by the program's qrl_log.py."""
import importlib
import re
import sys

from qrl_train.launch import PACKAGE

COMMAND = "python -m qrl_train.log"

if __name__ == "__main__":
    sys.path.insert(0, str(PACKAGE / "share/qrl-train/python"))
    qrl_log = importlib.import_module("qrl_log")
    qrl_log.__doc__ = re.sub(r"python3? (-m )?\S*qrl_log(\.py)?", COMMAND, qrl_log.__doc__ or "")  # its --help
    sys.argv[0] = COMMAND
    sys.exit(qrl_log.main())
