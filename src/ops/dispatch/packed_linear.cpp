#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ops/kernels/kernels.h"
#include "ops/linear.h"
#include "ops/ranges.h"
#include "quant/fp8.h"
#include "quant/int4_scale.h"

namespace qrl::ops {

namespace {

using base::bf16;
using base::Buffer;
using base::DType;
using quant::Element;
using quant::Format;
using quant::FormatSpec;
using quant::ScaleScope;

// Largest width for which sums of int8 products and column_sums (128 · Σ quantized values) fit in int32.
constexpr std::int64_t kMaxInt8Width = (std::int64_t{1} << 31) / (128 * 127) - 1;

static_assert(kInt4Candidates == quant::kInt4Candidates);

std::int64_t inputs_per_word(Format format) { return 32 / spec(format).weight_bits; }

std::int64_t inputs_per_scale(Format format, std::int64_t in) {
  return spec(format).scale_inputs == 0 ? in : spec(format).scale_inputs;
}

/// Returns the address of output `row`'s word 0; its words are kPanelColumns apart.
std::uint32_t* panel_words(const PackedLinear& packed, std::int64_t row) {
  const std::int64_t words = ceil_div(packed.in, inputs_per_word(packed.format));
  return static_cast<std::uint32_t*>(packed.panels.view().data) + row / kPanelColumns * kPanelColumns * words +
         row % kPanelColumns;
}

/// Returns the bit position of input `idx` within its word (layout: kPanelColumns in ops/linear.h).
int bit_of_input(const FormatSpec& what, int idx) {
  if (what.weights == Element::fp8_e4m3) return (idx / 2 + idx % 2 * 2) * 8;
  if (what.weights != Element::int4) return idx * what.weight_bits;
  return what.activations == Element::int8 ? idx % 4 * 8 + idx / 4 * 4 : idx % 2 * 16 + idx / 2 * 4;
}

void values_to_words(const FormatSpec& what, const std::uint8_t* quantized, std::int64_t in, std::uint32_t* words) {
  const int per_word = 32 / what.weight_bits;
  const std::uint32_t mask = (1U << what.weight_bits) - 1;
  for (std::int64_t first = 0; first < in; first += per_word) {
    std::uint32_t word = 0;
    for (int i = 0; i < per_word && first + i < in; ++i) word |= (quantized[first + i] & mask) << bit_of_input(what, i);
    words[first / per_word] = word;
  }
}
void words_to_values(const FormatSpec& what, const std::uint32_t* words, std::int64_t in, std::uint8_t* quantized) {
  const int per_word = 32 / what.weight_bits;
  const std::uint32_t mask = (1U << what.weight_bits) - 1;
  std::array<int, 8> bits{};
  for (int i = 0; i < per_word; ++i) bits[static_cast<std::size_t>(i)] = bit_of_input(what, i);
  for (std::int64_t first = 0; first < in; first += per_word) {
    const std::uint32_t word = words[first / per_word];
    for (int i = 0; i < per_word && first + i < in; ++i)
      quantized[first + i] = static_cast<std::uint8_t>(word >> bits[static_cast<std::size_t>(i)] & mask);
  }
}

/// Returns how many of a word's values of `bits` bits are not 0.
int num_nonzero(std::uint32_t word, int bits) {
  const std::uint32_t mask = bits == 32 ? ~0U : (1U << bits) - 1;
  int count = 0;
  for (; word != 0; word = bits == 32 ? 0 : word >> bits) count += (word & mask) != 0 ? 1 : 0;
  return count;
}

float dequantized(Element element, std::uint8_t bits) {
  if (element == Element::fp8_e4m3) return quant::dequantize_fp8(bits);
  if (element == Element::int4) return static_cast<float>(static_cast<std::int8_t>(bits << 4) >> 4);
  return static_cast<float>(static_cast<std::int8_t>(bits));
}

float scale_at(const PackedLinear& packed, std::int64_t segment, std::int64_t row) {
  const std::int64_t at = segment * packed.scales.shape()[1] + row;
  return packed.scales.view().dtype == DType::f32 ? packed.scales.as<float>()[at]
                                                  : to_float(packed.scales.as<bf16>()[at]);
}

/// Multiplies a weight's rows by the input factors, then rotates them.
class EnteringWeights {
 public:
  EnteringWeights(const float* weight, const float* factors, const PackedLinear& packed)
      : weight_(weight), factors_(factors), rotation_(packed.rotation), in_(packed.in) {
    if (factors_ != nullptr || rotation_) changed_.resize(static_cast<std::size_t>(in_));
  }

  /// Returns the prepared row, valid until the next call.
  const float* row(std::int64_t row) {
    const float* values = weight_ + row * in_;
    if (changed_.empty()) return values;
    if (factors_ == nullptr) std::copy_n(values, in_, changed_.data());
    else std::transform(values, values + in_, factors_, changed_.data(), std::multiplies<>());
    rotate_rows(rotation_, 1, in_, changed_.data());
    return changed_.data();
  }

 private:
  const float* weight_;
  const float* factors_;
  quant::Rotation rotation_;
  std::int64_t in_;
  std::vector<float> changed_;
};

class RowQuantizer {
 public:
  /// If rows share a scale, reads them twice, first for the scale.
  RowQuantizer(EnteringWeights& entering, std::int64_t rows, PackedLinear& packed, const float* row_scales)
      : what_(spec(packed.format)), entering_(entering), rows_(rows), packed_(packed), row_scales_(row_scales) {
    quantized_.resize(static_cast<std::size_t>(round_up(packed.in, 8)));
    amax_.assign(packed.scales.empty() ? 0 : static_cast<std::size_t>(packed.scales.shape()[0]), 0);
  }

  void begin(std::int64_t row) {
    const std::int64_t height = what_.scope == ScaleScope::tensor     ? rows_
                                : what_.scope == ScaleScope::block128 ? 128
                                                                      : 1;
    if (height == 1 || row_scales_ != nullptr || (end_of_known_ > row && end_of_known_ - row <= height)) return;
    const std::int64_t first = row / height * height;
    end_of_known_ = first + height;
    std::fill(amax_.begin(), amax_.end(), 0.0F);
    for (std::int64_t r = first; r < std::min(rows_, end_of_known_); ++r) add_amax(entering_.row(r));
  }

  /// Quantizes `values`, the tensor's row `row`, into quantized(). Stores its scales and column sums in row `to` of the
  /// packed layer.
  void quantize(const float* values, std::int64_t row, std::int64_t to) {
    if (row_scales_ == nullptr && end_of_known_ == 0) {
      std::fill(amax_.begin(), amax_.end(), 0.0F);
      add_amax(values);
    }
    for_segments([&](std::size_t b, std::int64_t begin, std::int64_t count) {
      const auto [scale, lowest] = row_scales_ != nullptr
                                       ? quant::Int4Scale{row_scales_[row], -quant::max_magnitude(what_.weights)}
                                       : scale_of(values + begin, count, amax_[b]);
      quantize_segment(values + begin, count, scale, lowest, quantized_.data() + begin);
      const std::int64_t at = static_cast<std::int64_t>(b) * packed_.scales.shape()[1] + to;
      if (what_.weights == Element::int4) packed_.scales.as<bf16>()[at] = base::to_bf16(scale);
      else packed_.scales.as<float>()[at] = scale;
      if (!packed_.column_sums.empty()) packed_.column_sums.as<std::int32_t>()[at] = 128 * sum(begin, count);
    });
  }
  const std::uint8_t* quantized() const { return quantized_.data(); }

 private:
  template <class Visit>
  void for_segments(const Visit& visit) const {
    const std::int64_t per_scale = inputs_per_scale(packed_.format, packed_.in);
    for (std::int64_t begin = 0, b = 0; begin < packed_.in; begin += per_scale, ++b)
      visit(static_cast<std::size_t>(b), begin, std::min(per_scale, packed_.in - begin));
  }
  void add_amax(const float* values) {
    for_segments([&](std::size_t b, std::int64_t begin, std::int64_t count) {
      amax_[b] = std::max(amax_[b], kernels().max_abs(values + begin, count));
    });
  }
  quant::Int4Scale scale_of(const float* values, std::int64_t count, float amax) const {
    if (what_.weights != Element::int4 || packed_.scale_rule == quant::ScaleRule::largest)
      return {quant::scale_of(what_.weights, amax), -quant::max_magnitude(what_.weights)};
    const quant::Int4Scales scales(amax);
    quant::Int4Sums sums;
    if (scales.is_searched())
      kernels().int4_sums(values, count, scales.inverse().data(), scales.grid(), sums.squares.data(),
                          sums.products.data());
    return scales.best(sums);
  }
  void quantize_segment(const float* values, std::int64_t count, float scale, float lowest,
                        std::uint8_t* quantized) const {
    if (scale == 0 || !std::isfinite(scale)) std::fill_n(quantized, count, std::uint8_t{0});
    else if (what_.weights == Element::fp8_e4m3) kernels().quantize_fp8(values, count, scale, quantized);
    else
      kernels().quantize_int(values, count, scale, lowest, quant::max_magnitude(what_.weights),
                             reinterpret_cast<std::int8_t*>(quantized));
  }
  std::int32_t sum(std::int64_t begin, std::int64_t count) const {
    const auto* quantized = reinterpret_cast<const std::int8_t*>(quantized_.data()) + begin;
    std::int32_t total = 0;
    for (std::int64_t i = 0; i < count; ++i) total += quantized[i];
    return total;
  }

  const FormatSpec& what_;
  EnteringWeights& entering_;
  std::int64_t rows_;
  PackedLinear& packed_;
  const float* row_scales_;
  std::vector<std::uint8_t> quantized_;
  std::vector<float> amax_;
  std::int64_t end_of_known_ = 0;  ///< end of the rows that amax_ covers; 0 if no rows share a scale
};

}  // namespace

PackedLinear make_packed_linear(Format format, std::int64_t out, std::int64_t in, bool has_bias, base::Arena* arena) {
  QRL_INVARIANT(out > 0 && in > 0, "packed linear", "a shape above zero",
                "[" + std::to_string(out) + ", " + std::to_string(in) + "]");
  const FormatSpec& what = spec(format);
  QRL_REQUIRE(what.activations != Element::int8 || in <= kMaxInt8Width, "int8 linear layer",
              "an input width of at most " + std::to_string(kMaxInt8Width) + ", so that int32 sums are exact",
              std::to_string(in), "use bf16");
  const std::int64_t columns = round_up(out, kPanelColumns);
  PackedLinear packed;
  packed.format = format;
  packed.out = out;
  packed.in = in;
  packed.panels =
      Buffer(DType::i32, {columns / kPanelColumns, ceil_div(in, inputs_per_word(format)), kPanelColumns}, arena);
  if (what.has_weight_scales()) {
    const base::Shape shape{ceil_div(in, inputs_per_scale(format, in)), columns};
    packed.scales = Buffer(what.weights == Element::int4 ? DType::bf16 : DType::f32, shape, arena);
    if (what.activations == Element::int8) packed.column_sums = Buffer(DType::i32, shape, arena);
  }
  if (has_bias) packed.bias = Buffer(DType::f32, {columns}, arena);
  return packed;
}

bool pack_rows(base::Team& team, const float* weight, std::int64_t rows, std::int64_t first_row, PackedLinear& packed,
               const FixedScales& fixed, std::int64_t* num_changed) {
  check_range({first_row, first_row + rows}, packed.out, "pack_rows");
  const FormatSpec& what = spec(packed.format);
  QRL_INVARIANT(fixed.row_scales == nullptr || packed.format == Format::int8, "pack_rows", "row scales only for int8",
                std::string(name(packed.format)));
  QRL_INVARIANT(fixed.input_factors == nullptr || fixed.row_scales != nullptr || !what.has_weight_scales(), "pack_rows",
                "input factors together with row scales", "only input factors");
  QRL_INVARIANT(packed.rotation.fits(packed.in) && (!packed.rotation || what.has_weight_scales()), "pack_rows",
                "a rotation of whole blocks, only for formats with scales", std::string(name(packed.format)));
  const base::Range mine = team.slice(rows, 16);
  EnteringWeights entering(weight, fixed.input_factors, packed);
  const std::int64_t num_words = ceil_div(packed.in, inputs_per_word(packed.format));
  std::vector<std::uint32_t> words(static_cast<std::size_t>(num_words));
  RowQuantizer quantizer(entering, rows, packed, fixed.row_scales);
  bool finite = true;
  std::int64_t changed = 0;
  for (std::int64_t i = mine.begin; i < mine.end; ++i) {
    quantizer.begin(i);
    const float* values = entering.row(i);
    finite = std::isfinite(kernels().max_abs(values, packed.in)) && finite;
    const std::int64_t row = first_row + i;
    if (what.weights == Element::f32) {
      std::memcpy(words.data(), values, static_cast<std::size_t>(packed.in) * sizeof(float));
    } else if (what.weights == Element::bf16) {
      kernels().round_to_bf16(values, packed.in, reinterpret_cast<std::uint16_t*>(words.data()));
    } else {
      quantizer.quantize(values, i, row);
      if (what.weights == Element::int8)
        std::memcpy(words.data(), quantizer.quantized(), static_cast<std::size_t>(packed.in));
      else values_to_words(what, quantizer.quantized(), packed.in, words.data());
    }
    std::uint32_t* to = panel_words(packed, row);
    for (std::int64_t w = 0; w < num_words; ++w) {
      std::uint32_t& word = to[w * kPanelColumns];
      const std::uint32_t change = word ^ words[static_cast<std::size_t>(w)];
      if (change != 0) changed += num_nonzero(change, what.weight_bits);
      word = words[static_cast<std::size_t>(w)];
    }
  }
  if (num_changed != nullptr) *num_changed += changed;
  return finite;
}

namespace {

constexpr std::int64_t kWordsOfVector = 4;

using FourWords [[gnu::vector_size(16)]] = std::uint32_t;

/// Transposes 4 × 4 words: columns at `from` become rows at `words`, which are num_words apart.
void take_square(const std::uint32_t* from, std::int64_t num_words, std::uint32_t* words) {
  const auto load = [&](std::int64_t w) {
    FourWords of_rows;
    std::memcpy(&of_rows, from + w * kPanelColumns, sizeof(FourWords));
    return of_rows;
  };
  const FourWords a = load(0), b = load(1), c = load(2), d = load(3);
  const FourWords ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const FourWords cd = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  const FourWords rows[] = {__builtin_shufflevector(ab, cd, 0, 1, 4, 5), __builtin_shufflevector(ab, cd, 2, 3, 6, 7),
                            __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5),
                            __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7)};
  for (std::int64_t r = 0; r < kWordsOfVector; ++r) std::memcpy(words + r * num_words, &rows[r], sizeof(FourWords));
}

void take_words(const PackedLinear& packed, base::Range rows, std::int64_t num_words, std::uint32_t* words) {
  constexpr std::int64_t kWordsAtOnce = 64 / sizeof(std::uint32_t);
  const std::uint32_t* const from = panel_words(packed, rows.begin);
  const std::int64_t whole_rows = rows.size() / kWordsOfVector * kWordsOfVector;
  const std::int64_t whole_words = num_words / kWordsOfVector * kWordsOfVector;
  for (std::int64_t first = 0; first < whole_words; first += kWordsAtOnce) {
    const std::int64_t end = std::min(whole_words, first + kWordsAtOnce);
    for (std::int64_t r = 0; r < whole_rows; r += kWordsOfVector) {
      for (std::int64_t w = first; w < end; w += kWordsOfVector)
        take_square(from + w * kPanelColumns + r, num_words, words + r * num_words + w);
    }
  }
  for (std::int64_t w = 0; w < num_words; ++w) {
    for (std::int64_t r = w < whole_words ? whole_rows : 0; r < rows.size(); ++r)
      words[r * num_words + w] = from[w * kPanelColumns + r];
  }
}

constexpr std::int64_t kRowsAtOnce = 16;

}  // namespace

void unpack_rows(const PackedLinear& packed, std::int64_t first_row, std::int64_t rows, float* weight) {
  check_range({first_row, first_row + rows}, packed.out, "unpack_rows");
  const FormatSpec& what = spec(packed.format);
  const std::int64_t num_words = ceil_div(packed.in, inputs_per_word(packed.format));
  const std::int64_t per_scale = inputs_per_scale(packed.format, packed.in);
  std::vector<std::uint32_t> all_words(static_cast<std::size_t>(std::min(kRowsAtOnce, rows) * num_words));
  std::vector<std::uint8_t> quantized(static_cast<std::size_t>(packed.in));
  std::array<float, 256> values{};
  for (std::size_t bits = 0; bits < values.size(); ++bits)
    values[bits] = dequantized(what.weights, static_cast<std::uint8_t>(bits));
  std::int64_t first_taken = first_row, end_taken = first_row;
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t row = first_row + i;
    if (row == end_taken) {
      first_taken = row;
      end_taken = std::min(first_row + rows, (row / kRowsAtOnce + 1) * kRowsAtOnce);
      take_words(packed, {first_taken, end_taken}, num_words, all_words.data());
    }
    const std::uint32_t* words = all_words.data() + (row - first_taken) * num_words;
    float* to = weight + i * packed.in;
    if (what.weights == Element::f32) {
      std::memcpy(to, words, static_cast<std::size_t>(packed.in) * sizeof(float));
    } else if (what.weights == Element::bf16) {
      kernels().widen_bf16(reinterpret_cast<const std::uint16_t*>(words), packed.in, to);
    } else if (what.weights == Element::int8) {
      const auto width = static_cast<std::size_t>(packed.in);
      quant::dequantize_int8({reinterpret_cast<const std::int8_t*>(words), width}, scale_at(packed, 0, row),
                             {to, width});
    } else {
      words_to_values(what, words, packed.in, quantized.data());
      for (std::int64_t begin = 0; begin < packed.in; begin += per_scale) {
        const float scale = scale_at(packed, begin / per_scale, row);
        for (std::int64_t k = begin; k < std::min(packed.in, begin + per_scale); ++k)
          to[k] = values[quantized[static_cast<std::size_t>(k)]] * scale;
      }
    }
  }
}

void unpack_rows(const PackedLinear& packed, std::int64_t first_row, std::int64_t rows, std::uint16_t* bf16_weight) {
  check_range({first_row, first_row + rows}, packed.out, "unpack_rows");
  QRL_INVARIANT(spec(packed.format).weights == Element::bf16 && packed.in % 2 == 0, "unpack_rows",
                "a bf16 layer of even width", std::string(name(packed.format)));
  for (std::int64_t row = first_row; row < first_row + rows;) {
    const std::int64_t end = std::min(first_row + rows, (row / kRowsAtOnce + 1) * kRowsAtOnce);
    std::uint16_t* to = bf16_weight + (row - first_row) * packed.in;
    take_words(packed, {row, end}, packed.in / 2, reinterpret_cast<std::uint32_t*>(to));
    row = end;
  }
}

void unpack_quantized(const PackedLinear& packed, std::int64_t first_row, std::int64_t rows, std::uint8_t* quantized) {
  check_range({first_row, first_row + rows}, packed.out, "unpack_quantized");
  const FormatSpec& what = spec(packed.format);
  QRL_INVARIANT(what.has_weight_scales(), "unpack_quantized", "a format with scales", std::string(what.name));
  std::vector<std::uint32_t> words(static_cast<std::size_t>(ceil_div(packed.in, inputs_per_word(packed.format))));
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::uint32_t* from = panel_words(packed, first_row + i);
    for (std::size_t w = 0; w < words.size(); ++w) words[w] = from[w * kPanelColumns];
    std::uint8_t* to = quantized + i * packed.in;
    if (what.weights == Element::int8) {
      std::memcpy(to, words.data(), static_cast<std::size_t>(packed.in));
      continue;
    }
    words_to_values(what, words.data(), packed.in, to);
    if (what.weights != Element::int4) continue;
    for (std::int64_t k = 0; k < packed.in; ++k)
      to[k] = static_cast<std::uint8_t>(static_cast<std::int8_t>(to[k] << 4) >> 4);
  }
}

float weight_scale(const PackedLinear& packed, std::int64_t segment, std::int64_t row) {
  check_range({row, row + 1}, packed.out, "weight_scale");
  return scale_at(packed, segment, row);
}

}  // namespace qrl::ops
