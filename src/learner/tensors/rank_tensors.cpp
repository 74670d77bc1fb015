#include "learner/tensors/rank_tensors.h"

#include <algorithm>

namespace qrl::learner {

namespace {

class ThroughHost final : public RankTensors {
 public:
  ThroughHost(dist::Collectives& world, const torch::Device& device) : world_(world), device_(device) {}
  int rank() const override { return world_.rank(); }
  int size() const override { return world_.size(); }

  void begin_sum(const torch::Tensor& f32_values, std::span<const dist::Part> parts) override {
    if (!parts.empty()) {
      return on_host(f32_values, [&](const torch::Tensor& host) { world_.reduce_scatter_sum(floats(host), parts); });
    }
    constexpr std::int64_t kChunk = std::int64_t{1} << 22;  // 16 MiB: bounds the transport's buffers
    const torch::Tensor flat = f32_values.view({-1});
    for (std::int64_t begin = 0; begin < flat.numel(); begin += kChunk) {
      on_host(flat.narrow(0, begin, std::min(kChunk, flat.numel() - begin)),
              [&](const torch::Tensor& host) { world_.all_reduce_sum(floats(host)); });
    }
  }
  void end_sums() override {}
  /// A GPU's autograd runs nodes on its own thread, which must not call `world`.
  bool sums_during_backward() const override { return device_.is_cpu(); }
  void begin_copies(const torch::Tensor& values, std::span<const dist::Part> byte_parts) override {
    on_host(values, [&](const torch::Tensor& host) { world_.all_gather(bytes(host), byte_parts); });
  }
  void end_copies() override {}
  bool copies_beside_work() const override { return false; }
  void broadcast(const torch::Tensor& values, int root) override {
    on_host(values, [&](const torch::Tensor& host) { world_.broadcast(bytes(host), root); });
  }

 private:
  static std::span<float> floats(const torch::Tensor& host) {
    return {host.data_ptr<float>(), static_cast<std::size_t>(host.numel())};
  }
  static std::span<std::byte> bytes(const torch::Tensor& host) {
    return {static_cast<std::byte*>(host.data_ptr()), host.nbytes()};
  }
  template <class Body>
  static void on_host(const torch::Tensor& values, const Body& body) {
    const torch::Tensor host = values.cpu();  // the tensor itself if it is in host memory
    body(host);
    if (!values.is_cpu()) values.copy_(host);
  }

  dist::Collectives& world_;
  torch::Device device_;
};

}  // namespace

std::unique_ptr<RankTensors> ranks_through_host(dist::Collectives& world, const torch::Device& device) {
  return std::make_unique<ThroughHost>(world, device);
}

}  // namespace qrl::learner
