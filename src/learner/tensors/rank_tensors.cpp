#include "learner/tensors/rank_tensors.h"

#include <algorithm>
#include <vector>

#include "learner/tensors/host_copies.h"

namespace qrl::learner {

namespace {

class ThroughHost final : public RankTensors {
 public:
  ThroughHost(dist::Collectives& world, const torch::Device& device) : world_(world), device_(device) {}
  int rank() const override { return world_.rank(); }
  int size() const override { return world_.size(); }

  void begin_sum(const torch::Tensor& f32_values, std::span<const dist::Part> parts) override {
    in_chunks(f32_values.view({-1}), parts, [&](const torch::Tensor& host, std::span<const dist::Part> here) {
      const std::span<float> values(host.data_ptr<float>(), static_cast<std::size_t>(host.numel()));
      if (parts.empty()) world_.all_reduce_sum(values);
      else world_.reduce_scatter_sum(values, here);
    });
  }
  void end_sums() override {}
  /// A GPU's autograd runs nodes on its own thread, which must not call `world`.
  bool sums_during_backward() const override { return device_.is_cpu(); }
  void begin_copies(const torch::Tensor& values, std::span<const dist::Part> byte_parts) override {
    in_chunks(
        values.view({-1}).view(torch::kUInt8), byte_parts,
        [&](const torch::Tensor& host, std::span<const dist::Part> here) { world_.all_gather(bytes(host), here); });
  }
  void end_copies() override {}
  bool copies_beside_work() const override { return false; }
  void broadcast(const torch::Tensor& values, int root) override {
    in_chunks(values.view({-1}).view(torch::kUInt8), {},
              [&](const torch::Tensor& host, std::span<const dist::Part>) { world_.broadcast(bytes(host), root); });
  }

 private:
  static std::span<std::byte> bytes(const torch::Tensor& host) {
    return {static_cast<std::byte*>(host.data_ptr()), host.nbytes()};
  }
  /// Calls body(host, parts) with the values in host memory, and stores what it changed. From a GPU the values come in
  /// chunks through pinned memory. Each chunk has the pieces of `parts` that lie in it; a chunk without any is skipped,
  /// unless `parts` is empty, which means all values.
  template <class Body>
  void in_chunks(const torch::Tensor& flat, std::span<const dist::Part> parts, const Body& body) const {
    constexpr std::int64_t kChunkBytes = std::int64_t{16} << 20;  // bounds pinned memory and the transport's buffers
    const std::int64_t chunk =
        flat.is_cpu() && !parts.empty() ? flat.numel() : kChunkBytes / static_cast<std::int64_t>(flat.element_size());
    for (std::int64_t begin = 0; begin < flat.numel(); begin += chunk) {
      const std::int64_t count = std::min(chunk, flat.numel() - begin);
      const std::vector<dist::Part> here =
          parts_within(parts, static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
      if (here.empty() && !parts.empty()) continue;
      const torch::Tensor values = flat.narrow(0, begin, count);
      if (values.is_cpu()) {
        body(values, here);
        continue;
      }
      const Arrival arrival(values);
      arrival.wait();
      body(arrival.values(), here);
      values.copy_(arrival.values(), /*non_blocking=*/true);
    }
    wait_for(flat.device());
  }
  static std::vector<dist::Part> parts_within(std::span<const dist::Part> parts, std::size_t begin, std::size_t count) {
    std::vector<dist::Part> here;
    for (const dist::Part& part : parts) {
      const std::size_t first = std::max(part.begin, begin), end = std::min(part.begin + part.count, begin + count);
      if (first < end) here.push_back({first - begin, end - first, part.owner});
    }
    return here;
  }

  dist::Collectives& world_;
  torch::Device device_;
};

}  // namespace

std::unique_ptr<RankTensors> ranks_through_host(dist::Collectives& world, const torch::Device& device) {
  return std::make_unique<ThroughHost>(world, device);
}

}  // namespace qrl::learner
