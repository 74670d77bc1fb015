"""python -m qrl_train is qrl-train."""
from qrl_train.launch import main

main()
