#include "learner/weights/flat_buffers.h"

#include <algorithm>

namespace qrl::learner {

FlatBuffers::FlatBuffers(const ParameterLayout& layout, bool trainable, const torch::Device& device) {
  const auto zeros = [&](std::int64_t count) {
    return torch::zeros({count}, torch::TensorOptions().dtype(torch::kFloat32).device(device));
  };
  if (trainable) gradients = zeros(layout.all().count);
  masters = zeros(layout.num_mine());
  if (!trainable) return;
  exp_avg = zeros(layout.num_mine());
  exp_avg_sq = zeros(layout.num_mine() - layout.num_muons());
}

base::View view_of(const Tensor& values, const base::Shape& shape) {
  return {values.data_ptr(), values.scalar_type() == torch::kFloat32 ? base::DType::f32 : base::DType::bf16, shape,
          values.is_cpu() ? base::Device::cpu : base::Device::cuda};
}

namespace {

Tensor part(const Tensor& flat, std::int64_t offset, const Placement& of) {
  return flat.narrow(0, offset, of.spec.shape.numel());
}

}  // namespace

base::View NamedState::view(const Tensor& values, const base::Shape& shape) const {
  base::View view = view_of(values, shape);
  if (is_staged_) view.device = base::Device::cuda;
  return view;
}

model::WeightViews NamedState::masters() const {
  model::WeightViews named;
  for (const Placement& each : layout_.placements()) {
    if (layout_.is_mine(each)) named[each.spec.name] = view(flat_.master(each), each.spec.shape);
  }
  return named;
}

model::WeightViews NamedState::moments() const {
  model::WeightViews named;
  if (!flat_.trainable()) return named;
  for (const Placement& each : layout_.placements()) {
    if (!layout_.is_mine(each)) continue;
    named["exp_avg." + each.spec.name] = view(part(flat_.exp_avg, each.owned_offset, each), each.spec.shape);
    if (layout_.is_muons(each)) continue;
    const std::int64_t offset = each.owned_offset - layout_.num_muons();
    named["exp_avg_sq." + each.spec.name] = view(part(flat_.exp_avg_sq, offset, each), each.spec.shape);
  }
  return named;
}

model::WeightViews NamedState::gradients() const {
  model::WeightViews named;
  for (const Placement& each : layout_.placements())
    named[each.spec.name] = view(flat_.gradient(each), each.spec.shape);
  return named;
}

state::StagedRead NamedState::staged_read() const {
  if (!is_staged_) return {};
  return [this](const base::View& view, std::size_t first_byte, std::size_t num_bytes) {
    if (!staging_.defined()) {
      std::size_t largest = 0;
      for (const Placement& each : layout_.placements())
        largest = std::max(largest, static_cast<std::size_t>(each.spec.shape.numel()) * sizeof(float));
      const auto count = static_cast<std::int64_t>(std::min(staging_bytes_, largest) / sizeof(float));
      staging_ = torch::empty({count}, torch::TensorOptions().pinned_memory(!flat_.masters.is_cpu()));
    }
    const auto bytes = static_cast<std::int64_t>(std::min(num_bytes, staging_.nbytes()));
    const Tensor from = torch::from_blob(static_cast<std::byte*>(view.data) + first_byte,
                                         {bytes / static_cast<std::int64_t>(sizeof(float))},
                                         torch::TensorOptions().device(flat_.masters.device()));
    staging_.narrow(0, 0, from.numel()).copy_(from);
    return std::span(static_cast<const std::byte*>(staging_.data_ptr()), static_cast<std::size_t>(bytes));
  };
}

base::Buffer NamedState::master(const std::string& name) const {
  const Placement& from = layout_.placement(name);
  if (!layout_.is_mine(from)) return {};
  base::Buffer copy(base::DType::f32, from.spec.shape);
  torch::from_blob(copy.as<float>(), {from.spec.shape.numel()}).copy_(flat_.master(from));
  return copy;
}

void NamedState::fill(const std::function<void(const std::string& name, const base::View& to)>& fill) {
  Tensor host;
  const auto fill_all = [&](const model::WeightViews& views) {
    for (const auto& [name, view] : views) {
      if (!is_staged_) {
        fill(name, view);
        continue;
      }
      if (!host.defined() || host.numel() < view.numel()) {
        host = Tensor();  // frees the old buffer first
        host = torch::empty({view.numel()});
      }
      fill(name, {host.data_ptr(), base::DType::f32, view.shape});
      torch::from_blob(view.data, {view.numel()}, torch::TensorOptions().device(flat_.masters.device()))
          .copy_(host.narrow(0, 0, view.numel()));
    }
  };
  fill_all(masters());
  fill_all(moments());
}

void NamedState::change_masters(const std::function<bool(const std::string& name)>& chosen,
                                const std::function<void(const std::string& name, std::span<float> values)>& change) {
  for (const Placement& each : layout_.placements()) {
    if (!layout_.is_mine(each) || !chosen(each.spec.name)) continue;
    const Tensor values = flat_.master(each);
    const Tensor host = values.cpu();
    change(each.spec.name, {host.data_ptr<float>(), static_cast<std::size_t>(host.numel())});
    if (!values.is_cpu()) values.copy_(host);
  }
}

}  // namespace qrl::learner
