// Tests that AMX's tiles, real and emulated (emulation/tiles.h), give the same bits, in single instructions and in
// every kernel that uses them.
#include <array>
#include <bit>
#include <cstring>

#include "ops/emulation/tile_step.h"
#include "ops/matmul.h"
#include "ops/reference.h"
#include "ops/varlen_attention.h"

using namespace qrl;

namespace {

/// Selects the distribution of a tile's operands.
enum class Drawn { ordinary, tiny_products, subnormal, overflowing, with_nan, any_bits };
constexpr std::array kAllDrawn{Drawn::ordinary,    Drawn::tiny_products, Drawn::subnormal,
                               Drawn::overflowing, Drawn::with_nan,      Drawn::any_bits};

/// Returns a bf16 number, the high half of an fp32 number, with an exponent in [first, first + count).
std::uint32_t half(base::RandomStream& random, std::uint32_t first, std::uint32_t count) {
  const std::uint32_t sign_and_significand = random.below(256);
  const std::uint32_t exponent = first + random.below(count);
  return (sign_and_significand >> 7 << 15) | (exponent << 7) | (sign_and_significand & 127);
}

std::uint32_t bf16_bits(base::RandomStream& random, Drawn drawn) {
  switch (drawn) {
    case Drawn::ordinary:
      return half(random, 120, 12);
    case Drawn::tiny_products:  // around 2⁻¹²⁶, the smallest normal number
      return half(random, 60, 8);
    case Drawn::subnormal: {
      const bool is_normal = random.below(4) == 0;
      return half(random, is_normal ? 55 : 0, is_normal ? 20 : 3);
    }
    case Drawn::overflowing:  // products and sums around 2¹²⁸
      return half(random, 185, 9);
    case Drawn::with_nan: {
      const std::uint32_t kind = random.below(40);  // 0: NaN, 1: infinite
      const std::uint32_t bits = kind < 2 ? half(random, 255, 1) : half(random, 120, 12);
      return kind == 1 ? bits & ~127U : bits;
    }
    case Drawn::any_bits:
      break;
  }
  return random.below(1U << 16);
}

std::uint32_t sum_bits(base::RandomStream& random, Drawn drawn) {
  const std::uint32_t low = random.below(1U << 16);
  switch (drawn) {
    case Drawn::tiny_products:
    case Drawn::subnormal:
      return (half(random, 0, 6) << 16) | low;
    case Drawn::overflowing:
      return (half(random, 248, 7) << 16) | low;
    case Drawn::ordinary:
      return (half(random, 118, 12) << 16) | low;
    default:
      return (bf16_bits(random, drawn) << 16) | low;
  }
}

/// Holds the operands of one instruction, of sizes drawn from `seed`.
struct TileOperands {
  TileOperands(Drawn drawn, bool int8, std::uint64_t seed) : step{.int8 = int8} {
    base::RandomStream random(13, base::RandomPurpose::test, seed);
    const auto size = [&] { return seed % 4 == 0 ? 16 : static_cast<int>(1 + random.below(16)); };
    step.rows = size();
    step.columns = size();
    step.words = size();
    const auto word = [&] {
      const std::uint32_t high = bf16_bits(random, int8 ? Drawn::any_bits : drawn);
      return high << 16 | bf16_bits(random, int8 ? Drawn::any_bits : drawn);
    };
    for (int i = 0; i < step.rows * step.words; ++i) left.push_back(word());
    for (int i = 0; i < step.words * step.columns; ++i) right.push_back(word());
    for (int i = 0; i < step.rows * step.columns; ++i) sums.push_back(int8 ? word() : sum_bits(random, drawn));
  }
  std::vector<std::uint32_t> sums_after(void (*run)(const ops::TileStep&)) const {
    std::vector<std::uint32_t> after = sums;
    ops::TileStep filled = step;
    filled.left = left.data();
    filled.right = right.data();
    filled.sums = after.data();
    run(filled);
    // The choice between two NaN operands is processor-specific.
    for (std::uint32_t& sum : after) sum = !step.int8 && (sum & 0x7fffffff) > 0x7f800000 ? 0x7fc00000 : sum;
    return after;
  }
  ops::TileStep step;
  std::vector<std::uint32_t> left, right, sums;
};

/// Returns the FNV-1a hash of the words of some tiles' sums.
std::uint64_t fingerprint(void (*run)(const ops::TileStep&), Drawn drawn, bool int8, std::uint64_t num_tiles) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (std::uint64_t seed = 0; seed < num_tiles; ++seed) {
    for (const std::uint32_t word : TileOperands(drawn, int8, seed).sums_after(run))
      hash = (hash ^ word) * 0x100000001b3;
  }
  return hash;
}

/// Returns the results of every kernel with tiles in the current path: all matmul formats, those of training,
/// attention.
std::vector<float> all_tile_kernels() {
  std::vector<float> all;
  base::Team alone = base::Team::solo();
  constexpr std::int64_t kOut = 100;
  for (int i = 0; i < quant::kNumFormats; ++i) {
    const auto format = static_cast<quant::Format>(i);
    for (const std::int64_t in : {33, 300, 3201}) {
      ops::PackedLinear layer = ops::make_packed_linear(format, kOut, in, false);
      REQUIRE(ops::pack_rows(alone, test::normal_values(kOut * in, 0.05F, 1).data(), kOut, 0, layer));
      for (const std::int64_t rows : {1, 2, 4, 17, 40}) {
        ops::Activations x(format, rows, in);
        ops::quantize(alone, test::normal_values(rows * in, 1.0F, 2).data(), {0, rows}, x);
        std::vector<float> y(static_cast<std::size_t>(rows * kOut));
        ops::linear(alone, x, layer, {0, rows}, false, y.data());
        all.insert(all.end(), y.begin(), y.end());
      }
    }
  }
  constexpr std::int64_t kRows = 50, kDepth = 1700, kMoreDepth = 5;
  std::vector<float> left = test::normal_values(kRows * kDepth, 1.0F, 3),
                     right = test::normal_values(kOut * kDepth, 1.0F, 4);
  std::vector<float> sums = test::normal_values(kRows * kOut, 1.0F, 5);
  const ops::Operand left_rows{{left.data(), false}, kRows, true}, right_rows{{right.data(), false}, kDepth, true};
  ops::matmul({ops::MatmulType::bf16,
               kRows,
               kOut,
               kDepth,
               left_rows,
               right_rows,
               {sums.data(), false},
               kOut,
               true,
               left_rows,
               right_rows,
               kMoreDepth});
  all.insert(all.end(), sums.begin(), sums.end());
  const std::int32_t starts[] = {0, 7, 40, 170};
  constexpr std::int64_t kHeads = 4, kKvHeads = 2, kHeadDim = 34, kTokens = 170;
  std::vector<float> qkv = test::normal_values(kTokens * (kHeads + 2 * kKvHeads) * kHeadDim, 1.0F, 6),
                     d_qkv(qkv.size());
  std::vector<float> out(kTokens * kHeads * kHeadDim), lse(kTokens * kHeads);
  const ops::VarlenAttention attention{starts,   3,        nullptr,    kHeads,
                                       kKvHeads, kHeadDim, qkv.data(), ops::MatmulType::bf16};
  ops::varlen_attention(attention, {out.data(), false}, lse.data());
  ops::varlen_attention_backward(attention, lse.data(), {out.data(), false}, d_qkv.data());
  for (const auto& values : {out, lse, d_qkv}) all.insert(all.end(), values.begin(), values.end());
  return all;
}

}  // namespace

TEST_CASE("AMX emulation: every used instruction has the processor's bits") {
  if (!test::kTilePaths[0].supported()) return test::skip("this processor has no tiles");
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const Drawn drawn = kAllDrawn.at(seed % kAllDrawn.size());
    const bool int8 = seed % 7 == 0;
    CAPTURE(static_cast<int>(drawn), int8, seed);
    const TileOperands operands(drawn, int8, seed);
    CAPTURE(operands.step.rows, operands.step.columns, operands.step.words);
    REQUIRE(operands.sums_after(ops::amx_emulated::run_tile_step) ==
            operands.sums_after(ops::amx_processor::run_tile_step));
  }
}

TEST_CASE("AMX emulation: kernels have the bits of those on the processor's tiles") {
  if (!test::kTilePaths[0].supported()) return test::skip("this processor has no tiles");
  std::vector<std::vector<float>> results;
  for (const test::KernelPath& path : test::kTilePaths) {
    const test::WithPath in_use(path);
    results.push_back(all_tile_kernels());
  }
  test::check_same_bits(results[1], results[0]);
}

TEST_CASE("AMX: tiles, also emulated ones, have the bits recorded on a Xeon") {
  const std::vector<test::KernelPath> paths = test::tile_paths();
  if (paths.empty()) return test::skip("this processor has neither tiles nor the AVX-512 that emulates them");
  for (const test::KernelPath& path : paths) {
    CAPTURE(path.name());
    const auto run = path.emulated ? ops::amx_emulated::run_tile_step : ops::amx_processor::run_tile_step;
    std::vector<std::uint64_t> seen;
    for (const Drawn drawn : kAllDrawn) seen.push_back(fingerprint(run, drawn, false, 40));
    seen.push_back(fingerprint(run, Drawn::any_bits, true, 40));
    // Measured on a Xeon of the Sapphire Rapids family, 2026-11-26.
    CHECK(seen == std::vector<std::uint64_t>{0x84f9610230f24533, 0x7d7501f5ac6da25d, 0xacc4b745998cc579,
                                             0x7c3ad2a8dc7579e4, 0x994715422cded9e6, 0x4abd0021d3655c00,
                                             0xa0dd76a7f38800c});
  }
}
