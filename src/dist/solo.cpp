#include "base/error.h"
#include "dist/collectives.h"
#include "dist/parts.h"

namespace qrl::dist {
namespace {

class Solo final : public Collectives {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int local_size() const override { return 1; }
  int local_rank() const override { return 0; }

  void barrier() override {}
  void all_reduce_sum(std::span<float>) override {}
  void all_reduce_sum(std::span<double>) override {}
  void all_reduce_sum(std::span<std::int64_t>) override {}
  void all_reduce_max(std::span<double>) override {}
  void all_reduce_min(std::span<std::int64_t>) override {}
  void reduce_scatter_sum(std::span<float> values, std::span<const Part> parts) override {
    check_parts("reduce_scatter_sum", parts, values.size(), 1);
  }
  void all_gather(std::span<std::byte> bytes, std::span<const Part> parts) override {
    check_parts("all_gather", parts, bytes.size(), 1);
  }
  std::vector<std::string> all_gather(const std::string& mine) override { return {mine}; }
  void broadcast(std::span<std::byte>, int root) override {
    QRL_INVARIANT(root == 0, "broadcast", "root 0 of 1 rank", std::to_string(root));
  }
};

}  // namespace

bool Collectives::any(bool mine) {
  double seen = mine ? 1.0 : 0.0;
  all_reduce_max({&seen, 1});
  return seen > 0.0;
}

std::unique_ptr<Collectives> make_solo() { return std::make_unique<Solo>(); }

}  // namespace qrl::dist
