#pragma once

#include <c10/core/Event.h>

#include <optional>
#include <vector>

#include "learner/tensors/autograd.h"

namespace qrl::learner {

struct HostArray {
  const void* values = nullptr;
  torch::ScalarType type = torch::kInt32;
  std::vector<std::int64_t> sizes;
};
template <class T>
HostArray array_of(const std::vector<T>& values) {
  return {values.data(), c10::CppTypeToScalarType<T>::value, {static_cast<std::int64_t>(values.size())}};
}

/// Copies arrays to a device in one transfer, on the device's current stream. The arrays may change after the call.
TensorList send(const std::vector<HostArray>& arrays, const torch::Device& device);

/// Copies a tensor to host memory asynchronously, on the current stream of the tensor's device.
class Arrival {
 public:
  /// Begins the copy. For a CPU tensor, copies at once.
  explicit Arrival(const Tensor& from);
  void wait() const;
  /// Returns the copy, whose contents are undefined before wait() returns.
  const Tensor& values() const { return values_; }

 private:
  Tensor values_;
  std::optional<c10::Event> done_;
};

/// Blocks until the device's current stream is done.
void wait_for(const torch::Device& device);

}  // namespace qrl::learner
