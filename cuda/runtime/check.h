#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "base/error.h"

/// Throws an internal error that names `call` if the call fails.
#define QRL_CUDA_CHECK(call)                                                                                   \
  do {                                                                                                         \
    const cudaError_t result_ = (call);                                                                        \
    if (result_ != cudaSuccess) [[unlikely]] {                                                                 \
      (void)cudaGetLastError();                                                                                \
      ::qrl::base::fail_internal(#call, "success",                                                             \
                                 std::string(cudaGetErrorName(result_)) + ": " + cudaGetErrorString(result_)); \
    }                                                                                                          \
  } while (false)
