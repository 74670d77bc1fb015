#include "learner/weights/parameter_layout.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <tuple>

#include "base/error.h"
#include "model/block.h"

namespace qrl::learner {

std::vector<int> shard_owners(const std::vector<model::WeightSpec>& specs, bool muon, int num_ranks) {
  std::vector<double> floats;
  for (const model::WeightSpec& spec : specs) {
    const int of_element = muon && is_layer_matrix(spec.kind) ? 2 : 3;  // fp32 values per element: master, moments
    floats.push_back(of_element * static_cast<double>(spec.shape.numel()));
  }
  return dist::share_out(floats, num_ranks);
}

bool is_matrix(const model::WeightSpec& spec) { return !model::is_vector(spec.kind); }

namespace {

int rank_of_kind(const model::WeightSpec& spec) { return !is_matrix(spec) ? 2 : (is_layer_matrix(spec.kind) ? 0 : 1); }

/// Orders a layer's tensors so that those of one matmul are adjacent.
int rank_in_group(const model::ModelConfig& config, std::string_view name) {
  int next = 0, rank = -1;
  model::visit_known_matrices(config, [&](const model::BlockMatrix& matrix) {
    if (matrix.modules.size() == 1) return;
    for (const model::BlockModule& module : matrix.modules) {
      if (name.find(std::string(module.name) + ".") != std::string_view::npos) rank = next;
      ++next;
    }
  });
  return rank < 0 ? next : rank;
}

std::int64_t layer_of(std::string_view name) {
  constexpr std::string_view kPrefix = "model.layers.";
  return name.starts_with(kPrefix) ? std::stoll(std::string(name.substr(kPrefix.size()))) : -1;
}

}  // namespace

ParameterLayout::ParameterLayout(const model::ModelConfig& config, const LayoutOptions& options) : options_(options) {
  const bool has_adapters = options.lora.enabled();
  QRL_INVARIANT(!has_adapters || !is_sharded(), "parameters", "adapters on every rank", "sharded adapters");
  place(config, has_adapters ? model::adapter_specs(config, options.lora) : model::weight_specs(config));
  share_out();
}

void ParameterLayout::place(const model::ModelConfig& config, const std::vector<model::WeightSpec>& specs) {
  for (const model::WeightSpec& spec : specs) placements_.push_back({spec});
  std::vector<Placement*> order;
  for (Placement& placement : placements_) order.push_back(&placement);
  if (!options_.lora.enabled())  // adapter_specs are already in order
    std::stable_sort(order.begin(), order.end(), [&](const Placement* a, const Placement* b) {
      const auto key = [&](const model::WeightSpec& spec) {
        return std::tuple(rank_of_kind(spec), layer_of(spec.name), rank_in_group(config, spec.name));
      };
      return key(a->spec) < key(b->spec);
    });
  for (Placement* placement : order) {
    placement->offset = size_;
    size_ += placement->spec.shape.numel();
    if (is_matrix(placement->spec)) num_decayed_ = size_;
    if (rank_of_kind(placement->spec) == 0) first_other_ = size_;
  }
  first_adamw_ = options_.muon ? first_other_ : 0;
}

void ParameterLayout::share_out() {
  if (is_sharded()) {
    std::vector<model::WeightSpec> specs;
    for (const Placement& placement : placements_) specs.push_back(placement.spec);
    const std::vector<int> owners = shard_owners(specs, options_.muon, options_.shards);
    for (std::size_t i = 0; i < owners.size(); ++i) placements_[i].owner = owners[i];
  }
  std::vector<std::int64_t> next(static_cast<std::size_t>(options_.shards), 0);
  for (const std::size_t i : in_order()) {
    Placement& placement = placements_[i];
    const std::int64_t count = placement.spec.shape.numel();
    std::int64_t& end = next[static_cast<std::size_t>(placement.owner)];
    placement.owned_offset = end;
    end += count;
    if (is_mine(placement) && is_muons(placement)) num_muons_ = end;
    parts_.push_back({static_cast<std::size_t>(placement.offset), static_cast<std::size_t>(count), placement.owner});
  }
  num_mine_ = next[static_cast<std::size_t>(options_.rank)];
}

GradientRange ParameterLayout::layer(std::size_t idx) const {
  GradientRange range{first_other_, 0};
  for (const Placement& placement : placements_) {
    if (rank_of_kind(placement.spec) != 0 || layer_of(placement.spec.name) != static_cast<std::int64_t>(idx)) continue;
    range.begin = std::min(range.begin, placement.offset);
    range.count += placement.spec.shape.numel();
  }
  return range;
}

std::vector<GradientRange> ParameterLayout::published() const {
  std::vector<GradientRange> ranges;
  for (std::size_t idx = 0; layer(idx).count > 0; ++idx) ranges.push_back(layer(idx));
  for (const std::size_t i : in_order()) {
    const Placement& placement = placements_[i];
    if (tables().holds(placement.offset)) ranges.push_back({placement.offset, placement.spec.shape.numel()});
  }
  if (vectors().count > 0) ranges.push_back(vectors());
  return ranges;
}

std::vector<dist::Part> ParameterLayout::parts(const GradientRange& range) const {
  std::vector<dist::Part> parts;
  for (dist::Part part : parts_) {
    if (!range.holds(static_cast<std::int64_t>(part.begin))) continue;
    part.begin -= static_cast<std::size_t>(range.begin);
    parts.push_back(part);
  }
  return parts;
}

std::vector<std::size_t> ParameterLayout::in_order() const {
  std::vector<std::size_t> order(placements_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return placements_[a].offset < placements_[b].offset; });
  return order;
}

std::vector<AdamwSegment> ParameterLayout::adamw_segments(const GradientRange& range) const {
  std::vector<AdamwSegment> segments;
  for (const std::size_t i : in_order()) {
    const Placement& placement = placements_[i];
    if (!is_mine(placement) || is_muons(placement) || !range.holds(placement.offset)) continue;
    const std::int64_t count = placement.spec.shape.numel();
    const bool decays = placement.offset < num_decayed_;
    const bool continues_segment = !segments.empty() && segments.back().decays == decays &&
                                   segments.back().offset + segments.back().count == placement.offset;
    if (continues_segment) segments.back().count += count;
    else segments.push_back({placement.offset, placement.owned_offset, count, decays});
  }
  return segments;
}

const Placement& ParameterLayout::placement(const std::string& name) const {
  const auto found = std::find_if(placements_.begin(), placements_.end(),
                                  [&](const Placement& placement) { return placement.spec.name == name; });
  QRL_INVARIANT(found != placements_.end(), "parameters", "tensor " + name, "no tensor of that name");
  return *found;
}

bool ParameterLayout::contains(const std::string& name) const {
  return std::ranges::any_of(placements_, [&](const Placement& placement) { return placement.spec.name == name; });
}

}  // namespace qrl::learner
