#include "model/int8_profile.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "base/threads.h"
#include "model/block.h"
#include "model/matrix_parts.h"
#include "quant/format.h"
#include "state/hash.h"
#include "state/safetensors.h"

namespace qrl::model {

namespace {

constexpr const char* kProfileFormat = "qrl-train int8 profile 1";

/// Returns each row's int8 scale from max |w · factor|. Null factors: 1.
base::Buffer row_scales(const base::View& weight, const float* factors) {
  const std::int64_t width = weight.shape.dims().back(), rows = weight.numel() / width;
  base::Buffer scales(base::DType::f32, {rows});
  base::parallel_for(rows, 64, [&](base::Range range) {
    for (std::int64_t r = range.begin; r < range.end; ++r) {
      const float* row = weight.as<float>() + r * width;
      float amax = 0;
      for (std::int64_t c = 0; c < width; ++c) {
        amax = std::max(amax, std::fabs(factors != nullptr ? row[c] * factors[c] : row[c]));
      }
      scales.as<float>()[r] = quant::scale_of(quant::Element::int8, amax);
    }
  });
  return scales;
}

void widen(std::vector<float>& most, const base::View& weight) {
  const auto width = static_cast<std::size_t>(weight.shape.dims().back());
  most.resize(width, 0.0F);
  const auto* values = weight.as<float>();
  for (std::size_t i = 0; i < static_cast<std::size_t>(weight.numel()); ++i) {
    float& largest = most[i % width];
    largest = std::max(largest, std::fabs(values[i]));
  }
}

base::Buffer make_smoothing(const base::Buffer& range, const std::vector<float>& amax) {
  base::Buffer smoothing(base::DType::f32, {static_cast<std::int64_t>(amax.size())});
  for (std::size_t c = 0; c < amax.size(); ++c) {
    const float factor = std::sqrt(range.as<float>()[c] / amax[c]);
    smoothing.as<float>()[c] = factor > 0 && std::isfinite(factor) ? factor : 1.0F;
  }
  return smoothing;
}

/// Calls body(spec, view) for each spec. The next call overwrites the view's fp32 values.
template <class Body>
void for_each_weight(const std::vector<WeightSpec>& specs, const WeightSource& weights, const Body& body) {
  std::int64_t largest = 0;
  for (const WeightSpec& spec : specs) largest = std::max(largest, spec.shape.numel());
  const base::Buffer staged(base::DType::f32, {largest});
  for (const WeightSpec& spec : specs) {
    weights.read(spec, staged.as<float>());
    body(spec, base::View{staged.as<float>(), base::DType::f32, spec.shape});
  }
}

const float* tensor_of(const Int8Profile* profile, const std::string& name) {
  if (profile == nullptr) return nullptr;
  const auto found = profile->tensors.find(name);
  return found == profile->tensors.end() ? nullptr : found->second.as<float>();
}

}  // namespace

const float* smoothing_of(const Int8Profile* profile, const std::string& norm) {
  return tensor_of(profile, smoothing_name(norm));
}

ops::FixedScales fixed_scales(const ModelConfig& config, const Int8Profile* profile, const std::string& matrix,
                              quant::Format format) {
  return {tensor_of(profile, smoothing_name(norm_before(config, matrix))),
          format == quant::Format::int8 ? tensor_of(profile, scale_name(matrix)) : nullptr};
}

std::string smoothing_name(const std::string& norm) { return norm + ".smoothing"; }
std::string scale_name(const std::string& matrix) { return matrix + ".scale"; }

std::vector<WeightSpec> profile_specs(const ModelConfig& config) {
  std::set<std::string> norms;
  std::vector<WeightSpec> specs;
  for (const WeightSpec& spec : weight_specs(config)) {
    if (spec.kind != WeightKind::linear) continue;
    specs.push_back({scale_name(spec.name), {spec.shape.numel() / spec.shape.dims().back()}, spec.kind});
    const std::string norm = norm_before(config, spec.name);
    if (!norm.empty() && norms.insert(norm).second) {
      specs.push_back({smoothing_name(norm), {config.hidden_size}, WeightKind::norm});
    }
  }
  return specs;
}

Int8Profile make_int8_profile(const ModelConfig& config, const WeightSource& weights, const ChannelRanges& ranges) {
  Int8Profile profile;
  profile.model_hash = weights_hash(config, weights);
  std::vector<WeightSpec> matrices;
  for (const WeightSpec& spec : weight_specs(config)) {
    if (spec.kind == WeightKind::linear) matrices.push_back(spec);
  }
  std::map<std::string, std::vector<float>> largest_behind;  // key: norm; value: largest |w| per channel
  for_each_weight(matrices, weights, [&](const WeightSpec& spec, const base::View& view) {
    const std::string norm = norm_before(config, spec.name);
    if (!norm.empty()) widen(largest_behind[norm], view);
  });
  for (const auto& [norm, largest] : largest_behind) {
    profile.tensors.emplace(smoothing_name(norm), make_smoothing(ranges.at(norm), largest));
  }
  for_each_weight(matrices, weights, [&](const WeightSpec& spec, const base::View& view) {
    profile.tensors.emplace(scale_name(spec.name),
                            row_scales(view, smoothing_of(&profile, norm_before(config, spec.name))));
  });
  return profile;
}

std::string weights_hash(const ModelConfig& config, const WeightSource& weights) {
  std::vector<WeightSpec> by_name = weight_specs(config);
  std::sort(by_name.begin(), by_name.end(), [](const WeightSpec& a, const WeightSpec& b) { return a.name < b.name; });
  state::Hash hash;
  for_each_weight(by_name, weights, [&](const WeightSpec& spec, const base::View& view) {
    hash.add(spec.name).add(view.data, view.num_bytes());
  });
  return hash.hex();
}

void save_int8_profile(const std::filesystem::path& file, const Int8Profile& profile) {
  std::vector<state::NamedView> tensors;
  for (const auto& [name, buffer] : profile.tensors) tensors.push_back({name, buffer.view(), {}});
  state::write_safetensors(
      file, tensors,
      {{"format", kProfileFormat}, {"model_hash", profile.model_hash}, {"settings_hash", profile.settings_hash}});
}

Int8Profile load_int8_profile(const std::filesystem::path& file, const ModelConfig& config) {
  const state::SafetensorsFile tensors(file);
  const std::string where = state::shown(file);
  const auto fact = [&](const char* key) {
    const auto found = tensors.metadata().find(key);
    return found == tensors.metadata().end() ? std::string() : found->second;
  };
  QRL_REQUIRE(fact("format") == kProfileFormat, where, std::string("an int8 profile (format ") + kProfileFormat + ")",
              fact("format").empty() ? "a different safetensors file" : base::quoted(fact("format")),
              "make one with qrl-train profile");
  const std::vector<WeightSpec> specs = profile_specs(config);
  QRL_REQUIRE(tensors.tensors().size() == specs.size(), where, std::to_string(specs.size()) + " tensors",
              std::to_string(tensors.tensors().size()), "it belongs to a different model");
  Int8Profile profile{{}, fact("model_hash"), fact("settings_hash")};
  for (const WeightSpec& spec : specs) {
    base::Buffer values = tensors.read(spec.name);
    const auto* numbers = values.view().dtype == base::DType::f32 ? values.as<float>() : nullptr;
    QRL_REQUIRE(numbers != nullptr && values.shape() == spec.shape, where + ": tensor " + spec.name,
                "F32 " + spec.shape.to_string(),
                std::string(base::name(values.view().dtype)) + " " + values.shape().to_string(),
                "it belongs to a different model");
    const bool sound = std::all_of(numbers, numbers + values.view().numel(), [&](float x) {
      return std::isfinite(x) && (spec.kind == WeightKind::norm ? x > 0 : x >= 0);
    });
    QRL_REQUIRE(sound, where + ": tensor " + spec.name,
                "finite numbers, nonnegative for scales and positive for smoothing", "an invalid number",
                "make it again");
    profile.tensors.emplace(spec.name, std::move(values));
  }
  return profile;
}

}  // namespace qrl::model
