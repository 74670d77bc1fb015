// Owns how numbers travel between host memory and a learner's device without either waiting for the other. Knows
// nothing of what they are.
#pragma once

#include <c10/core/Event.h>

#include <optional>
#include <vector>

#include "learner/autograd.h"

namespace qrl::learner {

/// Points to an array in host memory.
struct HostArray {
  const void* values = nullptr;
  torch::ScalarType type = torch::kInt32;
  std::vector<std::int64_t> sizes;
};
template <class T>
HostArray array_of(const std::vector<T>& values) {
  return {values.data(), c10::CppTypeToScalarType<T>::value, {static_cast<std::int64_t>(values.size())}};
}

/// Copies arrays to a device: all together, as one piece of its present stream's work. The arrays may change when this
/// returns.
TensorList send(const std::vector<HostArray>& arrays, const torch::Device& device);

/// Copies a tensor to host memory, after the work of its device's present stream.
class Arrival {
 public:
  /// Begins the copy. A tensor on the CPU is copied at once.
  explicit Arrival(const Tensor& from);
  /// Blocks until the values have arrived.
  void wait() const;
  /// Returns the copy in host memory. Its values are undefined before wait() returns.
  const Tensor& values() const { return values_; }

 private:
  Tensor values_;
  std::optional<c10::Event> done_;
};

/// Blocks until the device has done what its present stream holds.
void wait_for(const torch::Device& device);

}  // namespace qrl::learner
