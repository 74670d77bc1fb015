// Tests the training kernels against the same arithmetic in fp64 on the values that they read. Covers forward and
// backward, bf16 and fp32, rows that allow 16-byte reads and rows that do not.
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "cuda/train/training_kernels.h"
#include "device.h"

namespace {

using namespace qrl;
using namespace qrl::cuda;
using namespace qrl::cuda::test;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kF32Error = 1e-6, kBf16Error = 0x1p-8;  ///< relative: the last rounding and fp32's earlier loss
double error_of(bool is_f32) { return is_f32 ? kF32Error : kBf16Error; }

/// Holds rows on the device that are `gap` numbers apart; the gaps must stay unchanged.
class GapRows {
 public:
  GapRows(std::int64_t num_rows, std::int64_t width, std::int64_t gap, bool is_f32, const std::vector<float>& dense)
      : num_rows_(num_rows), width_(width), stride_(width + gap), is_f32_(is_f32), bytes_(bytes_of(dense)) {}
  /// Allocates unwritten rows.
  GapRows(std::int64_t num_rows, std::int64_t width, std::int64_t gap, bool is_f32)
      : GapRows(num_rows, width, gap, is_f32,
                std::vector<float>(static_cast<std::size_t>(num_rows * width), kNobodys)) {}
  ReadRows read() const { return {bytes_.data(), stride_, is_f32_}; }
  WrittenRows written() const { return {bytes_.data(), stride_, is_f32_}; }
  /// Returns the values as the kernels read them, rounded if they are bf16; dense.
  std::vector<float> values() const {
    const std::vector<std::uint8_t> bytes = bytes_.read();
    std::vector<float> dense;
    for (std::int64_t row = 0; row < num_rows_; ++row) {
      for (std::int64_t i = 0; i < stride_; ++i) {
        const auto at = static_cast<std::size_t>(row * stride_ + i);
        float value = 0;
        std::uint16_t code = 0;
        if (is_f32_) std::memcpy(&value, &bytes[4 * at], 4);
        else std::memcpy(&code, &bytes[2 * at], 2);
        if (!is_f32_) value = float_of_bf16(code);
        if (i < width_) dense.push_back(value);
        else if (value != kNobodys) FAIL("row " << row << " is written beyond its width, at " << i);
      }
    }
    return dense;
  }

 private:
  static constexpr float kNobodys = 77;
  std::vector<std::uint8_t> bytes_of(const std::vector<float>& dense) const {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(num_rows_ * stride_ * (is_f32_ ? 4 : 2)));
    for (std::int64_t row = 0; row < num_rows_; ++row) {
      for (std::int64_t i = 0; i < stride_; ++i) {
        const auto at = static_cast<std::size_t>(row * stride_ + i);
        const float value = i < width_ ? dense[static_cast<std::size_t>(row * width_ + i)] : kNobodys;
        const std::uint16_t code = bf16_of(value);
        if (is_f32_) std::memcpy(&bytes[4 * at], &value, 4);
        else std::memcpy(&bytes[2 * at], &code, 2);
      }
    }
    return bytes;
  }
  std::int64_t num_rows_, width_, stride_;
  bool is_f32_;
  OnDevice<std::uint8_t> bytes_;
};

std::vector<float> to_floats(const std::vector<double>& values) { return {values.begin(), values.end()}; }

/// A learner's dtypes of input and output; gaps between rows that allow 16-byte reads and gaps that do not.
struct Layout {
  bool in_f32, out_f32;
  std::int64_t gap;
};
constexpr Layout kLayouts[] = {
    {false, false, 0}, {true, true, 8}, {false, true, 16}, {true, false, 3}, {false, false, 5}};

struct Swiglu {
  std::vector<double> out, d_gate_up;
};
Swiglu swiglu_in_f64(const std::vector<float>& gate_up, const std::vector<float>& d_out, std::int64_t num_rows,
                     std::int64_t width) {
  Swiglu want;
  for (std::int64_t row = 0; row < num_rows; ++row) {
    std::vector<double> d_up;
    for (std::int64_t i = 0; i < width; ++i) {
      const double g = gate_up[static_cast<std::size_t>(2 * row * width + i)];
      const double u = gate_up[static_cast<std::size_t>((2 * row + 1) * width + i)];
      const double d = d_out[static_cast<std::size_t>(row * width + i)], sigmoid = 1 / (1 + std::exp(-g));
      want.out.push_back(g * sigmoid * u);
      want.d_gate_up.push_back(d * u * sigmoid * (1 + g * (1 - sigmoid)));
      d_up.push_back(d * g * sigmoid);
    }
    want.d_gate_up.insert(want.d_gate_up.end(), d_up.begin(), d_up.end());
  }
  return want;
}

struct NormShape {
  std::int64_t num_rows, width;
  bool has_branch, has_bias, has_d_sum;
};
/// Rows for one block and for several, for one pass of a block and for more, with and without 16-byte alignment.
constexpr NormShape kNormShapes[] = {{1, 1, true, true, true},      {3, 7, true, false, true},
                                     {70, 96, true, true, true},    {33, 257, true, true, false},
                                     {2, 2056, true, false, false}, {35, 4104, true, true, true},
                                     {40, 64, false, false, false}, {5, 520, false, false, true}};
struct NormInputs {
  std::vector<float> x, branch, bias, gain, d_out, d_sum;
};
/// Holds the results in fp64, computed from the sums as stored.
struct AddedNorm {
  std::vector<double> sum, out, d_x, d_gain, d_bias;
};
AddedNorm add_norm_in_f64(const NormShape& shape, const NormInputs& in, double eps) {
  const auto width = static_cast<std::size_t>(shape.width);
  AddedNorm want;
  want.d_gain.assign(width, 1);  // gradients accumulate
  want.d_bias.assign(width, 1);
  for (std::size_t row = 0; row < static_cast<std::size_t>(shape.num_rows); ++row) {
    std::vector<double> x;
    double squares = 0, along = 0;
    for (std::size_t i = 0; i < width; ++i) {
      const double branch = shape.has_branch ? in.branch[row * width + i] : 0.0;
      x.push_back(in.x[row * width + i] + branch + (shape.has_bias ? in.bias[i] : 0.0));
      squares += x[i] * x[i];
    }
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(width) + eps);
    for (std::size_t i = 0; i < width; ++i) {
      want.sum.push_back(x[i]);
      want.out.push_back(x[i] * inverse * in.gain[i]);
      along += in.d_out[row * width + i] * in.gain[i] * x[i] * inverse / static_cast<double>(width);
    }
    for (std::size_t i = 0; i < width; ++i) {
      const double d = in.d_out[row * width + i], later = shape.has_d_sum ? in.d_sum[row * width + i] : 0.0;
      const double d_x = inverse * (d * in.gain[i] - x[i] * inverse * along) + later;
      want.d_x.push_back(d_x);
      want.d_gain[i] += d * x[i] * inverse;
      want.d_bias[i] += d_x;
    }
  }
  return want;
}

struct AddedNormOutputs {
  std::vector<float> sum, out, d_x, d_branch, d_gain, d_bias;
};
AddedNormOutputs run_add_norm(const TrainingKernels& kernels, const NormShape& shape, const NormInputs& in, float eps,
                              const Layout& layout) {
  const std::int64_t rows = shape.num_rows, width = shape.width;
  const auto there = [&](bool is_f32, const std::vector<float>& dense) {
    return GapRows(rows, width, layout.gap, is_f32, dense);
  };
  const GapRows x = there(true, in.x), branch = there(layout.in_f32, in.branch),
                d_out = there(layout.out_f32, in.d_out), d_sum = there(true, in.d_sum);
  const GapRows sum(rows, width, layout.gap, true), out(rows, width, layout.gap, layout.out_f32),
      d_x(rows, width, layout.gap, true), d_branch(rows, width, layout.gap, layout.in_f32);
  const OnDevice<float> bias(in.bias), gain(in.gain), inverse_rms(static_cast<std::size_t>(rows));
  const std::vector<float> ones(static_cast<std::size_t>(width), 1.0F);
  const OnDevice<float> d_gain(ones), d_bias(ones);
  const auto num_scratch = static_cast<std::size_t>(kernels.add_norm_scratch_floats(rows, width, shape.has_bias));
  const OnDevice<float> scratch(std::vector<float>(num_scratch, NAN));
  const target::Stream stream;
  kernels.add_norm(
      {x.read(), shape.has_branch ? branch.read() : ReadRows{}, shape.has_bias ? bias.data() : nullptr, gain.data(),
       eps, shape.has_branch ? sum.written() : WrittenRows{}, out.written(), inverse_rms.data(), rows, width},
      {stream.handle()});
  kernels.add_norm_gradient({shape.has_branch ? sum.read() : x.read(), gain.data(), inverse_rms.data(), d_out.read(),
                             shape.has_d_sum ? d_sum.read() : ReadRows{}, d_x.written(),
                             shape.has_branch ? d_branch.written() : WrittenRows{}, d_gain.data(),
                             shape.has_bias ? d_bias.data() : nullptr, scratch.data(), rows, width},
                            {stream.handle()});
  stream.wait();
  return {sum.values(), out.values(), d_x.values(), d_branch.values(), d_gain.read(), d_bias.read()};
}

struct HeadsShape {
  std::int64_t num_rows, num_heads, num_kv_heads, head_dim;
  bool has_bias, has_norms;
  std::int64_t columns() const { return (num_heads + 2 * num_kv_heads) * head_dim; }
};
/// Covers odd halves, halves that are no multiple of eight in rows that are, and halves of eight times a number that is
/// no power of two. Also covers more heads than a block has threads, more rows than a block takes, and the smallest and
/// largest head widths.
constexpr HeadsShape kHeadsShapes[] = {
    {1, 4, 2, 128, true, false},   {70, 3, 1, 16, true, true}, {33, 2, 2, 10, true, true},  {5, 6, 2, 80, false, true},
    {40, 33, 3, 64, true, true},   {3, 1, 1, 2, false, false}, {2, 2, 1, 512, false, true}, {2, 2, 1, 258, true, true},
    {64, 12, 2, 128, true, false}, {5, 2, 1, 24, true, true}};

/// Holds all inputs and outputs of the transform in fp64.
struct HeadsInF64 {
  std::vector<double> q, k, v, d_qkv, d_bias, d_q_gain, d_k_gain;
};
struct HeadsInputs {
  std::vector<float> heads, d_q, d_k, d_v, bias, q_gain, k_gain, angles;
};
HeadsInF64 heads_in_f64(const HeadsShape& shape, const HeadsInputs& in, double eps) {
  const std::int64_t width = shape.head_dim, half = width / 2;
  HeadsInF64 want;
  want.d_bias.resize(static_cast<std::size_t>(shape.columns()));
  want.d_q_gain.resize(static_cast<std::size_t>(width));
  want.d_k_gain = want.d_q_gain;
  want.d_qkv.resize(static_cast<std::size_t>(shape.num_rows * shape.columns()));
  for (std::int64_t row = 0; row < shape.num_rows; ++row) {
    for (std::int64_t head = 0; head < shape.num_heads + 2 * shape.num_kv_heads; ++head) {
      const bool is_q = head < shape.num_heads, is_v = head >= shape.num_heads + shape.num_kv_heads;
      const std::int64_t of_part = is_q ? head : (head - shape.num_heads) % shape.num_kv_heads;
      const std::int64_t heads = is_q ? shape.num_heads : shape.num_kv_heads;
      const std::vector<float>& gain = is_q ? in.q_gain : in.k_gain;
      const std::vector<float>& d_out = is_q ? in.d_q : is_v ? in.d_v : in.d_k;
      std::vector<double> x, d, normed;
      double squares = 0;
      for (std::int64_t i = 0; i < width; ++i) {
        const auto column = static_cast<std::size_t>(head * width + i);
        x.push_back(in.heads[static_cast<std::size_t>(row * shape.columns()) + column] +
                    (shape.has_bias ? in.bias[column] : 0.0));
        squares += x.back() * x.back();
        d.push_back(d_out[static_cast<std::size_t>((row * heads + of_part) * width + i)]);
      }
      const bool norms = shape.has_norms && !is_v;
      const double inverse = norms ? 1 / std::sqrt(squares / static_cast<double>(width) + eps) : 1;
      for (std::int64_t i = 0; i < width; ++i)
        normed.push_back(x[static_cast<std::size_t>(i)] * inverse * (norms ? gain[static_cast<std::size_t>(i)] : 1.0));
      std::vector<double> out = normed, d_normed = d;
      for (std::int64_t i = 0; i < half && !is_v; ++i) {
        const auto a = static_cast<std::size_t>(i), b = static_cast<std::size_t>(i + half);
        const double cosine = in.angles[static_cast<std::size_t>(row * width) + a];
        const double sine = in.angles[static_cast<std::size_t>(row * width) + b];
        out[a] = normed[a] * cosine - normed[b] * sine;
        out[b] = normed[b] * cosine + normed[a] * sine;
        d_normed[a] = d[a] * cosine + d[b] * sine;
        d_normed[b] = d[b] * cosine - d[a] * sine;
      }
      std::vector<double>& to = is_q ? want.q : is_v ? want.v : want.k;
      to.insert(to.end(), out.begin(), out.end());
      double along = 0;
      for (std::size_t i = 0; norms && i < x.size(); ++i) {
        (is_q ? want.d_q_gain : want.d_k_gain)[i] += d_normed[i] * x[i] * inverse;
        along += d_normed[i] * gain[i] * x[i] * inverse / static_cast<double>(width);
      }
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double d_x = norms ? inverse * (d_normed[i] * gain[i] - x[i] * inverse * along) : d_normed[i];
        want.d_qkv[static_cast<std::size_t>(row * shape.columns() + head * width) + i] = d_x;
        want.d_bias[static_cast<std::size_t>(head * width) + i] += d_x;
      }
    }
  }
  return want;
}

HeadsInputs inputs_of(const HeadsShape& shape) {
  const std::int64_t rows = shape.num_rows, width = shape.head_dim;
  HeadsInputs in;
  in.heads = normal_values(rows * shape.columns(), 1.5F, 1);
  in.d_q = normal_values(rows * shape.num_heads * width, 1, 2);
  in.d_k = normal_values(rows * shape.num_kv_heads * width, 1, 3);
  in.d_v = normal_values(rows * shape.num_kv_heads * width, 1, 4);
  in.bias = normal_values(shape.columns(), 1, 5);
  in.q_gain = normal_values(width, 1, 6);
  in.k_gain = normal_values(width, 1, 7);
  in.angles = normal_values(rows * width, 1, 8);  // the kernels take them as they are
  return in;
}

/// Holds the kernels' outputs.
struct HeadsOutputs {
  std::vector<float> q, k, v, d_qkv, d_bias, d_q_gain, d_k_gain;
};
HeadsOutputs run_heads(const TrainingKernels& kernels, const HeadsShape& shape, const HeadsInputs& in,
                       const Layout& layout) {
  const std::int64_t rows = shape.num_rows, queries = shape.num_heads * shape.head_dim,
                     keys = shape.num_kv_heads * shape.head_dim;
  const OnDevice<float> bias(in.bias), q_gain(in.q_gain), k_gain(in.k_gain), angles(in.angles);
  HeadTransform transform{rows, shape.num_heads, shape.num_kv_heads, shape.head_dim};
  transform.bias = shape.has_bias ? bias.data() : nullptr;
  transform.q_gain = shape.has_norms ? q_gain.data() : nullptr;
  transform.k_gain = shape.has_norms ? k_gain.data() : nullptr;
  transform.norm_eps = 1e-6F;
  transform.angles = angles.data();
  const GapRows heads(rows, shape.columns(), layout.gap, layout.in_f32, in.heads);
  const GapRows d_q(rows, queries, 0, layout.out_f32, in.d_q), d_k(rows, keys, layout.gap, layout.out_f32, in.d_k),
      d_v(rows, keys, 0, layout.out_f32, in.d_v);
  const GapRows q(rows, queries, 0, layout.out_f32), k(rows, keys, layout.gap, layout.out_f32),
      v(rows, keys, 0, layout.out_f32), d_qkv(rows, shape.columns(), 0, layout.in_f32);
  // Gradients accumulate.
  const auto ones = [](std::int64_t count) { return std::vector<float>(static_cast<std::size_t>(count), 1.0F); };
  const OnDevice<float> d_bias(ones(shape.columns())), d_q_gain(ones(shape.head_dim)), d_k_gain(ones(shape.head_dim));
  const OnDevice<float> scratch(
      std::vector<float>(static_cast<std::size_t>(kernels.heads_scratch_floats(transform)), NAN));
  const target::Stream stream;
  kernels.transform_heads({transform, heads.read(), q.written(), k.written(), v.written()}, {stream.handle()});
  kernels.transform_heads_gradient(
      {transform, shape.has_norms ? heads.read() : ReadRows{}, d_q.read(), d_k.read(), d_v.read(), d_qkv.written(),
       d_bias.data(), d_q_gain.data(), d_k_gain.data(), scratch.data()},
      {stream.handle()});
  stream.wait();
  return {q.values(), k.values(), v.values(), d_qkv.values(), d_bias.read(), d_q_gain.read(), d_k_gain.read()};
}

struct Scores {
  std::vector<double> log_probs, entropies, d_logits;
};
/// Computes scores of rows as a sampler sees them: a logit of −inf cannot be sampled.
Scores scores_in_f64(const std::vector<float>& logits, const std::vector<std::int64_t>& targets, double temperature,
                     const std::vector<float>& d_log_probs, const std::vector<float>& d_entropies) {
  const std::size_t vocab_size = logits.size() / targets.size();
  Scores want;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    const float* x = logits.data() + row * vocab_size;
    double largest = -std::numeric_limits<double>::infinity(), sum = 0, entropy = 0;
    for (std::size_t i = 0; i < vocab_size; ++i) largest = std::fmax(largest, x[i] / temperature);
    for (std::size_t i = 0; i < vocab_size; ++i) sum += std::exp(x[i] / temperature - largest);
    const auto log_p = [&](std::size_t i) { return x[i] / temperature - largest - std::log(sum); };
    for (std::size_t i = 0; i < vocab_size; ++i) {
      if (const double log = log_p(i); log != -std::numeric_limits<double>::infinity()) entropy -= std::exp(log) * log;
    }
    want.log_probs.push_back(log_p(static_cast<std::size_t>(targets[row])));
    want.entropies.push_back(entropy);
    for (std::size_t i = 0; i < vocab_size; ++i) {
      const double log = log_p(i), p = std::exp(log);
      const double of_target = (static_cast<std::size_t>(targets[row]) == i ? 1.0 : 0.0) - p;
      const double of_entropy = p == 0 ? 0 : -p * (log + entropy);
      want.d_logits.push_back((of_target * d_log_probs[row] + of_entropy * d_entropies[row]) / temperature);
    }
  }
  return want;
}

/// Returns ordinary rows, and one row each: flat, far apart, huge, cut down to a few tokens, with a single token left.
std::vector<float> logit_rows(std::int64_t vocab_size, const std::vector<std::int64_t>& targets) {
  std::vector<float> logits = normal_values(static_cast<std::int64_t>(targets.size()) * vocab_size, 4, 9);
  const auto row = [&](std::size_t r) { return logits.begin() + static_cast<std::int64_t>(r) * vocab_size; };
  std::fill(row(1), row(2), 3.5F);
  for (auto it = row(2); it != row(3); ++it) *it *= 20;
  for (auto it = row(3); it != row(4); ++it) *it = 1e30F + *it * 1e27F;
  for (std::int64_t i = 0; i < vocab_size; ++i) {
    if (i % 3 != 0 && i != targets[4]) row(4)[i] = -kInfinity;
    if (i != targets[5]) row(5)[i] = -kInfinity;
  }
  return logits;
}

/// Returns scratch memory, which must not be read before it is written.
OnDevice<float> score_scratch(const TrainingKernels& kernels, std::int64_t num_rows, std::int64_t vocab_size) {
  return OnDevice<float>(
      std::vector<float>(static_cast<std::size_t>(kernels.score_scratch_floats(num_rows, vocab_size)), NAN));
}

}  // namespace

TEST_CASE("training SwiGLU: output and gradients equal fp64, for any row stride") {
  if (!find_device()) return;
  const auto kernels = target::make_device_training(0);
  for (const std::int64_t width : {1, 7, 96, 257, 2056}) {
    for (const Layout& layout : kLayouts) {
      for (const std::int64_t num_rows : {1, 3}) {
        INFO("width " << width << ", gap " << layout.gap << ", fp32 " << layout.in_f32 << layout.out_f32);
        std::vector<float> values = normal_values(num_rows * 2 * width, 4, static_cast<std::uint64_t>(width));
        values[0] = 200;  // sigmoids of 1 and of nearly 0
        if (width > 1) values[1] = -80;
        const GapRows gate_up(num_rows, 2 * width, layout.gap, layout.in_f32, values);
        const GapRows d_out(num_rows, width, layout.gap, layout.out_f32, normal_values(num_rows * width, 1, 10));
        const Swiglu want = swiglu_in_f64(gate_up.values(), d_out.values(), num_rows, width);
        in_both_orders([&] {
          const GapRows out(num_rows, width, layout.gap, layout.out_f32),
              d_gate_up(num_rows, 2 * width, layout.gap, layout.in_f32);
          const target::Stream stream;
          kernels->swiglu({gate_up.read(), out.written(), num_rows, width}, {stream.handle()});
          kernels->swiglu_gradient({gate_up.read(), d_out.read(), d_gate_up.written(), num_rows, width},
                                   {stream.handle()});
          stream.wait();
          CHECK(first_beyond(out.values(), to_floats(want.out), 1e-30, error_of(layout.out_f32)) == "");
          // 1 + g (1 − sigmoid) crosses 0, where only its terms' last bits remain.
          CHECK(first_beyond(d_gate_up.values(), to_floats(want.d_gate_up), 2e-6, error_of(layout.in_f32)) == "");
        });
      }
    }
  }
}

TEST_CASE("training residual sums: sums, norms and all gradients equal fp64") {
  if (!find_device()) return;
  const auto kernels = target::make_device_training(0);
  constexpr float kEps = 1e-5F;
  for (const NormShape& shape : kNormShapes) {
    for (const Layout& layout : kLayouts) {
      INFO(shape.num_rows << " rows of " << shape.width << ", branch " << shape.has_branch << ", bias "
                          << shape.has_bias << ", gap " << layout.gap << ", fp32 " << layout.in_f32 << layout.out_f32);
      const std::int64_t count = shape.num_rows * shape.width;
      NormInputs in{normal_values(count, 2, 1),       normal_values(count, 1, 2), normal_values(shape.width, 1, 3),
                    normal_values(shape.width, 1, 4), normal_values(count, 1, 5), normal_values(count, 1, 6)};
      std::fill_n(in.x.begin(), shape.width, 1e-4F);  // where eps counts
      std::fill_n(in.branch.begin(), shape.width, 0.0F);
      const auto rounded = [](std::vector<float>& values) {
        for (float& value : values) value = float_of_bf16(bf16_of(value));
      };
      if (!layout.in_f32) rounded(in.branch);
      if (!layout.out_f32) rounded(in.d_out);
      const AddedNorm want = add_norm_in_f64(shape, in, static_cast<double>(kEps));
      in_both_orders([&] {
        const AddedNormOutputs got = run_add_norm(*kernels, shape, in, kEps, layout);
        if (shape.has_branch) CHECK(first_beyond(got.sum, to_floats(want.sum), 1e-6, kF32Error) == "");
        CHECK(first_beyond(got.out, to_floats(want.out), 2e-6, 2 * error_of(layout.out_f32)) == "");
        // A few times the largest errors observed, for sums of up to 4104 numbers and up to 70 rows, where eps matters
        // as well.
        CHECK(first_beyond(got.d_x, to_floats(want.d_x), 2e-6, 2 * kF32Error) == "");
        if (shape.has_branch)
          CHECK(first_beyond(got.d_branch, to_floats(want.d_x), 2e-6, layout.in_f32 ? 2 * kF32Error : kBf16Error) ==
                "");
        CHECK(first_beyond(got.d_gain, to_floats(want.d_gain), 1e-5, 2 * kF32Error) == "");
        const std::vector<double> untouched(want.d_bias.size(), 1);
        CHECK(first_beyond(got.d_bias, to_floats(shape.has_bias ? want.d_bias : untouched), shape.has_bias ? 1e-5 : 0,
                           shape.has_bias ? 2 * kF32Error : 0) == "");
        CHECK(run_add_norm(*kernels, shape, in, kEps, layout).d_gain == got.d_gain);
      });
    }
  }
}

TEST_CASE("training QKV: outputs and gradients through bias, norms and rotary positions equal fp64") {
  if (!find_device()) return;
  const auto kernels = target::make_device_training(0);
  for (const HeadsShape& shape : kHeadsShapes) {
    for (const Layout& layout : kLayouts) {
      INFO(shape.num_rows << " rows of " << shape.num_heads << " + 2 · " << shape.num_kv_heads << " heads of "
                          << shape.head_dim << ", gap " << layout.gap << ", fp32 " << layout.in_f32 << layout.out_f32);
      HeadsInputs in = inputs_of(shape);
      const auto rounded = [](std::vector<float>& values) {
        for (float& value : values) value = float_of_bf16(bf16_of(value));
      };
      if (!layout.in_f32) rounded(in.heads);
      if (!layout.out_f32) rounded(in.d_q), rounded(in.d_k), rounded(in.d_v);
      const HeadsInF64 want = heads_in_f64(shape, in, 1e-6);
      in_both_orders([&] {
        const HeadsOutputs got = run_heads(*kernels, shape, in, layout);
        // Sums of a head's 512 numbers, and differences of two terms some ten times as large.
        const double out = 3 * error_of(layout.out_f32), back = 3 * error_of(layout.in_f32);
        CHECK(first_beyond(got.q, to_floats(want.q), 5e-6, out) == "");
        CHECK(first_beyond(got.k, to_floats(want.k), 5e-6, out) == "");
        CHECK(first_beyond(got.v, to_floats(want.v), 5e-6, out) == "");
        CHECK(first_beyond(got.d_qkv, to_floats(want.d_qkv), 1e-5, back) == "");
        const auto check_sums = [](const std::vector<float>& sums, std::vector<double> wanted, bool is_there) {
          for (double& value : wanted) value = is_there ? value + 1 : 1;
          CHECK(first_beyond(sums, to_floats(wanted), is_there ? 1e-4 : 0, is_there ? 1e-5 : 0) == "");
        };
        check_sums(got.d_bias, want.d_bias, shape.has_bias);
        check_sums(got.d_q_gain, want.d_q_gain, shape.has_norms);
        check_sums(got.d_k_gain, want.d_k_gain, shape.has_norms);
        const HeadsOutputs again = run_heads(*kernels, shape, in, layout);
        CHECK(again.d_bias == got.d_bias);
        CHECK(again.d_q_gain == got.d_q_gain);
      });
    }
  }
}

TEST_CASE("training log-probs: values, entropies and gradients equal fp64, also over kept tokens") {
  if (!find_device()) return;
  const auto kernels = target::make_device_training(0);
  for (const std::int64_t vocab_size : {1, 40, 37, 515, 8192, 9001, 16384, 16392, 32771}) {
    for (const float temperature : {1.0F, 0.7F, 3.0F}) {
      for (const bool has_entropy : {true, false}) {
        INFO("vocabulary of " << vocab_size << ", temperature " << temperature << ", entropy " << has_entropy);
        const std::vector<std::int64_t> targets = {0, vocab_size - 1, vocab_size / 2, 0, vocab_size / 3, 0};
        const auto num_rows = static_cast<std::int64_t>(targets.size());
        const std::vector<float> logits = logit_rows(vocab_size, targets), d_log_probs = {1, -0.5F, 0, 2, 0.3F, 1};
        const std::vector<float> d_entropies =
            has_entropy ? std::vector<float>{0.1F, 1, -1, 0.5F, 0.2F, 1} : std::vector<float>(targets.size());
        const Scores want = scores_in_f64(logits, targets, static_cast<double>(temperature), d_log_probs, d_entropies);
        const OnDevice<std::int64_t> targets_there(targets);
        const OnDevice<float> d_log_probs_there(d_log_probs), d_entropies_there(d_entropies);
        for (const bool is_f32 : {true, false}) {
          in_both_orders([&] {
            const OnDevice<float> logits_there(logits), log_probs(targets.size()), entropies(targets.size());
            const OnDevice<RowSums> sums(targets.size());
            const OnDevice<float> scratch = score_scratch(*kernels, num_rows, vocab_size);
            const GapRows quantized(num_rows, vocab_size, 0, false);
            const ScoreTask task{logits_there.data(), num_rows,         vocab_size,  targets_there.data(), temperature,
                                 log_probs.data(),    entropies.data(), sums.data(), scratch.data()};
            const target::Stream stream;
            kernels->score(task, {stream.handle()});
            kernels->score_gradient({task, d_log_probs_there.data(), has_entropy ? d_entropies_there.data() : nullptr,
                                     is_f32 ? logits_there.data() : quantized.written().values, is_f32},
                                    {stream.handle()});
            stream.wait();
            // A logit over the temperature is rounded: 2⁻²⁴ of a value up to 400 below the largest, or 3e28 in one row.
            CHECK(first_beyond(log_probs.read(), to_floats(want.log_probs), 5e-6, 1e-6) == "");
            CHECK(first_beyond(entropies.read(), to_floats(want.entropies), 2e-5, 2e-6) == "");
            const std::vector<float> got = is_f32 ? logits_there.read() : quantized.values();
            CHECK(first_beyond(got, to_floats(want.d_logits), 2e-7, is_f32 ? 3e-5 : kBf16Error) == "");
          });
        }
      }
    }
  }
}

TEST_CASE("training log-probs: a row's bits do not depend on other rows") {
  if (!find_device()) return;
  const auto kernels = target::make_device_training(0);
  for (const std::int64_t vocab_size : {37, 16392, 49152}) {
    constexpr std::int64_t kMost = 133;  // more than one block joins
    const std::vector<std::int64_t> targets(kMost, vocab_size / 2);
    const OnDevice<float> logits(normal_values(kMost * vocab_size, 4, 12));
    const OnDevice<std::int64_t> targets_there(targets);
    const auto scores_of = [&](std::int64_t first, std::int64_t num_rows) {
      const auto count = static_cast<std::size_t>(num_rows);
      const OnDevice<float> log_probs(count), entropies(count);
      const OnDevice<RowSums> sums(count);
      const OnDevice<float> scratch = score_scratch(*kernels, num_rows, vocab_size);
      const target::Stream stream;
      kernels->score({logits.data() + first * vocab_size, num_rows, vocab_size, targets_there.data(), 0.7F,
                      log_probs.data(), entropies.data(), sums.data(), scratch.data()},
                     {stream.handle()});
      stream.wait();
      std::vector<float> both = log_probs.read();
      const std::vector<float> more = entropies.read();
      both.insert(both.end(), more.begin(), more.end());
      return both;
    };
    const std::vector<float> all = scores_of(0, kMost);
    for (const std::int64_t row : {0, 1, 64, 132}) {
      INFO("row " << row << " of a vocabulary of " << vocab_size);
      const auto at = static_cast<std::size_t>(row);
      CHECK(scores_of(row, 1) == std::vector<float>{all[at], all[at + kMost]});
    }
  }
}

TEST_CASE("training log-probs: a non-finite row gives NaN log-prob, entropy and gradient in that row only") {
  if (!find_device()) return;
  const auto kernels = target::make_device_training(0);
  for (const std::int64_t vocab_size : {40, 9001, 16400}) {
    const std::vector<std::int64_t> targets = {1, 2, 3, 4};
    std::vector<float> logits = normal_values(4 * vocab_size, 1, 11);
    const auto size = static_cast<std::size_t>(vocab_size);
    logits[size - 1] = NAN;
    logits[size + 7] = kInfinity;
    std::fill_n(logits.begin() + 2 * vocab_size, vocab_size, -kInfinity);
    const OnDevice<float> logits_there(logits), log_probs(4), entropies(4), d(std::vector<float>{1, 1, 1, 1});
    const OnDevice<std::int64_t> targets_there(targets);
    const OnDevice<RowSums> sums(4);
    const OnDevice<float> scratch = score_scratch(*kernels, 4, vocab_size);
    const ScoreTask task{logits_there.data(), 4,           vocab_size,    targets_there.data(), 1.0F, log_probs.data(),
                         entropies.data(),    sums.data(), scratch.data()};
    const target::Stream stream;
    kernels->score(task, {stream.handle()});
    kernels->score_gradient({task, d.data(), d.data(), logits_there.data(), true}, {stream.handle()});
    stream.wait();
    const std::vector<float> got = logits_there.read();
    for (std::size_t row = 0; row < 4; ++row) {
      INFO("row " << row);
      CHECK(std::isnan(log_probs.read()[row]) == (row < 3));
      CHECK(std::isnan(entropies.read()[row]) == (row < 3));
      std::size_t num_nan = 0;
      for (std::size_t i = 0; i < size; ++i) num_nan += std::isnan(got[row * size + i]) ? 1 : 0;
      CHECK(num_nan == (row < 3 ? size : 0));
    }
  }
}

TEST_CASE("training kernels: unsupported head sizes are refused") {
  if (!find_device()) return;
  const auto kernels = target::make_device_training(0);
  for (const std::int64_t head_dim : {514, 7, 0}) {
    HeadsTask task;
    task.transform = {1, 1, 1, head_dim};
    CHECK_THROWS_WITH(kernels->transform_heads(task, {}), Catch::Matchers::Contains("head_dim"));
    CHECK_THROWS_WITH(kernels->heads_scratch_floats(task.transform), Catch::Matchers::Contains("head_dim"));
  }
}
