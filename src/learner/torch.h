// Owns which of LibTorch's headers the learner reads: tensors and their autograd. <torch/torch.h> holds modules,
// optimizers and data loaders besides, and costs every file 3 s more.
#pragma once

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/types.h>
