// Runs ranks as threads of one process, so that a test sees each rank's results.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "dist/collectives.h"

namespace qrl::test {

/// Adds in rank order, so every rank sees the same bits.
class Ranks {
 public:
  explicit Ranks(int count) : count_(count), parts_(static_cast<std::size_t>(count)), texts_(parts_.size()) {}

  /// Runs body(rank's collectives) on all ranks.
  template <class Body>
  void run(const Body& body) {
    std::vector<std::thread> others;
    for (int rank = 1; rank < count_; ++rank) {
      others.emplace_back([this, &body, rank] {
        Rank mine(*this, rank);
        body(mine);
      });
    }
    Rank first(*this, 0);
    body(first);
    for (std::thread& other : others) other.join();
  }

 private:
  class Rank final : public dist::Collectives {
   public:
    Rank(Ranks& all, int rank) : all_(all), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return all_.count_; }
    int local_size() const override { return all_.count_; }
    int local_rank() const override { return rank_; }
    void set_time_limit(double seconds) override { limit_s_ = seconds; }  // not enforced here; other code may read it
    double time_limit_s() const override { return limit_s_; }
    void barrier() override { all_.meet(); }
    void all_reduce_sum(std::span<float> values) override { reduce(values, std::plus<>()); }
    void all_reduce_sum(std::span<double> values) override { reduce(values, std::plus<>()); }
    void all_reduce_sum(std::span<std::int64_t> values) override { reduce(values, std::plus<>()); }
    void all_reduce_max(std::span<double> values) override {
      reduce(values, [](auto a, auto b) { return std::max(a, b); });
    }
    void all_reduce_min(std::span<std::int64_t> values) override {
      reduce(values, [](auto a, auto b) { return std::min(a, b); });
    }
    void reduce_scatter_sum(std::span<float> values, std::span<const dist::Part> parts) override {
      std::vector<float> sums(values.begin(), values.end());
      all_reduce_sum(std::span<float>(sums));
      for (const dist::Part& part : parts) {
        if (part.owner == rank_) std::copy_n(sums.data() + part.begin, part.count, values.data() + part.begin);
      }
    }
    void all_gather(std::span<std::byte> bytes, std::span<const dist::Part> parts) override {
      for (const dist::Part& part : parts) broadcast(bytes.subspan(part.begin, part.count), part.owner);
    }
    void broadcast(std::span<std::byte> bytes, int root) override {
      all_.parts_[index()] = bytes.data();
      all_.meet();
      if (rank_ != root) std::memcpy(bytes.data(), all_.parts_[static_cast<std::size_t>(root)], bytes.size());
      all_.meet();
    }
    std::vector<std::string> all_gather(const std::string& mine) override {
      all_.texts_[index()] = mine;
      all_.meet();
      const std::vector<std::string> all = all_.texts_;
      all_.meet();
      return all;
    }

   private:
    std::size_t index() const { return static_cast<std::size_t>(rank_); }
    template <class T, class Combine>
    void reduce(std::span<T> values, const Combine& combine) {
      all_.parts_[index()] = values.data();
      all_.meet();
      const T* first = static_cast<const T*>(all_.parts_[0]);
      std::vector<T> sums(first, first + values.size());
      for (std::size_t r = 1; r < all_.parts_.size(); ++r) {
        const T* part = static_cast<const T*>(all_.parts_[r]);
        for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = combine(sums[i], part[i]);
      }
      all_.meet();
      std::copy(sums.begin(), sums.end(), values.begin());
      all_.meet();
    }
    Ranks& all_;
    int rank_;
    double limit_s_ = kTimeLimit_s;
  };

  void meet() {
    std::unique_lock lock(mutex_);
    const int round = round_;
    if (++waiting_ == count_) {
      waiting_ = 0;
      ++round_;
      met_.notify_all();
    } else {
      met_.wait(lock, [&] { return round_ != round; });
    }
  }

  int count_;
  std::vector<void*> parts_;
  std::vector<std::string> texts_;
  std::mutex mutex_;
  std::condition_variable met_;
  int waiting_ = 0, round_ = 0;
};

}  // namespace qrl::test
