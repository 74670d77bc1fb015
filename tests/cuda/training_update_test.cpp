// Tests the kernels that end a mini-batch, and those that gather rows and sum them by lists, against fp64.
#include <cmath>
#include <numeric>

#include "cuda/train/training_kernels.h"
#include "device.h"

namespace {

using namespace qrl;
using namespace qrl::cuda;
using namespace qrl::cuda::test;

struct ListCase {
  std::int64_t width, gap;
  bool from_f32, to_f32, has_pair;
};
/// Widths that allow 16-byte reads and that do not, and more than one block's threads take at once.
constexpr ListCase kListCases[] = {{1, 0, true, true, false},
                                   {24, 8, false, false, true},
                                   {27, 3, true, false, true},
                                   {1100, 0, false, true, false},
                                   {1104, 0, true, true, true}};

/// Holds rows of bf16 or fp32 numbers on the device, with a gap after each.
class Rows {
 public:
  Rows(std::int64_t num_rows, const ListCase& how, bool is_f32, std::vector<float> values)
      : width_(how.width), stride_(how.width + how.gap), is_f32_(is_f32), f32_(spread(num_rows, values)) {
    std::vector<std::uint16_t> narrow;
    for (const float value : spread(num_rows, values)) narrow.push_back(bf16_of(value));
    if (!is_f32) bf16_.emplace(narrow);
  }
  ReadRows read() const { return {at(), stride_, is_f32_}; }
  WrittenRows written() const { return {at(), stride_, is_f32_}; }
  std::vector<float> values() const {
    std::vector<float> all = f32_.read(), dense;
    if (!is_f32_) {
      const std::vector<std::uint16_t> narrow = bf16_->read();
      for (std::size_t i = 0; i < all.size(); ++i) all[i] = float_of_bf16(narrow[i]);
    }
    for (std::size_t i = 0; i < all.size(); ++i)
      if (static_cast<std::int64_t>(i) % stride_ < width_) dense.push_back(all[i]);
    return dense;
  }

 private:
  std::vector<float> spread(std::int64_t num_rows, const std::vector<float>& values) const {
    std::vector<float> all(static_cast<std::size_t>(num_rows * stride_), 77.0F);
    for (std::int64_t row = 0; row < num_rows; ++row)
      std::copy_n(values.begin() + row * width_, width_, all.begin() + row * stride_);
    return all;
  }
  void* at() const { return is_f32_ ? static_cast<void*>(f32_.data()) : static_cast<void*>(bf16_->data()); }

  std::int64_t width_, stride_;
  bool is_f32_;
  OnDevice<float> f32_;
  std::optional<OnDevice<std::uint16_t>> bf16_;
};

double rounding(bool is_f32) { return is_f32 ? 1e-6 : 0x1p-8; }

}  // namespace

TEST_CASE("training gathers: rows and their sums by lists equal fp64") {
  if (!find_device()) return;
  const auto kernels = target::make_device_training(0);
  constexpr std::int64_t kRows = 9, kLists = 4, kTo = 6;
  const std::vector<std::int32_t> starts = {0, 3, 3, 4, 9}, rows = {8, 0, 8, 5, 1, 2, 3, 4, 7}, to_rows = {5, 0, 2, 3};
  for (const ListCase& how : kListCases) {
    INFO("width " << how.width << ", gap " << how.gap << ", fp32 " << how.from_f32 << how.to_f32);
    const OnDevice<std::int32_t> starts_there(starts), rows_there(rows), to_there(to_rows);
    const std::vector<float> held = normal_values(kTo * how.width, 1, 3);
    const Rows from[2] = {{kRows, how, how.from_f32, normal_values(kRows * how.width, 1, 1)},
                          {kRows, how, how.from_f32, normal_values(kRows * how.width, 1, 2)}};
    const auto width = static_cast<std::size_t>(how.width);
    in_both_orders([&] {
      for (const bool adds : {false, true}) {
        const Rows to[2] = {{kTo, how, how.to_f32, held}, {kTo, how, how.to_f32, held}};
        RowListsTask task;
        for (int i = 0; i < (how.has_pair ? 2 : 1); ++i) {
          task.from[i] = from[i].read();
          task.to[i] = to[i].written();
        }
        task.starts = starts_there.data();
        task.rows = rows_there.data();
        task.to_rows = to_there.data();
        task.adds = adds;
        task.num_lists = kLists;
        task.width = how.width;
        const target::Stream stream;
        kernels->sum_rows(task, {stream.handle()});
        stream.wait();
        for (int i = 0; i < 2; ++i) {
          const Rows as_held(kTo, how, how.to_f32, held);
          std::vector<float> want = as_held.values();
          const std::vector<float> x = from[i].values();
          for (std::size_t list = 0; list < kLists && (i == 0 || how.has_pair); ++list) {
            for (std::size_t c = 0; c < width; ++c) {
              float& sum = want[static_cast<std::size_t>(to_rows[list]) * width + c];
              double exact = adds ? static_cast<double>(sum) : 0.0;
              for (auto j = static_cast<std::size_t>(starts[list]); j < static_cast<std::size_t>(starts[list + 1]); ++j)
                exact += static_cast<double>(x[static_cast<std::size_t>(rows[j]) * width + c]);
              sum = static_cast<float>(exact);
            }
          }
          CHECK(first_beyond(to[i].values(), want, 2e-6, rounding(how.to_f32)) == "");
        }
      }
      // Lists of one row each gather rows, without changing any number.
      ListCase same = how;
      same.to_f32 = how.from_f32;
      const Rows to(kRows, same, how.from_f32, normal_values(kRows * how.width, 1, 4));
      RowListsTask task;
      task.from[0] = from[0].read();
      task.to[0] = to.written();
      task.rows = rows_there.data();
      task.num_lists = kRows;
      task.width = how.width;
      const target::Stream stream;
      kernels->sum_rows(task, {stream.handle()});
      stream.wait();
      std::vector<float> want;
      const std::vector<float> x = from[0].values();
      for (const std::int32_t row : rows)
        want.insert(want.end(), x.begin() + row * how.width, x.begin() + (row + 1) * how.width);
      CHECK(to.values() == want);
    });
  }
}

TEST_CASE("training norms: sums of squares per tensor in one launch, NaN where a number is NaN") {
  if (!find_device()) return;
  const auto kernels = target::make_device_training(0);
  const std::vector<std::int64_t> counts = {3, 2 * kSquaresPart + 5, 1, kSquaresPart, 700};
  std::vector<TensorSpan> spans;
  std::int64_t begin = 2, num_parts = 0;  // after unused numbers
  for (const std::int64_t count : counts) {
    spans.push_back({begin, count, num_parts});
    begin += count;
    num_parts += (count + kSquaresPart - 1) / kSquaresPart;
  }
  std::vector<float> values = normal_values(begin, 1, 1);
  values[0] = values[1] = NAN;
  values[static_cast<std::size_t>(spans[2].begin)] = NAN;
  const OnDevice<float> there(values);
  const OnDevice<TensorSpan> spans_there(spans);
  in_both_orders([&] {
    const OnDevice<double> squares(std::vector<double>(static_cast<std::size_t>(num_parts), NAN));
    const target::Stream stream;
    kernels->squares(
        {there.data(), spans_there.data(), static_cast<std::int64_t>(spans.size()), num_parts, squares.data()},
        {stream.handle()});
    stream.wait();
    const std::vector<double> got = squares.read();
    for (std::size_t i = 0; i < spans.size(); ++i) {
      INFO("tensor " << i);
      double exact = 0, sum = 0;
      for (std::int64_t k = 0; k < counts[i]; ++k)
        exact += std::pow(static_cast<double>(values[static_cast<std::size_t>(spans[i].begin + k)]), 2);
      const std::int64_t end = i + 1 < spans.size() ? spans[i + 1].first_part : num_parts;
      for (std::int64_t part = spans[i].first_part; part < end; ++part) sum += got[static_cast<std::size_t>(part)];
      if (i == 2) CHECK(std::isnan(sum));
      else CHECK(std::fabs(sum - exact) <= 1e-12 * exact);
    }
  });
}

TEST_CASE("training AdamW: equals fp64, writes rounded weights and clears gradients") {
  if (!find_device()) return;
  const auto kernels = target::make_device_training(0);
  for (const std::int64_t count : {1, 1027, 4096}) {
    for (const int copy : {0, 1, 2}) {  // none, bf16, fp32
      INFO(count << " numbers, copy " << copy);
      const std::vector<float> w = normal_values(count, 1, 1), g = normal_values(count, 1, 2),
                               m = normal_values(count, 0.1F, 3);
      std::vector<float> v = normal_values(count, 0.1F, 4);
      for (float& value : v) value *= value;
      AdamwTask task;
      task.count = count;
      task.lr = 0.01F;
      task.beta1 = 0.9F;
      task.beta2 = 0.95F;
      task.eps = 1e-8F;
      task.weight_decay = 0.1F;
      task.gradient_scale = 0.5F;
      task.first_correction = 1 / (1 - 0.9F * 0.9F);
      task.second_correction = 1 / (1 - 0.95F * 0.95F);
      std::vector<float> want_w, want_m, want_v;
      for (std::size_t i = 0; i < w.size(); ++i) {
        const auto d = [](float x) { return static_cast<double>(x); };
        const double gradient = d(g[i]) * 0.5, first = d(m[i]) * d(task.beta1) + gradient * (1 - d(task.beta1)),
                     second = d(v[i]) * d(task.beta2) + gradient * gradient * (1 - d(task.beta2)),
                     root = std::sqrt(second * d(task.second_correction)) + d(task.eps);
        want_m.push_back(static_cast<float>(first));
        want_v.push_back(static_cast<float>(second));
        want_w.push_back(static_cast<float>(d(w[i]) * (1 - d(task.lr) * d(task.weight_decay)) -
                                            first * d(task.lr) * d(task.first_correction) / root));
      }
      in_both_orders([&] {
        const OnDevice<float> weights(w), gradients(g), exp_avg(m), exp_avg_sq(v),
            wide(std::vector<float>(w.size(), NAN));
        const OnDevice<std::uint16_t> narrow(std::vector<std::uint16_t>(w.size(), 0xffff));
        task.weights = weights.data();
        task.gradients = gradients.data();
        task.exp_avg = exp_avg.data();
        task.exp_avg_sq = exp_avg_sq.data();
        task.copy = copy == 0 ? nullptr : copy == 1 ? static_cast<void*>(narrow.data()) : wide.data();
        task.copy_is_f32 = copy == 2;
        const target::Stream stream;
        kernels->adamw(task, {stream.handle()});
        stream.wait();
        CHECK(first_beyond(weights.read(), want_w, 1e-6, 1e-6) == "");
        CHECK(first_beyond(exp_avg.read(), want_m, 1e-7, 1e-6) == "");
        CHECK(first_beyond(exp_avg_sq.read(), want_v, 1e-8, 1e-6) == "");
        CHECK(gradients.read() == std::vector<float>(w.size(), 0.0F));
        const std::vector<float> now = weights.read();
        if (copy == 2) CHECK(wide.read() == now);
        std::vector<std::uint16_t> rounded;
        for (const float value : now) rounded.push_back(bf16_of(value));
        if (copy == 1) CHECK(narrow.read() == rounded);
      });
    }
  }
}
