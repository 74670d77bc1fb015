#include "quant/format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace qrl::quant {

namespace {

constexpr std::array<std::pair<Format, std::string_view>, 3> kNames{
    {{Format::f32, "fp32"}, {Format::bf16, "bf16"}, {Format::int8, "int8"}}};

void require_same_size(std::size_t expected, std::size_t got, const char* where) {
  QRL_INVARIANT(expected == got, where, std::to_string(expected) + " elements", std::to_string(got));
}

}  // namespace

std::string_view name(Format format) {
  for (const auto& [known, text] : kNames) {
    if (known == format) return text;
  }
  base::fail_internal("weight format", "a known format", std::to_string(static_cast<int>(format)));
}

Format format_from_name(std::string_view name) {
  std::string expected;
  for (const auto& [format, text] : kNames) {
    if (text == name) return format;
    expected += (expected.empty() ? "" : " | ") + std::string(text);
  }
  base::fail_input("weight format", expected, base::quoted(name));
}

float encode_int8(std::span<const float> values, std::span<std::int8_t> codes) {
  require_same_size(values.size(), codes.size(), "encode_int8");
  float amax = 0;
  bool finite = true;
  for (const float value : values) {
    finite = finite && std::isfinite(value);
    amax = std::max(amax, std::fabs(value));
  }
  std::fill(codes.begin(), codes.end(), std::int8_t{0});
  if (!finite) return std::numeric_limits<float>::quiet_NaN();
  const float scale = amax / 127.0F;
  if (scale == 0.0F) return 0.0F;
  for (std::size_t i = 0; i < values.size(); ++i) {
    // The clamp acts only where the scale itself is subnormal and so rounded by more than half a step in 127.
    const float code = std::clamp(std::nearbyint(values[i] / scale), -127.0F, 127.0F);
    codes[i] = static_cast<std::int8_t>(code);
  }
  return scale;
}

void decode_int8(std::span<const std::int8_t> codes, float scale, std::span<float> values) {
  require_same_size(codes.size(), values.size(), "decode_int8");
  for (std::size_t i = 0; i < codes.size(); ++i) values[i] = static_cast<float>(codes[i]) * scale;
}

FormatError format_error(std::span<const float> original, std::span<const float> decoded) {
  require_same_size(original.size(), decoded.size(), "format_error");
  FormatError error;
  double signal = 0, noise = 0, power = 0, product = 0;
  for (std::size_t i = 0; i < original.size(); ++i) {
    const double a = original[i], b = decoded[i], difference = b - a;
    // A NaN difference sticks.
    if (!(std::fabs(difference) <= error.max_abs) && !std::isnan(error.max_abs)) error.max_abs = std::fabs(difference);
    signal += a * a;
    noise += difference * difference;
    power += b * b;
    product += a * b;
  }
  if (!original.empty()) error.rms = std::sqrt(noise / static_cast<double>(original.size()));
  error.snr_db = noise == 0 ? std::numeric_limits<double>::infinity() : 10 * std::log10(signal / noise);
  if (signal == 0 && power == 0) {
    error.cosine = 1;
  } else if (signal == 0 || power == 0) {
    error.cosine = 0;
  } else {
    error.cosine = product / (std::sqrt(signal) * std::sqrt(power));
  }
  return error;
}

}  // namespace qrl::quant
