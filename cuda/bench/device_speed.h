// Owns how fast matrix products, attention and copies are on the device in use. Knows nothing of how they are made.
#pragma once

#include "cuda/runtime/runtime.h"
#include "cuda/bench/speed.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// speed.h's measure_products.
ProductSpeeds measure_product_speeds(const ProductSpeedTask& task);

/// speed.h's measure_attention.
AttentionSpeed measure_attention_speed(const AttentionSpeedTask& task);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
