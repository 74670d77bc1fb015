// Owns the tests' reader of numpy's rotated rows (scripts/golden/rotation.py).
#pragma once

#include <bit>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "quant/checksums.h"
#include "support/catch.h"

namespace qrl::test {

struct RotationGolden {
  RotationGolden() {
    std::ifstream file(shipped_data() / "golden" / "quant" / "rotation.json");
    REQUIRE(file.good());
    json_ = nlohmann::json::parse(file);
    inputs = json_.at("inputs");
    for (const std::uint32_t bits : json_.at("weights")) weights.push_back(std::bit_cast<float>(bits));
    for (const std::uint32_t bits : json_.at("tokens")) tokens.push_back(std::bit_cast<float>(bits));
  }
  const nlohmann::json& of(std::int64_t block) const { return json_.at("blocks").at(std::to_string(block)); }

  std::int64_t inputs = 0;
  std::vector<float> weights, tokens;  ///< rows of `inputs`

 private:
  nlohmann::json json_;
};

}  // namespace qrl::test
