#include "train/policy/merge.h"

#include <cmath>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/bf16.h"
#include "model/adapter.h"

namespace qrl::train {

namespace {

/// Locates a weight in a snapshot: rows of one matrix, or all matrices of a layer's experts.
struct Rows {
  std::span<const ops::PackedLinear> matrices;
  std::int64_t first = 0;  ///< first row in the matrix; 0 for experts
};

std::map<std::string, Rows> rows_by_weight(const model::Snapshot& snapshot) {
  std::map<std::string, Rows> rows;
  for (std::int64_t idx = 0; idx < snapshot.config().num_hidden_layers; ++idx) {
    const auto name = [&](std::string_view tensor) {
      return model::layer_prefix(idx) + std::string(tensor) + ".weight";
    };
    model::visit_matrices(
        snapshot.config(), idx,
        [&](const model::BlockMatrix& matrix, const auto& of) {
          std::int64_t first = 0;
          for (const model::BlockModule& module : matrix.modules) {
            rows.emplace(name(module.name), Rows{std::span(&of(snapshot.layer(idx)), 1), first});
            first += module.rows;
          }
        },
        [&](const model::BlockExperts& experts, const auto& of) {
          rows.emplace(name(experts.tensor), Rows{of(snapshot.layer(idx))});
        });
  }
  return rows;
}

void note_error(const std::vector<float>& base, const float* merged, const float* stored, const std::string& weight,
                UpdateErrors& errors) {
  double lost = 0, whole = 0;
  for (std::size_t i = 0; i < base.size(); ++i) {
    const double update = static_cast<double>(merged[i]) - base[i];
    lost += std::pow(stored[i] - base[i] - update, 2);
    whole += update * update;
  }
  if (whole == 0) return;
  const double error = std::sqrt(lost / whole);
  ++errors.num_layers;
  errors.sum += error;
  if (errors.num_layers > 1 && error <= errors.worst) return;
  errors.worst = error;
  errors.worst_layer = weight.substr(0, weight.rfind('.'));
}

}  // namespace

model::WeightSource quantized_weights(const model::ModelConfig& config, const model::WeightSource& base,
                                      const model::SnapshotFormats& formats) {
  const auto snapshot = std::make_shared<model::Snapshot>(config, formats);
  snapshot->publish(base, 0);
  return model::WeightSource(
      [snapshot, base, rows = rows_by_weight(*snapshot)](const model::WeightSpec& spec, float* to) {
        const auto found = rows.find(spec.name);
        if (found == rows.end()) return base.read(spec, to);
        const Rows& part = found->second;
        const std::int64_t size = spec.shape.numel() / std::ssize(part.matrices);
        for (const ops::PackedLinear& matrix : part.matrices) {
          ops::unpack_rows(matrix, part.first, size / matrix.in, to);
          ops::rotate_rows(matrix.rotation, size / matrix.in, matrix.in, to);  // undoes the rotation
          to += size;
        }
      });
}

model::WeightSource with_errors(const model::WeightSource& trained, const model::WeightSource& base, base::DType dtype,
                                UpdateErrors& errors) {
  return model::WeightSource([trained, base, dtype, &errors](const model::WeightSpec& spec, float* to) {
    trained.read(spec, to);
    if (!is_layer_matrix(spec.kind)) return;
    std::vector<float> before(static_cast<std::size_t>(spec.shape.numel()));
    base.read(spec, before.data());
    std::vector<float> stored(to, to + before.size());
    if (dtype != base::DType::f32)
      for (float& value : stored) value = base::to_float(base::to_bf16(value));
    note_error(before, to, stored.data(), spec.name, errors);
  });
}

model::WeightSource merged(const Policy& policy, const std::optional<model::WeightSource>& onto, UpdateErrors& errors) {
  const PolicyAdapter& adapter = *policy.adapter;
  const model::WeightSource base = onto.value_or(adapter.base);
  const model::WeightSource all = model::merged_weights(policy.config, base, adapter.lora, adapter.adapters);
  return with_errors(all, base, policy.config.dtype, errors);
}

UpdateErrors errors_if_quantized(const Policy& policy, const std::optional<model::WeightSource>& onto,
                                 const model::SnapshotFormats& formats) {
  const PolicyAdapter& adapter = *policy.adapter;
  const model::WeightSource base = onto.value_or(adapter.base);
  const model::WeightSource all = model::merged_weights(policy.config, base, adapter.lora, adapter.adapters);
  const model::WeightSource again = quantized_weights(policy.config, all, formats);
  UpdateErrors errors;
  for (const model::WeightSpec& spec : model::weight_specs(policy.config)) {
    if (!is_layer_matrix(spec.kind)) continue;
    std::vector<float> before(static_cast<std::size_t>(spec.shape.numel())), merged(before.size()),
        stored(before.size());
    base.read(spec, before.data());
    all.read(spec, merged.data());
    again.read(spec, stored.data());
    note_error(before, merged.data(), stored.data(), spec.name, errors);
  }
  return errors;
}

}  // namespace qrl::train
