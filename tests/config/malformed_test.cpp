// Tests the malformed recipes of the shared data, and the excerpt of them in the repository.
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "support/catch.h"
#include "train/recipe/catalog.h"
#include "train/recipe/load.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

/// Lists this program's decisions for the rows that the manifest leaves to the reader.
const std::map<std::string, bool> kPolicyAccepts = {
    {"recipe/lr_1e-6.yaml", true},           // a number in YAML 1.2
    {"recipe/output_traversal.yaml", true},  // the user chooses the run folder
    {"recipe/octal.yaml", false},           {"recipe/norway.yaml", false}, {"recipe/sexagesimal.yaml", false},
};

bool accepts(const fs::path& file, std::string& message) {
  try {
    train::load_recipe(train::keys(), file, {}, false);
    return true;
  } catch (const base::Error& error) {
    CHECK(error.exit_code() == 2);
    message = error.what();
    return false;
  }
}

/// Judges the recipe rows of `manifest` against `dir`/<file>; returns the number of rows.
int judge_rows(const fs::path& manifest, const fs::path& dir) {
  std::ifstream stream(manifest);
  int num_rows = 0;
  for (std::string line; std::getline(stream, line);) {
    const auto row = nlohmann::json::parse(line);
    if (row["kind"] != "recipe") continue;
    ++num_rows;
    const std::string file = row["file"], expect = row["expect"];
    INFO(file);
    REQUIRE(fs::exists(dir / file));
    const auto policy = kPolicyAccepts.find(file);
    const bool wanted = expect == "policy" && policy != kPolicyAccepts.end() ? policy->second : expect == "accept";
    if (expect == "policy") CHECK(policy != kPolicyAccepts.end());
    std::string message;
    CHECK(accepts(dir / file, message) == wanted);
    INFO(message);
    if (!wanted) CHECK(message.find(fs::path(file).filename().string() + ":") != std::string::npos);
  }
  return num_rows;
}

}  // namespace

TEST_CASE("malformed recipes: shipped ones are judged as declared") {
  const fs::path malformed = test::shipped_data() / "malformed";
  CHECK(judge_rows(malformed / "recipe" / "manifest.jsonl", malformed) == 20);
}

TEST_CASE("malformed recipes: shared ones are judged as declared") {
  const auto shared = test::shared_data();
  if (!shared) return test::skip("no shared data: set QRL_TEST_DATA");
  CHECK(judge_rows(*shared / "malformed" / "manifest.jsonl", *shared / "malformed") >= 21);
}

TEST_CASE("malformed recipes: accepted ones have the declared values") {
  const fs::path dir = test::shipped_data() / "malformed" / "recipe";
  CHECK(train::load_recipe(train::keys(), dir / "lr_1e-6.yaml", {}, false).recipe.optim.lr == 1e-6);
  const train::Recipe anchors = train::load_recipe(train::keys(), dir / "anchor_ok.yaml", {}, false).recipe;
  CHECK(anchors.trainer.total_training_steps == 8);
  CHECK(anchors.rollout.n == 8);
  const train::Recipe traversal = train::load_recipe(train::keys(), dir / "output_traversal.yaml", {}, false).recipe;
  CHECK(traversal.trainer.default_local_dir == "../../../../etc/cron.d");
}
