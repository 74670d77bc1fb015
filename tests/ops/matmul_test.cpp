// Tests the matmuls of training against fp64 on the same values: every operand layout, odd shapes, each instruction
// set. Also tests that neither threads nor neighboring rows change a bit.
#include "ops/matmul.h"

#include <cmath>
#include <vector>

#include "base/bf16.h"
#include "ops/reference.h"

using namespace qrl;
using ops::Matmul;
using ops::MatmulType;
using ops::MixedArray;
using ops::Operand;

namespace {

/// Stores a matrix with a gap after each row, in fp32 or bf16; the gaps hold NaN.
struct Matrix {
  Matrix(std::int64_t rows_in, std::int64_t columns_in, bool is_bf16)
      : rows(rows_in),
        columns(columns_in),
        stride(columns_in + 3),
        bf16(is_bf16),
        wide(static_cast<std::size_t>(rows * stride), NAN),
        narrow(wide.size(), base::to_bf16(NAN)) {}
  Matrix(std::int64_t rows_in, std::int64_t columns_in, bool is_bf16, std::uint64_t stream)
      : Matrix(rows_in, columns_in, is_bf16) {
    base::RandomStream random(5, base::RandomPurpose::test, stream);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        set(r, c, random.normal());
      }
    }
  }
  MixedArray array() { return bf16 ? MixedArray{narrow.data(), true} : MixedArray{wide.data(), false}; }
  /// Returns the value that a matmul of this type reads.
  double read(std::int64_t r, std::int64_t c, MatmulType type) const {
    return bf16 || type == MatmulType::bf16 ? base::to_float(narrow[at(r, c)]) : wide[at(r, c)];
  }
  std::size_t at(std::int64_t r, std::int64_t c) const { return static_cast<std::size_t>(r * stride + c); }
  void set(std::int64_t r, std::int64_t c, float value) {
    wide[at(r, c)] = value;
    narrow[at(r, c)] = base::to_bf16(value);
  }
  std::int64_t rows, columns, stride;
  bool bf16;
  std::vector<float> wide;
  std::vector<base::bf16> narrow;
};

struct Case {
  MatmulType type;
  bool left_transposed, left_bf16, right_transposed, right_bf16;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const MatmulType type : {MatmulType::bf16, MatmulType::f32}) {
    for (int bits = 0; bits < 16; ++bits) {
      const Case one{type, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0};
      // The left operand's own rows are read without conversion.
      if (one.left_transposed || one.left_bf16 == (type == MatmulType::bf16)) cases.push_back(one);
    }
  }
  return cases;
}

struct Sizes {
  std::int64_t rows, columns, depth;
};
// Sizes around the tiles' heights, the panel's width and half of it, words of two, vectors, and chunks of the depth.
const std::vector<Sizes> kSizes{{1, 1, 1},    {7, 33, 3},    {6, 64, 32},     {13, 65, 257},
                                {50, 17, 34}, {200, 130, 9}, {101, 96, 1601}, {5, 40, 3100}};

struct MatmulProblem {
  MatmulProblem(const Case& how_in, const Sizes& sizes_in)
      : how(how_in),
        sizes(sizes_in),
        left(how.left_transposed ? sizes.depth : sizes.rows, how.left_transposed ? sizes.rows : sizes.depth,
             how.left_bf16, 0),
        right(how.right_transposed ? sizes.columns : sizes.depth, how.right_transposed ? sizes.depth : sizes.columns,
              how.right_bf16, 1),
        out(static_cast<std::size_t>(sizes.rows * stride()), 7.0F) {}
  std::int64_t stride() const { return sizes.columns + 5; }
  Matmul product(bool accumulate) {
    return {how.type,
            sizes.rows,
            sizes.columns,
            sizes.depth,
            {left.array(), left.stride, how.left_transposed},
            {right.array(), right.stride, how.right_transposed},
            {out.data(), false},
            stride(),
            accumulate};
  }
  double left_at(std::int64_t r, std::int64_t k) const {
    return how.left_transposed ? left.read(k, r, how.type) : left.read(r, k, how.type);
  }
  double right_at(std::int64_t k, std::int64_t c) const {
    return how.right_transposed ? right.read(c, k, how.type) : right.read(k, c, how.type);
  }
  Case how;
  Sizes sizes;
  Matrix left, right;
  std::vector<float> out;
};

/// Returns the largest |got − want| over the bound of fp32 sums in any order, (depth + 2) · 2⁻²⁴ · Σ|terms|. Also
/// checks that the gaps are unchanged.
double worst(const MatmulProblem& p, double start) {
  double most = 0;
  for (std::int64_t r = 0; r < p.sizes.rows; ++r) {
    for (std::int64_t c = 0; c < p.stride(); ++c) {
      const float got = p.out[static_cast<std::size_t>(r * p.stride() + c)];
      if (c >= p.sizes.columns) {
        if (got != 7.0F) return HUGE_VAL;
        continue;
      }
      double sum = start, magnitude = std::fabs(start);
      for (std::int64_t k = 0; k < p.sizes.depth; ++k) {
        const double term = p.left_at(r, k) * p.right_at(k, c);
        sum += term;
        magnitude += std::fabs(term);
      }
      const double error = std::fabs(got - sum) / ((static_cast<double>(p.sizes.depth) + 2) * 0x1p-24 * magnitude);
      if (!(error <= most)) most = std::isnan(error) ? HUGE_VAL : error;
    }
  }
  return most;
}

}  // namespace

TEST_CASE("matmul: equals fp64 for every layout") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  for (const Case& how : all_cases()) {
    for (const Sizes& sizes : kSizes) {
      CAPTURE(static_cast<int>(how.type), how.left_transposed, how.left_bf16, how.right_transposed, how.right_bf16);
      CAPTURE(sizes.rows, sizes.columns, sizes.depth);
      MatmulProblem written(how, sizes), added(how, sizes);
      ops::matmul(written.product(false));
      CHECK(worst(written, 0) <= 1);
      ops::matmul(added.product(true));
      CHECK(worst(added, 7) <= 1);
    }
  }
}

/// Computes the same product in two parts: the first inputs, then the others.
static Matmul in_two(MatmulProblem& problem, std::int64_t first) {
  Matmul product = problem.product(true);
  product.depth = first;
  product.more_depth = problem.sizes.depth - first;
  const auto behind = [&](const Operand& from, std::int64_t steps) {
    const std::int64_t element = first * steps * (from.values.is_bf16 ? 2 : 4);
    return Operand{
        {static_cast<std::byte*>(from.values.data) + element, from.values.is_bf16}, from.stride, from.transposed};
  };
  product.more_left = behind(product.left, product.left.transposed ? product.left.stride : 1);
  product.more_right = behind(product.right, product.right.transposed ? 1 : product.right.stride);
  return product;
}

/// Pads the problem with zeros after its first inputs, up to a multiple of `step`.
static MatmulProblem filled_up(const MatmulProblem& problem, std::int64_t first, std::int64_t step) {
  const std::int64_t zeros = (step - first % step) % step;
  MatmulProblem filled = problem;
  filled.sizes.depth += zeros;
  const auto fill = [&](const Matrix& from, Matrix& to, bool depth_is_rows) {
    to = Matrix(from.rows + (depth_is_rows ? zeros : 0), from.columns + (depth_is_rows ? 0 : zeros), from.bf16);
    for (std::int64_t r = 0; r < to.rows; ++r) {
      for (std::int64_t c = 0; c < to.columns; ++c) {
        const std::int64_t k = depth_is_rows ? r : c, moved = k < first ? 0 : zeros;
        const bool is_zero = k >= first && k < first + zeros;
        to.set(r, c, is_zero ? 0 : from.wide[from.at(depth_is_rows ? r - moved : r, depth_is_rows ? c : c - moved)]);
      }
    }
  };
  fill(problem.left, filled.left, problem.how.left_transposed);
  fill(problem.right, filled.right, !problem.how.right_transposed);
  return filled;
}

/// Returns the number of inputs per accumulation step (ops/matmul.h).
static std::int64_t inputs_at_once(MatmulType type) {
  return type == MatmulType::f32 ? 1 : ops::isa() == ops::Isa::amx ? 32 : 2;
}

TEST_CASE("matmul: a depth that is packed in parts, the bits of its columns one panel at a time") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  for (const Case& how :
       {Case{MatmulType::bf16, false, true, false, true}, Case{MatmulType::f32, true, false, true, true}}) {
    MatmulProblem whole(how, {53, 720, 5501}), parts = whole;
    ops::matmul(whole.product(true));
    for (std::int64_t column = 0; column < 720; column += 64) {
      Matmul part = parts.product(true);
      part.columns = std::min<std::int64_t>(64, 720 - column);
      part.out.data = parts.out.data() + column;
      const std::int64_t first = how.right_transposed ? column * part.right.stride : column;
      part.right.values.data = static_cast<base::bf16*>(part.right.values.data) + first;
      ops::matmul(part);
    }
    CHECK(parts.out == whole.out);
  }
}

TEST_CASE("matmul: a second product continues the first one's sums, with the bits of one padded product") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  for (const Case& how : all_cases()) {
    for (const Sizes& sizes : kSizes) {
      if (sizes.depth < 3) continue;
      const MatmulProblem problem(how, sizes);
      // The depth is split within a word, between words, and between the steps of tiles.
      for (const std::int64_t first : {sizes.depth / 6 * 2 + 1, sizes.depth / 3 * 2, sizes.depth / 64 * 32}) {
        if (first == 0) continue;
        CAPTURE(path.name(), static_cast<int>(how.type), how.left_transposed, how.left_bf16, how.right_transposed,
                how.right_bf16);
        CAPTURE(sizes.rows, sizes.columns, sizes.depth, first);
        MatmulProblem parts = problem, whole = filled_up(problem, first, inputs_at_once(how.type));
        ops::matmul(whole.product(true));
        ops::matmul(in_two(parts, first));
        CHECK(parts.out == whole.out);
      }
    }
  }
}

TEST_CASE("matmul: a bf16 result is the fp32 result rounded once") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  MatmulProblem problem({MatmulType::bf16, false, true, true, false}, {33, 70, 1700});
  ops::matmul(problem.product(false));
  std::vector<base::bf16> rounded(problem.out.size(), base::to_bf16(7));
  Matmul product = problem.product(false);
  product.out = {rounded.data(), true};
  ops::matmul(product);
  std::size_t differ = 0;
  for (std::size_t i = 0; i < rounded.size(); ++i) differ += !(rounded[i] == base::to_bf16(problem.out[i]));
  CHECK(differ == 0);
}

TEST_CASE("matmul: independent of threads and of other rows and columns") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  for (const bool transposed : {false, true}) {
    MatmulProblem whole({MatmulType::bf16, transposed, true, false, true}, {301, 150, 200});
    ops::matmul(whole.product(false));
    const int before = base::num_threads();
    for (const int threads : {1, 2, 5}) {
      base::set_num_threads(threads);
      MatmulProblem again({MatmulType::bf16, transposed, true, false, true}, {301, 150, 200});
      ops::matmul(again.product(false));
      CHECK(again.out == whole.out);
    }
    base::set_num_threads(before);
    // Computes rows 3 … 9 and columns 70 … 99 separately.
    MatmulProblem part({MatmulType::bf16, transposed, true, false, true}, {301, 150, 200});
    Matmul product = part.product(false);
    product.left.values.data =
        static_cast<base::bf16*>(product.left.values.data) + (transposed ? 3 : 3 * product.left.stride);
    product.right.values.data = static_cast<base::bf16*>(product.right.values.data) + 70;
    product.rows = 7;
    product.columns = 30;
    ops::matmul(product);
    bool same = true;
    for (std::int64_t r = 0; r < 7; ++r) {
      for (std::int64_t c = 0; c < 30; ++c) {
        same = same && part.out[static_cast<std::size_t>(r * part.stride() + c)] ==
                           whole.out[static_cast<std::size_t>((r + 3) * whole.stride() + c + 70)];
      }
    }
    CHECK(same);
  }
}

TEST_CASE("bf16 matmul: vdpbf16ps and fp32 FMAs give the bits of AVX2") {
  if (!test::kAvx512Paths[0].supported()) return test::skip("this processor has no AVX-512");
  const test::WithPath path(GENERATE(test::kAvx512Paths[0], test::kAvx512Paths[1]));
  for (const bool transposed : {false, true}) {
    for (const float scale : {1.0F, 1e-19F}) {  // the second one's products are about the smallest normal number
      const auto result = [&] {
        MatmulProblem problem({MatmulType::bf16, transposed, true, false, true}, {31, 150, 1703});
        for (std::int64_t r = 0; r < problem.left.rows; ++r)
          for (std::int64_t c = 0; c < problem.left.columns; ++c)
            problem.left.set(r, c, problem.left.wide[problem.left.at(r, c)] * scale * scale);
        ops::matmul(problem.product(false));
        return problem.out;
      };
      const std::vector<float> got = result();
      const test::WithPath avx2({ops::Isa::avx2});
      test::check_same_bits(got, result());
    }
  }
}

TEST_CASE("bf16 matmul: bits equal the sampler's kernels") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  MatmulProblem problem({MatmulType::bf16, false, true, true, false}, {29, 130, 331});
  ops::matmul(problem.product(false));
  ops::PackedLinear layer = ops::make_packed_linear(quant::Format::bf16, 130, 331, false);
  std::vector<float> weight, x;
  for (std::int64_t c = 0; c < 130; ++c)
    for (std::int64_t k = 0; k < 331; ++k) weight.push_back(static_cast<float>(problem.right_at(k, c)));
  for (std::int64_t r = 0; r < 29; ++r)
    for (std::int64_t k = 0; k < 331; ++k) x.push_back(static_cast<float>(problem.left_at(r, k)));
  base::Team alone = base::Team::solo();
  REQUIRE(ops::pack_rows(alone, weight.data(), 130, 0, layer));
  ops::Activations quantized(quant::Format::bf16, 29, 331);
  ops::quantize(alone, x.data(), {0, 29}, quantized);
  std::vector<float> want(std::size_t{29} * 130);
  ops::linear(alone, quantized, layer, {0, 29}, false, want.data());
  bool same = true;
  for (std::int64_t r = 0; r < 29; ++r) {
    for (std::int64_t c = 0; c < 130; ++c)
      same = same && want[static_cast<std::size_t>(r * 130 + c)] ==
                         problem.out[static_cast<std::size_t>(r * problem.stride() + c)];
  }
  CHECK(same);
}
