// <torch/torch.h> would add 3 s of compilation per file.
#pragma once

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/types.h>
