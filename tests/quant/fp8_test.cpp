#include "quant/fp8.h"

#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/bf16.h"
#include "support/catch.h"

using namespace qrl;

namespace {

nlohmann::json golden_fp8() {
  std::ifstream file(test::shipped_data() / "golden" / "quant" / "fp8.json");
  REQUIRE(file.good());
  return nlohmann::json::parse(file);
}

}  // namespace

TEST_CASE("e4m3: values of every bf16 number equal torch's") {
  const auto runs = golden_fp8()["codes"].get<std::vector<int>>();
  std::uint32_t number = 0;
  int num_wrong = 0;
  for (std::size_t run = 0; run < runs.size(); run += 2) {
    for (int i = 0; i < runs[run + 1]; ++i, ++number) {
      const float value = std::bit_cast<float>(number << 16);
      const int code = quant::quantize_fp8(value);
      // torch also keeps a NaN's sign; its other bits do not matter.
      num_wrong += std::isnan(value) ? (code & 0x7f) != 0x7f : code != runs[run];
    }
  }
  CHECK(number == 65536);
  CHECK(num_wrong == 0);
}

TEST_CASE("e4m3: values of every code equal torch's, and encode to the same code") {
  const auto values = golden_fp8()["values"].get<std::vector<std::uint32_t>>();
  REQUIRE(values.size() == 256);
  for (int code = 0; code < 256; ++code) {
    const float value = quant::dequantize_fp8(static_cast<std::uint8_t>(code));
    CAPTURE(code);
    if ((code & 0x7f) == 0x7f) {
      CHECK(std::isnan(value));
    } else {
      CHECK(std::bit_cast<std::uint32_t>(value) == values[static_cast<std::size_t>(code)]);
      CHECK(quant::quantize_fp8(value) == code);
    }
  }
}

TEST_CASE("e4m3: rounds ties to even and saturates") {
  CHECK(quant::quantize_fp8(std::numeric_limits<float>::infinity()) == 0x7e);
  CHECK(quant::quantize_fp8(-1e30F) == 0xfe);
  CHECK(quant::dequantize_fp8(quant::quantize_fp8(17.0F)) == 16.0F);                       // between 16 and 18
  CHECK(quant::dequantize_fp8(quant::quantize_fp8(19.0F)) == 20.0F);                       // between 18 and 20
  CHECK(quant::quantize_fp8(std::nextafter(17.0F, 18.0F)) == quant::quantize_fp8(18.0F));  // fp32 is rounded only once
  CHECK(quant::quantize_fp8(0x1p-10F) == 0);                                               // between 0 and 2⁻⁹
  CHECK(quant::quantize_fp8(-0.0F) == 0x80);
}
