"""qrl-train trains language models with RL on samples of quantized weights. The program is qrl_train/bin/qrl-train."""
