// Owns which of an engine's weights a tensor of the model is. Knows nothing of formats.
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

  /// What WeightStore::rewrite takes for these tensors; `names[i]` becomes the tensor of the i-th. A tied embedding is
  /// lm_head, too.
  std::vector<cuda::Master> of(std::span<const model::DeviceMaster> masters, std::vector<std::string>& names) const;
  /// What WeightStore::rewrite_adapters takes for A or B of that name (model/adapter.h), without values, rank and
  /// scale; null: it is none.
  const cuda::AdapterMaster* adapter(const std::string& weight) const;
  /// What WeightStore::dequantize takes.
  std::vector<cuda::DequantizedMatrix> of(std::span<const model::DequantizedTensor> wanted) const;
  /// Which matrix that is, by a snapshot's name for it.
  cuda::WeightId matrix(const std::string& tensor) const;

 private:
  void add(const std::string& weight, const cuda::WeightId& id, std::int64_t first, std::int64_t count);
  void add_tensor(const std::string& prefix, const cuda::WeightId& id, std::int64_t out, std::int64_t in);

  std::multimap<std::string, cuda::Master> places_;      ///< by name, without values
  std::map<std::string, cuda::AdapterMaster> adapters_;  ///< the same of all that can be
  struct Matrix {
    cuda::WeightId id;
    base::Shape shape;
  };
  std::map<std::string, Matrix> matrices_;  ///< by a snapshot's name
};

}  // namespace qrl::decoder
