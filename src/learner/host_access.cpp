#include "learner/host_access.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace qrl::learner {

namespace {

Tensor part(const Tensor& flat, std::int64_t offset, const Placement& of) {
  return flat.narrow(0, offset, of.spec.shape.numel());
}

/// Copies every view of `from` into the view of the same name of `to`; an input error when names or shapes differ.
/// `what` names the set in the message.
void copy_views(const model::WeightViews& from, const model::WeightViews& to, const std::string& what) {
  for (const auto& [name, view] : from) {
    QRL_REQUIRE(to.contains(name), what, "tensors of this model", "an extra one, " + name);
    (void)view;
  }
  for (const auto& [name, view] : to) {
    const auto found = from.find(name);
    QRL_REQUIRE(found != from.end(), what, "tensor " + name, "none of that name");
    const base::View& source = found->second;
    QRL_REQUIRE(source.shape == view.shape && source.dtype == base::DType::f32, what + ", tensor " + name,
                "F32 " + view.shape.to_string(),
                std::string(base::name(source.dtype)) + " " + source.shape.to_string());
    if (view.data != source.data) std::memcpy(view.data, source.data, view.num_bytes());
  }
}

}  // namespace

const Tensor& HostAccess::on_host(const Tensor& values, Tensor& copy, bool is_read) const {
  if (!has_copies_) return values;
  if (!copy.defined()) {
    copy = torch::zeros(values.sizes(), torch::TensorOptions().pinned_memory(!values.is_cpu()));  // for fast copies
  }
  if (is_read) copy.copy_(values);
  return copy;
}

model::WeightViews HostAccess::master_views(const Tensor& masters) const {
  model::WeightViews named;
  for (const Placement& each : layout_.placements()) {
    if (layout_.is_mine(each)) named[each.spec.name] = view_of(part(masters, each.owned_offset, each), each.spec.shape);
  }
  return named;
}

model::WeightViews HostAccess::moment_views(const Tensor& exp_avg, const Tensor& exp_avg_sq) const {
  model::WeightViews named;
  if (!flat_.trainable()) return named;
  for (const Placement& each : layout_.placements()) {
    if (!layout_.is_mine(each)) continue;
    named["exp_avg." + each.spec.name] = view_of(part(exp_avg, each.owned_offset, each), each.spec.shape);
    if (layout_.is_muons(each)) continue;
    const std::int64_t offset = each.owned_offset - layout_.num_muons();
    named["exp_avg_sq." + each.spec.name] = view_of(part(exp_avg_sq, offset, each), each.spec.shape);
  }
  return named;
}

model::WeightViews HostAccess::masters() const { return master_views(on_host(flat_.masters, copies_.masters, true)); }
model::WeightViews HostAccess::moments() const {
  if (!flat_.trainable()) return {};
  return moment_views(on_host(flat_.exp_avg, copies_.exp_avg, true),
                      on_host(flat_.exp_avg_sq, copies_.exp_avg_sq, true));
}
model::WeightViews HostAccess::masters_in_place() const { return master_views(flat_.masters); }
model::WeightViews HostAccess::moments_in_place() const { return moment_views(flat_.exp_avg, flat_.exp_avg_sq); }

state::StagedRead HostAccess::staged_read() const {
  if (!has_copies_) return {};
  return [this](const base::View& view, std::size_t first_byte, std::size_t num_bytes) {
    if (!staging_.defined()) {
      std::size_t largest = 0;
      for (const Placement& each : layout_.placements())
        largest = std::max(largest, static_cast<std::size_t>(each.spec.shape.numel()) * sizeof(float));
      const auto count = static_cast<std::int64_t>(std::min(staging_bytes_, largest) / sizeof(float));
      staging_ = torch::empty({count}, torch::TensorOptions().pinned_memory(flat_.masters.is_cuda()));
    }
    const auto bytes = static_cast<std::int64_t>(std::min(num_bytes, staging_.nbytes()));
    const Tensor from = torch::from_blob(static_cast<std::byte*>(view.data) + first_byte,
                                         {bytes / static_cast<std::int64_t>(sizeof(float))},
                                         torch::TensorOptions().device(flat_.masters.device()));
    staging_.narrow(0, 0, from.numel()).copy_(from);
    return std::span(static_cast<const std::byte*>(staging_.data_ptr()), static_cast<std::size_t>(bytes));
  };
}

base::Buffer HostAccess::master(const std::string& name) const {
  const Placement& from = layout_.placement(name);
  if (!layout_.is_mine(from)) return {};
  base::Buffer copy(base::DType::f32, from.spec.shape);
  torch::from_blob(copy.as<float>(), {from.spec.shape.numel()}).copy_(flat_.master(from));
  return copy;
}

void HostAccess::fill(const std::function<void(const std::string& name, const base::View& to)>& fill) {
  Tensor host;
  const auto fill_all = [&](const model::WeightViews& views) {
    for (const auto& [name, view] : views) {
      if (!has_copies_) {
        fill(name, view);
        continue;
      }
      if (!host.defined() || host.numel() < view.numel()) {
        host = Tensor();  // first, so that both are never there
        host = torch::empty({view.numel()});
      }
      fill(name, {host.data_ptr(), base::DType::f32, view.shape});
      torch::from_blob(view.data, {view.numel()}, torch::TensorOptions().device(flat_.masters.device()))
          .copy_(host.narrow(0, 0, view.numel()));
    }
  };
  fill_all(masters_in_place());
  fill_all(moments_in_place());
}

void HostAccess::change_masters(const std::function<bool(const std::string& name)>& chosen,
                                const std::function<void(const std::string& name, std::span<float> values)>& change) {
  for (const Placement& each : layout_.placements()) {
    if (!layout_.is_mine(each) || !chosen(each.spec.name)) continue;
    const Tensor values = flat_.master(each);
    const Tensor host = values.cpu();  // itself where it is there
    change(each.spec.name, {host.data_ptr<float>(), static_cast<std::size_t>(host.numel())});
    if (!values.is_cpu()) values.copy_(host);
  }
}

model::WeightViews HostAccess::gradients() const {
  const Tensor& gradients = on_host(flat_.gradients, copies_.gradients, true);
  model::WeightViews named;
  for (const Placement& each : layout_.placements())
    named[each.spec.name] = view_of(part(gradients, each.offset, each), each.spec.shape);
  return named;
}

void HostAccess::restore_masters(const model::WeightViews& masters) {
  copy_views(masters, master_views(on_host(flat_.masters, copies_.masters, false)), "checkpointed weights");
  if (has_copies_) flat_.masters.copy_(copies_.masters);
}

void HostAccess::restore_moments(const model::WeightViews& moments) {
  if (!flat_.trainable()) return copy_views(moments, {}, "checkpointed optimizer state");
  copy_views(moments,
             moment_views(on_host(flat_.exp_avg, copies_.exp_avg, false),
                          on_host(flat_.exp_avg_sq, copies_.exp_avg_sq, false)),
             "checkpointed optimizer state");
  if (!has_copies_) return;
  flat_.exp_avg.copy_(copies_.exp_avg);
  flat_.exp_avg_sq.copy_(copies_.exp_avg_sq);
}

void HostAccess::free_moments() {
  flat_.exp_avg = flat_.exp_avg_sq = Tensor();
  copies_.exp_avg = copies_.exp_avg_sq = Tensor();
}

}  // namespace qrl::learner
