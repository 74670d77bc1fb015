// Tests packed causal attention against plain loops in fp64, on every instruction set. tests/learner compares it with
// LibTorch's attention.
#include "ops/varlen_attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/bf16.h"
#include "base/rng.h"
#include "base/threads.h"
#include "ops/emulation/kernel_paths.h"
#include "ops/scratch.h"
#include "support/catch.h"

namespace qrl::ops {

namespace {

struct VarlenProblem {
  std::vector<std::int32_t> starts{0};
  std::int64_t num_heads, num_kv_heads, head_dim;
  std::vector<float> qkv, d_out;
  std::vector<std::uint8_t> continues;  ///< empty: no sequence has a prefix
  MatmulType products = MatmulType::f32;
  std::int64_t window = 0;

  VarlenProblem(const std::vector<std::int32_t>& lengths, std::int64_t heads, std::int64_t kv_heads, std::int64_t dim)
      : num_heads(heads), num_kv_heads(kv_heads), head_dim(dim) {
    for (const std::int32_t length : lengths) starts.push_back(starts.back() + length);
    base::RandomStream random(3, base::RandomPurpose::test, 0);
    qkv.resize(static_cast<std::size_t>(rows() * width()));
    d_out.resize(static_cast<std::size_t>(rows() * heads * dim));
    for (float& value : qkv) value = random.normal();
    for (float& value : d_out) value = random.normal();
  }
  std::int64_t rows() const { return starts.back(); }
  std::int64_t width() const { return (num_heads + 2 * num_kv_heads) * head_dim; }
  VarlenAttention args() const {
    return {starts.data(),
            static_cast<std::int64_t>(starts.size()) - 1,
            continues.empty() ? nullptr : continues.data(),
            num_heads,
            num_kv_heads,
            head_dim,
            qkv.data(),
            products,
            0,
            window};
  }
};

struct Result {
  std::vector<float> out, lse, d_qkv;
};

Result run_varlen(VarlenProblem& problem) {
  const auto rows = static_cast<std::size_t>(problem.rows());
  Result result;
  result.out.resize(problem.d_out.size());
  result.lse.resize(rows * static_cast<std::size_t>(problem.num_heads));
  result.d_qkv.assign(problem.qkv.size(), NAN);  // every element must be written
  varlen_attention(problem.args(), {result.out.data(), false}, result.lse.data());
  varlen_attention_backward(problem.args(), result.lse.data(), {problem.d_out.data(), false}, result.d_qkv.data());
  return result;
}

/// Computes the definition in fp64: out and d_qkv.
struct Reference {
  std::vector<double> out, d_qkv;
  explicit Reference(const VarlenProblem& p) : out(p.d_out.size()), d_qkv(p.qkv.size()) {
    const double scale = 1 / std::sqrt(static_cast<double>(p.head_dim));
    for (std::size_t s = 0; s + 1 < p.starts.size(); ++s) {
      for (std::int64_t h = 0; h < p.num_heads; ++h) {
        const std::int64_t kv = p.num_heads + h / (p.num_heads / p.num_kv_heads);
        for (std::int64_t n = p.starts[s]; n < p.starts[s + 1]; ++n) {
          const auto at = [&](std::int64_t row, std::int64_t head, std::int64_t e) {
            return static_cast<std::size_t>(row * p.width() + head * p.head_dim + e);
          };
          const std::int64_t hidden = p.window > 0 ? std::max<std::int64_t>(0, n - p.starts[s] + 1 - p.window) : 0;
          const std::int64_t first = p.starts[s] + hidden, num_keys = n - first + 1;
          std::vector<double> prob(static_cast<std::size_t>(num_keys)), slope(prob.size());
          double sum = 0, mean = 0;
          for (std::int64_t t = 0; t < num_keys; ++t) {
            double score = 0;
            for (std::int64_t e = 0; e < p.head_dim; ++e) {
              score += static_cast<double>(p.qkv[at(n, h, e)]) * p.qkv[at(first + t, kv, e)];
            }
            sum += prob[static_cast<std::size_t>(t)] = std::exp(score * scale);
          }
          for (std::int64_t t = 0; t < num_keys; ++t) {
            const auto i = static_cast<std::size_t>(t);
            prob[i] /= sum;
            for (std::int64_t e = 0; e < p.head_dim; ++e) {
              const double value = p.qkv[at(first + t, kv + p.num_kv_heads, e)];
              const auto o = static_cast<std::size_t>((n * p.num_heads + h) * p.head_dim + e);
              out[o] += prob[i] * value;
              slope[i] += p.d_out[o] * value;
              d_qkv[at(first + t, kv + p.num_kv_heads, e)] += prob[i] * p.d_out[o];
            }
            mean += prob[i] * slope[i];
          }
          for (std::int64_t t = 0; t < num_keys; ++t) {
            const auto i = static_cast<std::size_t>(t);
            const double d_score = prob[i] * (slope[i] - mean) * scale;
            for (std::int64_t e = 0; e < p.head_dim; ++e) {
              d_qkv[at(n, h, e)] += d_score * p.qkv[at(first + t, kv, e)];
              d_qkv[at(first + t, kv, e)] += d_score * p.qkv[at(n, h, e)];
            }
          }
        }
      }
    }
  }
};

bool all_close(const std::vector<float>& got, const std::vector<double>& want, double bound) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (test::close(got[i], want[i], bound, bound)) continue;
    UNSCOPED_INFO("element " << i << ": " << got[i] << ", expected " << want[i]);
    return false;
  }
  return true;
}

}  // namespace

TEST_CASE("packed attention: results and gradients equal fp64 loops") {
  const std::vector<std::vector<std::int32_t>> packs = {{1}, {7, 1, 33}, {25, 24, 23}, {130, 5}, {0, 3, 0}};
  for (const auto& lengths : packs) {
    for (const auto& [heads, kv_heads, dim] :
         std::vector<std::tuple<int, int, int>>{{1, 1, 2}, {4, 2, 10}, {6, 2, 16}, {5, 1, 34}, {3, 3, 64}}) {
      CAPTURE(lengths, heads, dim);
      VarlenProblem problem(lengths, heads, kv_heads, dim);
      const Reference want(problem);
      test::on_every_path([&](const std::string& path) {
        CAPTURE(path);
        const Result got = run_varlen(problem);
        CHECK(all_close(got.out, want.out, 2e-6));
        CHECK(all_close(got.d_qkv, want.d_qkv, 2e-5));
      });
    }
  }
}

TEST_CASE("packed attention: with a window, results and gradients equal fp64 loops over it") {
  for (const std::int64_t window : {1, 5, 48, 129}) {
    VarlenProblem problem({7, 1, 133, 50}, 4, 2, 10);
    problem.window = window;
    CAPTURE(window);
    const Reference want(problem);
    test::on_every_path([&](const std::string& path) {
      CAPTURE(path);
      const Result got = run_varlen(problem);
      CHECK(all_close(got.out, want.out, 2e-6));
      CHECK(all_close(got.d_qkv, want.d_qkv, 2e-5));
    });
  }
}

TEST_CASE("packed attention: independent of other sequences and of the number of threads") {
  const auto products = GENERATE(MatmulType::f32, MatmulType::bf16);
  test::on_every_path([products](const std::string& path) {
    CAPTURE(path);
    VarlenProblem together({33, 7, 100}, 4, 2, 18);
    together.products = products;
    const Result packed = run_varlen(together);
    const int before = base::num_threads();
    base::set_num_threads(before == 1 ? 2 : 1);
    const Result other_threads = run_varlen(together);
    base::set_num_threads(before);
    CHECK(other_threads.out == packed.out);
    CHECK(other_threads.d_qkv == packed.d_qkv);

    VarlenProblem alone({7}, 4, 2, 18);
    alone.products = products;
    std::copy_n(together.qkv.begin() + 33 * together.width(), alone.qkv.size(), alone.qkv.begin());
    std::copy_n(together.d_out.begin() + 33 * 4 * 18, alone.d_out.size(), alone.d_out.begin());
    const Result single = run_varlen(alone);
    CHECK(std::equal(single.out.begin(), single.out.end(), packed.out.begin() + 33 * 4 * 18));
    CHECK(std::equal(single.d_qkv.begin(), single.d_qkv.end(), packed.d_qkv.begin() + 33 * together.width()));
  });
}

TEST_CASE("packed attention: does not read uninitialized memory") {
  const int before = base::num_threads();
  base::set_num_threads(1);
  for (const MatmulType products : {MatmulType::f32, MatmulType::bf16}) {
    test::on_every_path([products](const std::string& path) {
      CAPTURE(path);
      VarlenProblem problem({33, 7, 21}, 4, 2, 18);  // no size is a whole number of vectors or tiles
      problem.continues = {0, 1, 0};
      problem.products = products;
      const std::int64_t num_floats = 1 << 18;
      std::fill_n(scratch(num_floats), num_floats, 1.0F);
      const Result want = run_varlen(problem);
      std::fill_n(scratch(num_floats), num_floats, NAN);
      const Result got = run_varlen(problem);
      CHECK(got.out == want.out);
      CHECK(got.lse == want.lse);
      CHECK(got.d_qkv == want.d_qkv);
    });
  }
  base::set_num_threads(before);
}

TEST_CASE("packed attention: a shared prefix equals a copy in front of each sequence") {
  const std::vector<std::int32_t> lengths = {5, 40, 1, 70, 3, 30, 0, 4, 2};
  const std::vector<std::uint8_t> continues = {0, 1, 1, 0, 1, 1, 0, 1, 0};
  VarlenProblem shared(lengths, 4, 2, 18);
  shared.continues = continues;
  // Writes out the prefix before each sequence that continues it; the prefix's rows there contribute no gradient.
  std::vector<std::int32_t> whole_lengths;
  std::vector<std::size_t> from;  // a row of the written-out problem to its original row
  std::size_t prefix = 0;
  std::vector<bool> own;
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    if (continues[s] == 0) prefix = s;
    for (const std::size_t part : continues[s] != 0 ? std::vector{prefix, s} : std::vector{s}) {
      for (std::int32_t row = shared.starts[part]; row < shared.starts[part + 1]; ++row) {
        from.push_back(static_cast<std::size_t>(row));
        own.push_back(part == s);
      }
    }
    whole_lengths.push_back(static_cast<std::int32_t>(from.size()) -
                            std::accumulate(whole_lengths.begin(), whole_lengths.end(), 0));
  }
  VarlenProblem whole(whole_lengths, 4, 2, 18);
  const auto width = static_cast<std::size_t>(whole.width()), out_width = std::size_t{4 * 18};
  for (std::size_t row = 0; row < from.size(); ++row) {
    for (std::size_t c = 0; c < width; ++c) whole.qkv[row * width + c] = shared.qkv[from[row] * width + c];
    for (std::size_t c = 0; c < out_width; ++c)
      whole.d_out[row * out_width + c] = own[row] ? shared.d_out[from[row] * out_width + c] : 0.0F;
  }
  const Reference exact(whole);
  std::vector<double> want_d_qkv(shared.qkv.size());
  for (std::size_t row = 0; row < from.size(); ++row) {
    for (std::size_t c = 0; c < width; ++c) want_d_qkv[from[row] * width + c] += exact.d_qkv[row * width + c];
  }
  shared.products = whole.products = GENERATE(MatmulType::f32, MatmulType::bf16);
  const double bound = shared.products == MatmulType::f32 ? 5e-5 : 6e-2;
  test::on_every_path([&](const std::string& path) {
    CAPTURE(path);
    const Result got = run_varlen(shared), plain = run_varlen(whole);
    bool same = true;
    for (std::size_t row = 0; row < from.size(); ++row) {
      for (std::size_t c = 0; c < out_width; ++c)
        same = same && (!own[row] || got.out[from[row] * out_width + c] == plain.out[row * out_width + c]);
    }
    CHECK(same);  // bit for bit
    CHECK(all_close(got.d_qkv, want_d_qkv, bound));
  });
}

TEST_CASE("bf16 packed attention: rounds only softmax weights and score gradients") {
  for (const auto& [heads, kv_heads, dim] :
       std::vector<std::tuple<int, int, int>>{{4, 2, 10}, {5, 1, 34}, {3, 3, 64}, {2, 1, 7}}) {
    CAPTURE(heads, dim);
    VarlenProblem problem({7, 1, 33, 130}, heads, kv_heads, dim);
    for (std::vector<float>* values : {&problem.qkv, &problem.d_out})
      for (float& value : *values) value = base::to_float(base::to_bf16(value));
    const Reference want(problem);
    const Result wide = run_varlen(problem);
    problem.products = MatmulType::bf16;
    test::on_every_path([&](const std::string& path) {
      CAPTURE(path);
      const Result got = run_varlen(problem);
      // Each weight, and also their sum, has a relative error of at most 2^-9: 2^-8 of values below 5. Gradients are
      // sums of up to 130 terms of that size, of either sign.
      CHECK(all_close(got.out, want.out, 5 * 0x1p-8));
      CHECK(all_close(got.d_qkv, want.d_qkv, 6e-2));
      CHECK(got.out != wide.out);
    });
  }
}

TEST_CASE("bf16 packed attention: equals the fp32 result rounded") {
  VarlenProblem problem({19, 50}, 4, 2, 22);
  const Result fp32 = run_varlen(problem);
  std::vector<base::bf16> out(fp32.out.size());
  std::vector<float> lse(fp32.lse.size());
  varlen_attention(problem.args(), {out.data(), true}, lse.data());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < out.size(); ++i) wrong += !(out[i] == base::to_bf16(fp32.out[i]));
  CHECK(wrong == 0);

  std::vector<base::bf16> d_out(problem.d_out.size());
  for (std::size_t i = 0; i < d_out.size(); ++i) {
    d_out[i] = base::to_bf16(problem.d_out[i]);
    problem.d_out[i] = base::to_float(d_out[i]);
  }
  const Result want = run_varlen(problem);
  std::vector<float> d_qkv(problem.qkv.size());
  varlen_attention_backward(problem.args(), lse.data(), {d_out.data(), true}, d_qkv.data());
  CHECK(d_qkv == want.d_qkv);
}

TEST_CASE("packed attention: large scores neither overflow nor lose the softmax") {
  VarlenProblem problem({12}, 2, 1, 16);
  for (float& value : problem.qkv) value *= 30;  // scores of several thousand
  const Reference want(problem);
  test::on_every_path([&](const std::string& path) {
    CAPTURE(path);
    const Result got = run_varlen(problem);
    for (const float value : got.d_qkv) REQUIRE(std::isfinite(value));
    bool finite_reference = true;
    for (const double value : want.out) finite_reference = finite_reference && std::isfinite(value);
    if (finite_reference) CHECK(all_close(got.out, want.out, 1e-3));
  });
}

}  // namespace qrl::ops
