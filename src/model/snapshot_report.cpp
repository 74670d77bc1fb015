#include <algorithm>
#include <cstring>
#include <span>

#include "base/error.h"
#include "base/threads.h"
#include "model/block.h"
#include "model/int8_profile.h"
#include "model/matrix_parts.h"
#include "model/snapshot.h"
#include "quant/format.h"

namespace qrl::model {

namespace {

std::size_t packed_bytes(const ops::PackedLinear& linear) {
  return linear.panels.num_bytes() + linear.scales.num_bytes() + linear.column_sums.num_bytes() +
         linear.bias.num_bytes();
}

/// Returns "int8 [80, 24], scales [1, 80] F32", with "[80, 24] × 5" for several such matrices.
std::string form_of(const ops::PackedLinear& linear, std::int64_t count = 1) {
  std::string what = std::string(quant::name(linear.format)) + " [" + std::to_string(linear.out) + ", " +
                     std::to_string(linear.in) + "]";
  if (count > 1) what += " × " + std::to_string(count);
  if (!linear.scales.empty()) {
    what += ", scales [" + std::to_string(linear.scales.shape()[0]) + ", " + std::to_string(linear.out) + "] " +
            std::string(base::name(linear.scales.view().dtype));
  }
  if (linear.rotation) what += ", inputs rotated by " + std::to_string(linear.rotation.block);
  if (!linear.bias.empty()) what += ", bias F32";
  return what;
}

SnapshotTensor packed_tensor(std::string name, const ops::PackedLinear& linear) {
  return {std::move(name), form_of(linear), linear.panels.view().data, false};
}

/// Returns one entry for a layer's experts, with shape and count per format.
SnapshotTensor tensor_of_experts(std::string name, std::span<const ops::PackedLinear> experts) {
  std::string what;
  std::vector<quant::Format> known;
  for (const ops::PackedLinear& expert : experts) {
    if (std::ranges::find(known, expert.format) != known.end()) continue;
    known.push_back(expert.format);
    if (!what.empty()) what += "; ";
    what += form_of(expert, std::ranges::count(experts, expert.format, &ops::PackedLinear::format));
  }
  return {std::move(name), std::move(what), experts.front().panels.view().data, false};
}

/// Adds the errors of a weight, a few rows at a time, because a whole lm_head is large.
void add_errors(const ops::PackedLinear& packed, std::int64_t first_row, std::span<const float> original,
                quant::FormatErrorSums& sums) {
  constexpr std::int64_t kRows = 64;
  const std::int64_t width = packed.in, num_rows = std::ssize(original) / width;
  std::vector<float> dequantized(static_cast<std::size_t>(kRows * width));
  for (std::int64_t row = 0; row < num_rows; row += kRows) {
    const std::int64_t count = std::min(kRows, num_rows - row);
    ops::unpack_rows(packed, first_row + row, count, dequantized.data());
    const auto size = static_cast<std::size_t>(count * width);
    sums.add(original.subspan(static_cast<std::size_t>(row * width), size), std::span(dequantized).first(size));
  }
}

/// Returns a weight's error against its master `original`. Overwrites `original`. Sums over the experts in `format`, or
/// over all experts if none is in `format`.
WeightError error_of(const MatrixPart<const ops::PackedLinear>& part, quant::Format format, const float* factors,
                     std::span<float> original) {
  const std::span<const ops::PackedLinear> whole(part.matrix, 1);
  const std::span<const ops::PackedLinear> all = part.experts.empty() ? whole : part.experts;
  const bool any = std::ranges::any_of(all, [&](const ops::PackedLinear& packed) { return packed.format == format; });
  const std::size_t size = original.size() / all.size();
  const auto width = static_cast<std::size_t>(part.matrix->in);
  if (factors != nullptr) {
    for (std::size_t k = 0; k < original.size(); ++k) original[k] *= factors[k % width];
  }
  quant::FormatErrorSums sums;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (any && all[i].format != format) continue;
    const std::span<float> mine = original.subspan(i * size, size);
    ops::rotate_rows(all[i].rotation, static_cast<std::int64_t>(size / width), all[i].in, mine.data());
    add_errors(all[i], part.first_row, mine, sums);
  }
  return {part.weight, any ? format : part.matrix->format, sums.error()};
}

std::string last_name(const std::string& module) { return module.substr(module.rfind('.') + 1); }

SnapshotTensor plain_tensor(std::string name, const base::Buffer& buffer, bool is_gain) {
  return {std::move(name), std::string(base::name(buffer.view().dtype)) + " " + buffer.shape().to_string(),
          buffer.view().data, is_gain};
}

}  // namespace

std::size_t Snapshot::num_bytes() const {
  std::size_t total = embedding_VD_.num_bytes() + final_norm_D_.num_bytes() + packed_bytes(lm_head_);
  for (std::size_t idx = 0; idx < layers_.size(); ++idx) {
    const LayerSnapshot& layer = layers_[idx];
    visit_block(
        config_, static_cast<std::int64_t>(idx),
        [&](const BlockGain&, const auto& of) { total += of(layer).num_bytes(); },
        [&](const BlockMatrix&, const auto& of) {
          total += packed_bytes(of(layer));
          const MatrixAdapter& adapter = of(layer.adapters);
          if (!adapter.empty()) total += packed_bytes(adapter.a);
          for (const MatrixAdapter::Part& part : adapter.parts) total += packed_bytes(part.b);
        },
        [&](const BlockExperts&, const auto& of) {
          for (const ops::PackedLinear& packed : of(layer)) total += packed_bytes(packed);
        });
  }
  return total;
}

std::vector<SnapshotTensor> Snapshot::tensors() const {
  std::vector<SnapshotTensor> all = {plain_tensor("embed_tokens", embedding_VD_, false)};
  for (std::size_t idx = 0; idx < layers_.size(); ++idx) {
    const LayerSnapshot& layer = layers_[idx];
    const auto number = static_cast<std::int64_t>(idx);
    const std::string prefix = snapshot_layer_prefix(number);
    visit_block(
        config_, number,
        [&](const BlockGain& gain, const auto& of) {
          all.push_back(plain_tensor(prefix + std::string(gain.name), of(layer), true));
        },
        [&](const BlockMatrix& matrix, const auto& of) {
          const std::string name = prefix + std::string(matrix.name);
          all.push_back(packed_tensor(name, of(layer)));
          if (of(layer.adapters).empty()) return;
          all.push_back(packed_tensor(name + ".lora_A", of(layer.adapters).a));
          for (const MatrixAdapter::Part& part : of(layer.adapters).parts)
            all.push_back(packed_tensor(prefix + last_name(part.module) + ".lora_B", part.b));
        },
        [&](const BlockExperts& experts, const auto& of) {
          all.push_back(tensor_of_experts(prefix + std::string(experts.matrix.name), of(layer)));
        });
  }
  all.push_back(plain_tensor("norm", final_norm_D_, true));
  all.push_back(packed_tensor("lm_head", lm_head_));
  return all;
}

std::vector<WeightError> Snapshot::format_errors(const WeightViews& masters) const {
  return format_errors([&](const std::string& weight) {
    const auto found = masters.find(weight);
    if (found == masters.end()) return base::Buffer();
    base::Buffer copy(base::DType::f32, found->second.shape);
    std::memcpy(copy.as<float>(), found->second.as<float>(), found->second.num_bytes());
    return copy;
  });
}

std::vector<WeightError> Snapshot::format_errors(const ReadMaster& read) const {
  const auto parts = matrix_parts(config_, here(layers_), here(lm_head_));
  std::vector<WeightError> errors(parts.size());
  const auto at_once = static_cast<std::size_t>(base::num_threads());
  std::vector<base::Buffer> masters;
  for (std::size_t first = 0; first < parts.size(); first += at_once) {
    masters.clear();
    for (std::size_t i = first; i < std::min(parts.size(), first + at_once); ++i)
      masters.push_back(read(parts[i].weight));
    base::parallel_for(static_cast<std::int64_t>(masters.size()), 1, [&](base::Range range) {
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        const base::Buffer& master = masters[static_cast<std::size_t>(i)];
        if (master.empty()) continue;
        const auto& part = parts[first + static_cast<std::size_t>(i)];
        const std::span<float> original(master.as<float>(), static_cast<std::size_t>(master.shape().numel()));
        const float* factors = fixed_scales(config_, profile_.get(), part.weight, part.matrix->format).input_factors;
        errors[first + static_cast<std::size_t>(i)] = error_of(part, format_, factors, original);
      }
    });
  }
  return errors;
}

}  // namespace qrl::model
