#include "model/adapter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/rng.h"
#include "base/text.h"

namespace qrl::model {

namespace {

constexpr std::string_view kA = ".lora_A.weight", kB = ".lora_B.weight";

/// Visits the matrices that can have adapters.
template <class Visit>
void for_each_matrix(const ModelConfig& config, const Visit& visit) {
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string prefix = layer_prefix(layer);
    visit_matrices(
        config, layer,
        [&](const BlockMatrix& matrix, const auto&) {
          if (!matrix.is_router()) visit(prefix, matrix);
        },
        [](const BlockExperts&, const auto&) {});
  }
}

void refuse_expert_targets(const ModelConfig& config, const LoraConfig& lora, const LoraSource& source) {
  const auto refuse = [&](const std::string& module) {
    QRL_REQUIRE(!lora.targets(module), source.target_modules,
                "attention modules, or full names of modules in dense layers",
                lora.target_modules.empty() ? "all modules, including " + module : "a name that matches " + module,
                std::string(kExpertsLack) + "; [q_proj, k_proj, v_proj, o_proj] matches no expert");
  };
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string prefix = layer_prefix(layer);
    visit_matrices(
        config, layer,
        [&](const BlockMatrix& matrix, const auto&) {
          if (matrix.is_router()) refuse(prefix + std::string(matrix.modules.front().name));
        },
        [&](const BlockExperts& experts, const auto&) {
          for (std::int64_t expert = 0; expert < experts.count; ++expert) {
            for (const BlockModule& module : experts.matrix.modules) refuse(expert_module(prefix, expert, module));
          }
        });
  }
}

}  // namespace

bool is_named(const std::string& module, const std::string& name) {
  return module == name || module.ends_with("." + name);
}

double LoraConfig::scale() const {
  const auto r = static_cast<double>(rank);
  return alpha / (rslora ? std::sqrt(r) : r);
}

bool LoraConfig::targets(const std::string& module) const {
  if (!enabled()) return false;
  return target_modules.empty() ||
         std::ranges::any_of(target_modules, [&](const std::string& target) { return is_named(module, target); });
}

void check_lora(const ModelConfig& config, const LoraConfig& lora, const LoraSource& source) {
  if (!lora.enabled()) return;
  refuse_expert_targets(config, lora, source);
  std::vector<bool> used(lora.target_modules.size(), false);
  for_each_matrix(config, [&](const std::string& prefix, const BlockMatrix& matrix) {
    for (const BlockModule& part : matrix.modules) {
      const std::string module = prefix + std::string(part.name);
      for (std::size_t i = 0; i < used.size(); ++i) used[i] = used[i] || is_named(module, lora.target_modules[i]);
      if (!lora.targets(module)) continue;
      // DeltaNet's b and a have a row a head, so that no rank would fit all its matrices.
      const std::int64_t side = matrix.is_wide() ? matrix.in : std::min(part.rows, matrix.in);
      QRL_REQUIRE(lora.rank <= side, source.rank,
                  "at most " + std::to_string(side) + ", the smaller side of " + module + " [" +
                      std::to_string(part.rows) + ", " + std::to_string(matrix.in) + "]",
                  std::to_string(lora.rank), source.if_too_wide);
    }
  });
  std::vector<std::string> names;
  visit_known_matrices(config, [&](const BlockMatrix& matrix) {
    for (const BlockModule& part : matrix.modules) names.emplace_back(part.name.substr(part.name.rfind('.') + 1));
  });
  for (std::size_t i = 0; i < used.size(); ++i) {
    QRL_REQUIRE(used[i], source.target_modules, "modules of the model's layers",
                base::quoted(lora.target_modules[i]) + ", which matches no module",
                "use names such as " + base::joined(names, ", "));
  }
}

std::string lora_a_name(const std::string& module) { return module + std::string(kA); }
std::string lora_b_name(const std::string& module) { return module + std::string(kB); }
bool is_lora_name(const std::string& weight) { return weight.ends_with(kA) || weight.ends_with(kB); }

std::vector<WeightSpec> adapter_specs(const ModelConfig& config, const LoraConfig& lora) {
  std::vector<WeightSpec> specs;
  if (!lora.enabled()) return specs;
  for_each_matrix(config, [&](const std::string& prefix, const BlockMatrix& matrix) {
    for (const BlockModule& part : matrix.modules) {
      const std::string module = prefix + std::string(part.name);
      if (lora.targets(module)) specs.push_back({lora_a_name(module), {lora.rank, matrix.in}, WeightKind::linear});
    }
    for (const BlockModule& part : matrix.modules) {
      const std::string module = prefix + std::string(part.name);
      if (lora.targets(module)) specs.push_back({lora_b_name(module), {part.rows, lora.rank}, WeightKind::linear});
    }
  });
  if (!lora.train_norms) return specs;
  for (const WeightSpec& spec : weight_specs(config)) {
    if (is_norm(spec.kind)) specs.push_back(spec);
  }
  return specs;
}

WeightSource new_adapters(const ModelConfig& config, const LoraConfig& lora, std::uint64_t seed) {
  std::map<std::string, std::uint32_t> indices;
  for (const WeightSpec& spec : adapter_specs(config, lora))
    indices.emplace(spec.name, static_cast<std::uint32_t>(indices.size()));
  const base::RandomField field(seed, base::RandomPurpose::adapter_init);
  return WeightSource([indices = std::move(indices), field](const WeightSpec& spec, float* to) {
    const auto found = indices.find(spec.name);
    QRL_INVARIANT(found != indices.end() && is_lora_name(spec.name), "adapters", "a tensor of the adapters", spec.name);
    const std::int64_t count = spec.shape.numel();
    if (spec.name.ends_with(kB)) return std::fill_n(to, count, 0.0F), void();
    const double bound = 1 / std::sqrt(static_cast<double>(spec.shape[1]));
    base::parallel_for((count + 3) / 4, 1024, [&](base::Range blocks) {
      for (std::int64_t block = blocks.begin; block < blocks.end; ++block) {
        const auto words =
            field.words({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), found->second, 0});
        for (std::int64_t i = 0; i < std::min<std::int64_t>(4, count - 4 * block); ++i) {
          const double uniform = words[static_cast<std::size_t>(i)] * 0x1p-32;
          to[4 * block + i] = static_cast<float>(bound * (2 * uniform - 1));
        }
      }
    });
  });
}

Weights read_adapters(const ModelConfig& config, const LoraConfig& lora, const WeightSource& source) {
  Weights weights;
  for (const WeightSpec& spec : adapter_specs(config, lora)) {
    base::Buffer values(base::DType::f32, spec.shape);
    source.read(spec, values.as<float>());
    weights.emplace(spec.name, std::move(values));
  }
  return weights;
}

void add_product(const float* b, const float* a, base::Range rows, std::int64_t rank, std::int64_t in, double scale,
                 float* weight) {
  std::vector<float> sums(static_cast<std::size_t>(in));
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    std::fill(sums.begin(), sums.end(), 0.0F);
    for (std::int64_t r = 0; r < rank; ++r) {
      const float factor = b[row * rank + r];
      const float* from = a + r * in;
      for (std::int64_t k = 0; k < in; ++k) sums[static_cast<std::size_t>(k)] += factor * from[k];
    }
    float* to = weight + row * in;
    for (std::int64_t k = 0; k < in; ++k) to[k] += static_cast<float>(scale) * sums[static_cast<std::size_t>(k)];
  }
}

WeightSource merged_weights(const ModelConfig& config, const WeightSource& base, const LoraConfig& lora,
                            const WeightSource& adapters) {
  std::map<std::string, WeightSpec> trained;
  for (const WeightSpec& spec : adapter_specs(config, lora)) trained.emplace(spec.name, spec);
  return WeightSource([base, lora, adapters, trained = std::move(trained)](const WeightSpec& spec, float* to) {
    if (const auto gain = trained.find(spec.name); gain != trained.end()) return adapters.read(gain->second, to);
    base.read(spec, to);
    constexpr std::string_view kWeight = ".weight";
    if (spec.kind != WeightKind::linear && spec.kind != WeightKind::wide_linear) return;
    const std::string module = spec.name.substr(0, spec.name.size() - kWeight.size());
    const auto a = trained.find(lora_a_name(module)), b = trained.find(lora_b_name(module));
    if (a == trained.end()) return;
    const base::Buffer a_values(base::DType::f32, a->second.shape), b_values(base::DType::f32, b->second.shape);
    adapters.read(a->second, a_values.as<float>());
    adapters.read(b->second, b_values.as<float>());
    base::parallel_for(spec.shape[0], 16, [&](base::Range rows) {
      add_product(b_values.as<float>(), a_values.as<float>(), rows, lora.rank, spec.shape[1], lora.scale(), to);
    });
  });
}

bool reads_adapters_inputs(const ops::PackedLinear& matrix) {
  return !quant::spec(matrix.format).has_activation_scales() && !matrix.rotation;
}

MatrixAdapter make_matrix_adapter(const LoraConfig& lora, const std::string& prefix, const BlockMatrix& matrix,
                                  quant::Format format) {
  MatrixAdapter adapter;
  adapter.out = matrix.out();
  std::int64_t first = 0;
  for (const BlockModule& part : matrix.modules) {
    const std::string module = prefix + std::string(part.name);
    if (lora.targets(module))
      adapter.parts.push_back({module, first, ops::make_packed_linear(format, part.rows, lora.rank, false)});
    first += part.rows;
  }
  if (adapter.empty()) return adapter;
  const auto num_parts = static_cast<std::int64_t>(adapter.parts.size());
  adapter.a = ops::make_packed_linear(format, num_parts * lora.rank, matrix.in, false);
  return adapter;
}

std::string pack_adapter(const LoraConfig& lora, const WeightViews& values, MatrixAdapter& adapter) {
  base::Team alone = base::Team::solo();
  const std::vector<float> scales(static_cast<std::size_t>(lora.rank), static_cast<float>(lora.scale()));
  std::string broken;
  std::int64_t first_row = 0;
  for (MatrixAdapter::Part& part : adapter.parts) {
    const std::string a = lora_a_name(part.module), b = lora_b_name(part.module);
    if (!ops::pack_rows(alone, values.at(a).as<float>(), lora.rank, first_row, adapter.a)) broken = a;
    if (!ops::pack_rows(alone, values.at(b).as<float>(), part.b.out, 0, part.b, {scales.data()})) broken = b;
    first_row += lora.rank;
  }
  return broken;
}

AdapterProducts::AdapterProducts(quant::Format format, std::int64_t max_rows, std::size_t num_parts, std::int64_t rank)
    : sums(base::DType::f32, {max_rows, static_cast<std::int64_t>(num_parts) * rank}) {
  for (std::size_t i = 0; i < num_parts; ++i) parts.emplace_back(format, max_rows, rank);
}

void multiply_by_a(const MatrixAdapter& adapter, const ops::Activations& x, base::Range rows,
                   AdapterProducts& products) {
  base::Team alone = base::Team::solo();
  auto* sums = products.sums.as<float>();
  const std::int64_t rank = adapter.rank(), stride = adapter.a.out;
  ops::linear(alone, x, adapter.a, rows, false, sums);
  for (std::size_t i = 0; i < adapter.parts.size(); ++i) {
    for (std::int64_t row = rows.begin; row < rows.end; ++row)
      ops::quantize_row(sums + row * stride + static_cast<std::int64_t>(i) * rank, row, products.parts[i]);
  }
}

namespace {

/// Adds B·(A·x) to some outputs of a panel, one row at a time, so that the sums fit on the stack.
void add_of_panel(const MatrixAdapter::Part& part, const ops::Activations& products, base::Range rows,
                  base::Range panel, base::Range outputs, float* y, std::int64_t y_stride) {
  base::Team alone = base::Team::solo();
  std::array<float, ops::kPanelColumns> sums;
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    ops::linear_columns(alone, products, part.b, {row, row + 1}, panel, sums.data());
    for (std::int64_t i = outputs.begin; i < outputs.end; ++i)
      y[row * y_stride + i] += sums[static_cast<std::size_t>(i - panel.begin)];
  }
}

void add_outputs(const MatrixAdapter::Part& part, const ops::Activations& products, base::Range rows,
                 base::Range outputs, float* y, std::int64_t y_stride) {
  constexpr std::int64_t kPanel = ops::kPanelColumns;
  base::Team alone = base::Team::solo();
  for (std::int64_t first = outputs.begin / kPanel * kPanel; first < outputs.end; first += kPanel) {
    const base::Range panel{first, std::min(first + kPanel, part.b.out)};
    const base::Range some{std::max(panel.begin, outputs.begin), std::min(panel.end, outputs.end)};
    if (some.size() == panel.size()) ops::linear_into_columns(alone, products, part.b, rows, panel, true, y, y_stride);
    else add_of_panel(part, products, rows, panel, some, y, y_stride);
  }
}

}  // namespace

void add_times_b(const MatrixAdapter& adapter, const AdapterProducts& products, base::Range rows, base::Range columns,
                 float* y) {
  for (std::size_t i = 0; i < adapter.parts.size(); ++i) {
    const MatrixAdapter::Part& part = adapter.parts[i];
    const auto output_of = [&](std::int64_t column) {
      return std::clamp<std::int64_t>(column - part.first_output, 0, part.b.out);
    };
    add_outputs(part, products.parts[i], rows, {output_of(columns.begin), output_of(columns.end)},
                y + part.first_output, adapter.out);
  }
}

namespace {

/// Returns whether each adapted module consists of whole panels, as linear_into_columns requires.
bool has_whole_panels(const MatrixAdapter& adapter) {
  return std::ranges::all_of(adapter.parts, [&](const MatrixAdapter::Part& part) {
    const std::int64_t end = part.first_output + part.b.out;
    return part.first_output % ops::kPanelColumns == 0 && (end % ops::kPanelColumns == 0 || end == adapter.out);
  });
}

}  // namespace

void multiply_adapted(const ops::PackedLinear& weight, const ops::Activations& x, const MatrixAdapter& adapter,
                      const AdapterProducts& products, base::Range rows, base::Range columns, bool accumulate,
                      float* y) {
  base::Team alone = base::Team::solo();
  const auto multiply = [&](std::int64_t begin, std::int64_t end, const ops::AddedProduct* added) {
    if (begin < end) ops::linear_into_columns(alone, x, weight, rows, {begin, end}, accumulate, y, weight.out, added);
  };
  if (!has_whole_panels(adapter)) {
    QRL_INVARIANT(!accumulate, "multiply_adapted", "whole panels of one module", "several modules");
    multiply(columns.begin, columns.end, nullptr);
    return add_times_b(adapter, products, rows, columns, y);
  }
  std::int64_t next = columns.begin;
  for (std::size_t i = 0; i < adapter.parts.size(); ++i) {
    const MatrixAdapter::Part& part = adapter.parts[i];
    const std::int64_t begin = std::max(next, part.first_output),
                       end = std::min(columns.end, part.first_output + part.b.out);
    if (begin >= end) continue;
    multiply(next, begin, nullptr);
    const ops::AddedProduct added{products.parts[i], part.b, part.first_output};
    multiply(begin, end, &added);
    next = end;
  }
  multiply(next, columns.end, nullptr);
}

}  // namespace qrl::model
