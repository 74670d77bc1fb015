#include "ops/linear.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "ops/kernels/kernels.h"

namespace qrl::ops {

namespace {

using base::bf16;
using base::Buffer;
using base::DType;
using quant::Format;

// int32 holds the sum of this many products of two codes.
constexpr std::int64_t kMaxInt8Width = (std::int64_t{1} << 31) / (127 * 127) - 1;

std::int64_t round_up(std::int64_t count, std::int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

DType storage_dtype(Format format) {
  switch (format) {
    case Format::f32:
      return DType::f32;
    case Format::bf16:
      return DType::bf16;
    default:
      return DType::i8;
  }
}

/// Neighbouring inputs of one output that lie side by side in a panel: what fills 32 bits.
std::int64_t group_size(Format format) { return 4 / static_cast<std::int64_t>(size_bytes(storage_dtype(format))); }

void check_range(base::Range rows, std::int64_t limit, const char* where) {
  QRL_INVARIANT(0 <= rows.begin && rows.begin <= rows.end && rows.end <= limit, where,
                "rows within [0, " + std::to_string(limit) + ")",
                "[" + std::to_string(rows.begin) + ", " + std::to_string(rows.end) + ")");
}

/// Where a panel row's 32-bit words lie: output `row`, group g at panel_word(...)[g · kPanelColumns].
std::uint32_t* panel_words(const PackedLinear& packed, std::int64_t row) {
  const std::int64_t groups = round_up(packed.in, group_size(packed.format)) / group_size(packed.format);
  return static_cast<std::uint32_t*>(packed.panels.view().data) + row / kPanelColumns * kPanelColumns * groups +
         row % kPanelColumns;
}

/// One row of W in the format's codes.
void encode_values(Format format, const float* x, std::int64_t width, void* codes, float* scale) {
  switch (format) {
    case Format::f32:
      std::memcpy(codes, x, static_cast<std::size_t>(width) * sizeof(float));
      break;
    case Format::bf16:
      kernels().encode_bf16(x, width, static_cast<std::uint16_t*>(codes));
      break;
    case Format::int8:
      *scale = kernels().encode_int8(x, width, static_cast<std::int8_t*>(codes));
      break;
  }
}

}  // namespace

PackedLinear make_packed_linear(Format format, std::int64_t out, std::int64_t in, bool has_bias) {
  QRL_INVARIANT(out > 0 && in > 0, "packed linear", "a shape above zero",
                "[" + std::to_string(out) + ", " + std::to_string(in) + "]");
  QRL_REQUIRE(format != Format::int8 || in <= kMaxInt8Width, "int8 linear layer",
              "an input width of at most " + std::to_string(kMaxInt8Width) + ", so that int32 sums are exact",
              std::to_string(in), "use bf16");
  const std::int64_t columns = round_up(out, kPanelColumns);
  PackedLinear packed;
  packed.format = format;
  packed.out = out;
  packed.in = in;
  packed.panels =
      Buffer(storage_dtype(format), {columns / kPanelColumns, round_up(in, group_size(format)), kPanelColumns});
  if (format == Format::int8) {
    packed.scales = Buffer(DType::f32, {columns});
    packed.column_sums = Buffer(DType::i32, {columns});
  }
  if (has_bias) packed.bias = Buffer(DType::f32, {columns});
  return packed;
}

bool pack_rows(base::Team& team, const float* weight, std::int64_t rows, std::int64_t first_row, PackedLinear& packed) {
  check_range({first_row, first_row + rows}, packed.out, "pack_rows");
  const base::Range mine = team.slice(rows, 16);
  const std::int64_t group = group_size(packed.format);
  const std::int64_t groups = round_up(packed.in, group) / group;
  std::vector<std::uint32_t> words(static_cast<std::size_t>(groups));  // zero beyond the width
  bool finite = true;
  for (std::int64_t i = mine.begin; i < mine.end; ++i) {
    const float* values = weight + i * packed.in;
    finite = std::isfinite(kernels().max_abs(values, packed.in)) && finite;
    const std::int64_t row = first_row + i;
    float* scale = packed.format == Format::int8 ? packed.scales.as<float>() + row : nullptr;
    encode_values(packed.format, values, packed.in, words.data(), scale);
    std::uint32_t* to = panel_words(packed, row);
    for (std::int64_t g = 0; g < groups; ++g) to[g * kPanelColumns] = words[static_cast<std::size_t>(g)];
    if (packed.format == Format::int8) {
      const auto* codes = reinterpret_cast<const std::int8_t*>(words.data());
      std::int32_t sum = 0;
      for (std::int64_t k = 0; k < packed.in; ++k) sum += codes[k];
      packed.column_sums.as<std::int32_t>()[row] = 128 * sum;
    }
  }
  return finite;
}

void unpack_rows(const PackedLinear& packed, std::int64_t first_row, std::int64_t rows, float* weight) {
  check_range({first_row, first_row + rows}, packed.out, "unpack_rows");
  const std::int64_t group = group_size(packed.format);
  const std::int64_t groups = round_up(packed.in, group) / group;
  const auto width = static_cast<std::size_t>(packed.in);
  std::vector<std::uint32_t> words(static_cast<std::size_t>(groups));
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t row = first_row + i;
    const std::uint32_t* from = panel_words(packed, row);
    for (std::int64_t g = 0; g < groups; ++g) words[static_cast<std::size_t>(g)] = from[g * kPanelColumns];
    float* to = weight + i * packed.in;
    switch (packed.format) {
      case Format::f32:
        std::memcpy(to, words.data(), width * sizeof(float));
        break;
      case Format::bf16:
        kernels().decode_bf16(reinterpret_cast<const std::uint16_t*>(words.data()), packed.in, to);
        break;
      case Format::int8:
        quant::decode_int8({reinterpret_cast<const std::int8_t*>(words.data()), width}, packed.scales.as<float>()[row],
                           {to, width});
        break;
    }
  }
}

Activations::Activations(Format format_, std::int64_t num_rows, std::int64_t width_)
    : format(format_), width(width_), stride(round_up(width_, 64)), codes(storage_dtype(format_), {num_rows, stride}) {
  if (format == Format::int8) scales = Buffer(DType::f32, {num_rows});
}

void* Activations::row(std::int64_t row_idx) const {
  return static_cast<char*>(codes.view().data) +
         row_idx * stride * static_cast<std::int64_t>(size_bytes(storage_dtype(format)));
}

void encode_row(const float* x, std::int64_t row_idx, Activations& out) {
  float* scale = out.format == Format::int8 ? out.scales.as<float>() + row_idx : nullptr;
  encode_values(out.format, x, out.width, out.row(row_idx), scale);
}

void encode(base::Team& team, const float* x, base::Range rows, Activations& out) {
  check_range(rows, out.max_rows(), "encode");
  const base::Range mine = team.slice(rows.size());
  for (std::int64_t row = rows.begin + mine.begin; row < rows.begin + mine.end; ++row) {
    encode_row(x + row * out.width, row, out);
  }
}

void decode(base::Team& team, const Activations& codes, base::Range rows, float* x) {
  check_range(rows, codes.max_rows(), "decode");
  const auto width = static_cast<std::size_t>(codes.width);
  const base::Range mine = team.slice(rows.size());
  for (std::int64_t row = rows.begin + mine.begin; row < rows.begin + mine.end; ++row) {
    float* to = x + row * codes.width;
    switch (codes.format) {
      case Format::f32:
        std::memcpy(to, codes.row(row), width * sizeof(float));
        break;
      case Format::bf16:
        kernels().decode_bf16(static_cast<const std::uint16_t*>(codes.row(row)), codes.width, to);
        break;
      case Format::int8:
        quant::decode_int8({static_cast<const std::int8_t*>(codes.row(row)), width}, codes.scales.as<float>()[row],
                           {to, width});
        break;
    }
  }
}

void linear(base::Team& team, const Activations& x, const PackedLinear& weight, base::Range rows, bool accumulate,
            float* y) {
  check_range(rows, x.max_rows(), "linear");
  QRL_INVARIANT(x.format == weight.format && x.width == weight.in, "linear",
                std::string(name(weight.format)) + " activations of width " + std::to_string(weight.in),
                std::string(name(x.format)) + " of width " + std::to_string(x.width));
  const base::Range panels = team.slice(round_up(weight.out, kPanelColumns) / kPanelColumns);
  LinearTask task;
  task.x = x.row(rows.begin);
  task.x_stride = x.stride;
  task.rows = rows.size();
  task.panels = weight.panels.view().data;
  if (weight.format == Format::int8) {
    task.x_scales = x.scales.as<float>() + rows.begin;
    task.scales = weight.scales.as<float>();
    task.column_sums = weight.column_sums.as<std::int32_t>();
  }
  task.bias = weight.bias.empty() ? nullptr : weight.bias.as<float>();
  task.in = weight.in;
  task.out = weight.out;
  task.first_panel = panels.begin;
  task.end_panel = panels.end;
  task.y = y + rows.begin * weight.out;
  task.accumulate = accumulate;
  switch (weight.format) {
    case Format::f32:
      kernels().linear_f32(task);
      break;
    case Format::bf16:
      kernels().linear_bf16(task);
      break;
    case Format::int8:
      kernels().linear_int8(task);
      break;
  }
}

}  // namespace qrl::ops
