// Owns the map from the model's tensors to the engine's weights. Knows nothing of formats.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "cuda/engine/weight_store.h"
#include "model/config.h"
#include "model/device_weights.h"

namespace qrl::decoder {

class DeviceMasters {
 public:
  explicit DeviceMasters(const model::ModelConfig& config);

  /// Returns the arguments of WeightStore::rewrite for these tensors; `names[i]` becomes the tensor of the i-th. A tied
  /// embedding also gives one for lm_head.
  std::vector<cuda::Master> of(std::span<const model::DeviceMaster> masters, std::vector<std::string>& names) const;
  /// Returns the argument of WeightStore::rewrite_adapters for the A or B of this name (model/adapter.h), without
  /// values, rank and scale. Returns null for any other name.
  const cuda::AdapterMaster* adapter(const std::string& weight) const;
  /// Returns the arguments of WeightStore::dequantize.
  std::vector<cuda::DequantizedMatrix> of(std::span<const model::DequantizedTensor> wanted) const;
  /// Returns the id of a matrix by its name in a snapshot.
  cuda::WeightId matrix(const std::string& tensor) const;

 private:
  void add(const std::string& weight, const cuda::WeightId& id, std::int64_t first, std::int64_t count);
  void add_tensor(const std::string& prefix, const cuda::WeightId& id, std::int64_t out, std::int64_t in);

  std::multimap<std::string, cuda::Master> places_;      ///< by tensor name, without values
  std::map<std::string, cuda::AdapterMaster> adapters_;  ///< by the name of an A or B, without values
  struct Matrix {
    cuda::WeightId id;
    base::Shape shape;
  };
  std::map<std::string, Matrix> matrices_;  ///< by name in a snapshot
};

}  // namespace qrl::decoder
