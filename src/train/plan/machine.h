#pragma once

#include <string>

#include "dist/collectives.h"
#include "model/config.h"
#include "train/recipe/recipe.h"

namespace qrl::train {

/// Sets this process's number of threads to trainer.threads. The default is the machine's processors divided by the
/// machine's ranks.
void set_threads(const Recipe& recipe, const dist::Collectives& world);
/// Returns the number of threads for a rank that works while the others wait: the sum over its machine's ranks.
int all_local_threads(const Recipe& recipe, const dist::Collectives& world);

/// Throws an input error that names what the recipe's GPU lacks: driver, device, or a library version. With
/// trainer.device cuda, first loads LibTorch's CUDA part, because the decoder must use LibTorch's cuBLASLt.
void require_gpu(const Recipe& recipe, int device_number);

/// Returns why the recipe's GPU is unusable, with its key ("trainer.device: cuda: expected …"), else "".
std::string missing_gpu(const Recipe& recipe, int device_number);

/// Throws an input error with the key of a GPU, if the recipe names one whose kernels lack a part of the model.
void require_gpu_kernels(const Recipe& recipe, const model::ModelConfig& config);

/// Measures the peak operations per second of the learner's matmuls, in about 50 ms.
double learner_ceiling(const Recipe& recipe);

}  // namespace qrl::train
