// Owns the mapping from the model's tensors to the engine's weights.
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

  /// Returns WeightStore::rewrite's arguments for these tensors, and sets names[i] to the tensor of the i-th argument.
  /// A tied embedding gives two arguments, the second for lm_head.
  std::vector<cuda::Master> of(std::span<const model::DeviceMaster> masters, std::vector<std::string>& names) const;
  /// Returns WeightStore::rewrite_adapters' argument for a tensor A or B. The caller must set its values, rank and
  /// scale. Returns null for other tensors.
  const cuda::AdapterMaster* adapter(const std::string& weight) const;
  /// Returns WeightStore::dequantize's arguments.
  std::vector<cuda::DequantizedMatrix> of(std::span<const model::DequantizedTensor> wanted) const;
  cuda::WeightId matrix(const std::string& tensor) const;

 private:
  void add(const std::string& weight, const cuda::WeightId& id, std::int64_t first, std::int64_t count);
  void add_tensor(const std::string& prefix, const cuda::WeightId& id, std::int64_t out, std::int64_t in);

  std::multimap<std::string, cuda::Master> places_;      ///< masters by tensor name; `values` are not set
  std::map<std::string, cuda::AdapterMaster> adapters_;  ///< masters by name of A or B; `values` are not set
  struct Matrix {
    cuda::WeightId id;
    base::Shape shape;
  };
  std::map<std::string, Matrix> matrices_;  ///< by name in Snapshot::tensors
};

}  // namespace qrl::decoder
