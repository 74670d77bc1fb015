// Owns which LibTorch headers the learner reads: tensors and autograd. <torch/torch.h> costs every file 3 s more.
#pragma once

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/types.h>
