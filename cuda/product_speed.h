// Owns how fast matrix products and copies are on the device in use. Knows nothing of how they are made.
#pragma once

#include "engine.h"
#include "runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// engine.h's measure_products.
ProductSpeeds measure_product_speeds(const ProductSpeedTask& task);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
