// Owns what a recipe needs of this machine: threads, GPU and libraries.
#pragma once

#include <string>

#include "config/recipe.h"
#include "dist/collectives.h"

namespace qrl::train {

/// Sets this process's threads by trainer.threads: a number, or the machine's processors divided among its ranks. With
/// several ranks, undoes a launcher's binding to one core.
void set_threads(const config::Recipe& recipe, const dist::Collectives& world);
/// Returns threads for one rank's work while others wait: those of all its machine's ranks.
int all_local_threads(const config::Recipe& recipe, const dist::Collectives& world);

/// Throws an input error that names what the recipe's GPU lacks: driver, device, or a library version. With
/// trainer.device cuda, first loads LibTorch's CUDA part, before a decoder can load another cuBLASLt.
void require_gpu(const config::Recipe& recipe, int device_number);

/// Returns why the recipe's GPU is unusable, with its key ("trainer.device: cuda: expected …"), else "".
std::string missing_gpu(const config::Recipe& recipe, int device_number);

/// Measures the most operations a second of the learner's products in model.dtype, in about 50 ms.
double learner_ceiling(const config::Recipe& recipe);

}  // namespace qrl::train
