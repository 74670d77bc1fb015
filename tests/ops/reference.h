// Owns what every ops test shares: the ISA paths to run on, odd inputs, plain double-precision definitions of the ops,
// and a comparison that names the first bad element. Knows nothing of how the kernels work.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/threads.h"
#include "ops/isa.h"
#include "ops/linear.h"
#include "ops/transformer.h"
#include "support/catch.h"

namespace qrl::test {

/// The paths that this processor has: every test of an op runs on each.
inline std::vector<ops::Isa> isa_paths() {
  std::vector<ops::Isa> paths;
  for (const ops::Isa isa : {ops::Isa::avx512, ops::Isa::avx2, ops::Isa::portable}) {
    if (ops::supported(isa)) paths.push_back(isa);
  }
  return paths;
}

/// Uses a path for a scope.
class WithIsa {
 public:
  explicit WithIsa(ops::Isa isa) : before_(ops::isa()) { ops::force_isa(isa); }
  ~WithIsa() { ops::force_isa(before_); }
  WithIsa(const WithIsa&) = delete;
  WithIsa& operator=(const WithIsa&) = delete;

 private:
  ops::Isa before_;
};

/// Normal values of standard deviation `sigma`; `stream` selects independent ones.
inline std::vector<float> normal_values(std::int64_t count, float sigma, std::uint64_t stream) {
  base::RandomStream random(11, base::RandomPurpose::test, stream);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = sigma * random.normal();
  return values;
}

/// Compares element by element: |got − want| ≤ absolute[i]; NaN never passes. Reports the first bad index.
inline void check_close(const std::vector<float>& got, const std::vector<double>& want,
                        const std::function<double(std::size_t)>& bound) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (close(got[i], want[i], bound(i), 0)) continue;
    std::ostringstream text;
    text << "element " << i << ": got " << got[i] << ", want " << want[i] << ", bound " << bound(i);
    FAIL(text.str());
  }
}

/// Bits equal, reported by the first index that differs.
inline void check_same_bits(const std::vector<float>& got, const std::vector<float>& want) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(got[i]) == std::bit_cast<std::uint32_t>(want[i])) continue;
    std::ostringstream text;
    text << "element " << i << ": got " << std::hexfloat << got[i] << ", want " << want[i];
    FAIL(text.str());
  }
}

/// Rows of encoded activations read back as the numbers that a kernel multiplies.
inline std::vector<float> decoded(const ops::Activations& x, std::int64_t rows) {
  std::vector<float> values;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t k = 0; k < x.width; ++k) {
      switch (x.format) {
        case quant::Format::f32: values.push_back(static_cast<const float*>(x.row(row))[k]); break;
        case quant::Format::bf16: values.push_back(to_float(static_cast<const base::bf16*>(x.row(row))[k])); break;
        case quant::Format::int8:
          values.push_back(static_cast<float>(static_cast<const std::int8_t*>(x.row(row))[k]) *
                           x.scales.as<float>()[row]);
          break;
      }
    }
  }
  return values;
}

}  // namespace qrl::test
