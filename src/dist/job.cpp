// Implements Collectives over messages. Each rank receives all terms for its own part of the array, adds them in rank
// order and sends the result to all ranks. The result's bits depend neither on the transport nor on the topology.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <type_traits>

#include "base/clock.h"
#include "base/error.h"
#include "dist/collectives.h"
#include "dist/messages.h"

namespace qrl::dist {
namespace {

/// Size of the windows into which all-reduces divide an array, to limit scratch memory.
constexpr std::size_t kWindowBytes = std::size_t{16} << 20;

class Job final : public Collectives {
 public:
  Job(std::unique_ptr<Messages> messages, double join_limit_s)
      : messages_(std::move(messages)), place_(messages_->place()), limit_s_(join_limit_s), setting_(kJoinLimit) {
    barrier();
    limit_s_ = kTimeLimit_s;
    setting_ = "trainer.collective_timeout_s";
  }

  ~Job() override {
    // Does not wait while an exception propagates, because the other ranks may be in another call. The launcher then
    // ends the job.
    if (std::uncaught_exceptions() != 0) return;
    barrier();
    messages_->end(limit_s_);
  }

  int rank() const override { return place_.rank; }
  int size() const override { return place_.size; }
  int local_size() const override { return place_.local_size; }
  int local_rank() const override { return place_.local_rank; }

  void set_time_limit(double seconds) override { limit_s_ = seconds; }
  double time_limit_s() const override { return limit_s_; }

  void barrier() override {
    messages_->begin_barrier();
    wait();
  }

  void all_reduce_sum(std::span<float> values) override { all_reduce(values, Sum{}); }
  void all_reduce_sum(std::span<double> values) override { all_reduce(values, Sum{}); }
  void all_reduce_sum(std::span<std::int64_t> values) override { all_reduce(values, Sum{}); }
  void all_reduce_max(std::span<double> values) override {
    all_reduce(values, [](double a, double b) { return std::isnan(a) || a > b ? a : b; });
  }
  void all_reduce_min(std::span<std::int64_t> values) override {
    all_reduce(values, [](std::int64_t a, std::int64_t b) { return std::min(a, b); });
  }

  void reduce_scatter_sum(std::span<float> values, std::span<const Part> parts) override {
    check_parts("reduce_scatter_sum", parts, values.size(), place_.size);
    // Each round sums one window of each owner.
    const std::vector<std::vector<std::span<float>>> windows = windows_of(values, parts);
    std::size_t num_rounds = 0;
    for (const auto& mine : windows) num_rounds = std::max(num_rounds, mine.size());
    for (std::size_t round = 0; round < num_rounds; ++round) {
      const auto window = [&](int rank) {
        const auto& theirs = windows[index(rank)];
        return round < theirs.size() ? theirs[round] : std::span<float>();
      };
      fold_mine(window, window(place_.rank), Sum{});
    }
  }

  void all_gather(std::span<std::byte> bytes, std::span<const Part> parts) override {
    check_parts("all_gather", parts, bytes.size(), place_.size);
    for (const Part& part : parts) {
      const std::span<std::byte> place = bytes.subspan(part.begin, part.count);
      if (part.owner != place_.rank) messages_->begin_receive(place, part.owner);
      for (int peer = 0; peer < place_.size && part.owner == place_.rank; ++peer) {
        if (peer != place_.rank) messages_->begin_send(place, peer);
      }
    }
    wait();
  }

  std::vector<std::string> all_gather(const std::string& mine) override {
    const std::uint64_t my_size_bytes = mine.size();
    std::vector<std::uint64_t> sizes_bytes(index(place_.size));
    gather(std::as_bytes(std::span(&my_size_bytes, 1)),
           [&](int rank) { return std::as_writable_bytes(std::span(&sizes_bytes[index(rank)], 1)); });
    std::vector<std::string> all(index(place_.size));
    for (std::size_t i = 0; i < all.size(); ++i) all[i].resize(sizes_bytes[i]);
    gather(std::as_bytes(std::span(mine)),
           [&](int rank) { return std::as_writable_bytes(std::span(all[index(rank)])); });
    return all;
  }

  void broadcast(std::span<std::byte> bytes, int root) override {
    QRL_INVARIANT(root >= 0 && root < place_.size, "broadcast", "a root below " + std::to_string(place_.size),
                  std::to_string(root));
    messages_->begin_broadcast(bytes, root);
    wait();
  }

 private:
  struct Sum {
    template <class T>
    T operator()(T a, T b) const {
      return a + b;
    }
  };
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

  std::vector<std::vector<std::span<float>>> windows_of(std::span<float> values, std::span<const Part> parts) const {
    const std::size_t longest = kWindowBytes / sizeof(float) / index(place_.size) + 1;
    std::vector<std::vector<std::span<float>>> windows(index(place_.size));
    for (const Part& part : parts) {
      for (std::size_t at = 0; at < part.count; at += longest) {
        windows[index(part.owner)].push_back(values.subspan(part.begin + at, std::min(longest, part.count - at)));
      }
    }
    return windows;
  }

  void wait() const {
    double last_s = base::now_s(), waited_s = 0;
    for (;;) {
      const Moved moved = messages_->poll();
      if (moved == Moved::all) return;
      // Counts a suspension of this process as at most one second of waiting.
      const double now_s = base::now_s();
      waited_s = moved == Moved::some ? 0 : waited_s + std::min(now_s - last_s, 1.0);
      last_s = now_s;
      if (waited_s > limit_s_) give_up();
      // Spins only briefly, because another rank may need the cores. Each sleep lasts a hundredth of the time waited so
      // far, so it adds at most one percent.
      constexpr double kSpin_s = 1e-3, kLongestSleep_s = 5e-3;
      if (waited_s > kSpin_s) usleep(static_cast<useconds_t>(1e6 * std::min(waited_s / 100, kLongestSleep_s)));
    }
  }

  [[noreturn]] void give_up() const {
    std::string whom;
    for (int peer = 0; peer < place_.size; ++peer) {
      if (messages_->waits_for(peer)) whom += (whom.empty() ? " rank " : ", ") + std::to_string(peer);
    }
    std::fprintf(stderr,
                 "qrl-train: rank %d has waited %.0f s for%s: a rank or its machine hangs; the job ends here (%s)\n",
                 place_.rank, limit_s_, whom.empty() ? " the other ranks" : whom.c_str(), setting_);
    abort_job(1);
  }

  /// Sends `mine` to all ranks, and receives each rank's bytes in place_of(rank). `mine` may be place_of(this rank).
  template <class PlaceOf>
  void gather(std::span<const std::byte> mine, const PlaceOf& place_of) {
    for (int peer = 0; peer < place_.size; ++peer) {
      const std::span<std::byte> place = place_of(peer);
      if (peer != place_.rank) {
        messages_->begin_receive(place, peer);
        messages_->begin_send(mine, peer);
      } else if (place.data() != mine.data()) {
        std::ranges::copy(mine, place.begin());
      }
    }
    wait();
  }

  /// Each rank folds one part of the array. Folds all ranks' values of this rank's part in rank order, and writes the
  /// result to `out`. part_of(r) returns this rank's values of the part that rank r folds. `out` may be part_of(this
  /// rank).
  template <class T, class PartOf, class Fold>
  void fold_mine(const PartOf& part_of, std::span<T> out, const Fold& fold) {
    std::vector<T> terms(out.size() * index(place_.size));
    const auto terms_of = [&](int rank) { return std::span(terms).subspan(index(rank) * out.size(), out.size()); };
    for (int peer = 0; peer < place_.size; ++peer) {
      if (peer == place_.rank) continue;
      messages_->begin_receive(std::as_writable_bytes(terms_of(peer)), peer);
      messages_->begin_send(std::as_bytes(std::span<const T>(part_of(peer))), peer);
    }
    std::ranges::copy(part_of(place_.rank), terms_of(place_.rank).begin());
    wait();
    using Wide = std::conditional_t<std::is_same_v<T, float>, double, T>;
    for (std::size_t i = 0; i < out.size(); ++i) {
      Wide folded = terms[i];
      for (std::size_t term = i + out.size(); term < terms.size(); term += out.size()) {
        folded = fold(folded, static_cast<Wide>(terms[term]));
      }
      out[i] = static_cast<T>(folded);
    }
  }

  template <class T, class Fold>
  void all_reduce(std::span<T> values, const Fold& fold) {
    constexpr std::size_t kWindow = kWindowBytes / sizeof(T);
    for (std::size_t at = 0; at < values.size(); at += kWindow) {
      const std::span<T> window = values.subspan(at, std::min(kWindow, values.size() - at));
      const auto part_of = [&](int rank) {
        const std::size_t begin = window.size() * index(rank) / index(place_.size);
        return window.subspan(begin, window.size() * (index(rank) + 1) / index(place_.size) - begin);
      };
      fold_mine(part_of, part_of(place_.rank), fold);
      gather(std::as_bytes(part_of(place_.rank)), [&](int rank) { return std::as_writable_bytes(part_of(rank)); });
    }
  }

  std::unique_ptr<Messages> messages_;
  Place place_;
  double limit_s_;
  const char* setting_;  ///< name of the setting of limit_s_, for error messages
};

}  // namespace

std::unique_ptr<Collectives> make_job(std::unique_ptr<Messages> messages, double join_limit_s) {
  return std::make_unique<Job>(std::move(messages), join_limit_s);
}

}  // namespace qrl::dist
