// Tests shapes of published models that other programs hold.
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "model/config.h"
#include "support/catch.h"
#include "support/files.h"

using namespace qrl;
using namespace qrl::model;
using Json = nlohmann::json;

TEST_CASE("config.json: shapes of published models in other programs are read, three or more of each family") {
  // sources.jsonl has their sources, and transformers' number of parameters (scripts/golden/source_configs.py).
  std::ifstream rows(test::shipped_data() / "golden/hf_configs/sources.jsonl");
  std::map<std::string, int> counts = {{"smollm3", 1}, {"olmo3", 1}, {"granite", 1}, {"phi3", 1}, {"qwen3_moe", 1}};
  for (std::string line; std::getline(rows, line);) {
    const Json row = Json::parse(line);
    const std::string name = row["model"], text = row["config"].dump();
    INFO(name);
    const ModelConfig config = parse_config(text, name);
    CHECK(num_parameters(config) == row["parameters"]);
    CHECK(unknown_config_keys(text, name).empty());
    const bool is_inside = row["config"].value("sliding_window", Json(0)) == config.max_position_embeddings;
    CHECK(std::ssize(config.sliding_layers) == (is_inside ? Json(0) : row["sliding_layers"]));
    CHECK(parse_config(config_json(config), name) == config);
    ++counts[row["config"]["model_type"]];
  }
  for (const auto& [family, count] : counts) {
    INFO(family);
    CHECK(count >= (family == "smollm3" ? 2 : family == "qwen3_5_text" ? 2 : 3));
  }
}
