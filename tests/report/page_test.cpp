// Tests the page's data and text: its contents, forbidden contents, and its size.
#include "report/page.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>

#include "report/page_data.h"
#include "report/panels.h"
#include "report/recipe_lines.h"
#include "report/samples.h"
#include "report/text.h"
#include "support/catch.h"
#include "support/files.h"

using namespace qrl;
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

std::vector<float> decoded(const std::string& base64) {
  std::string bytes;
  std::uint32_t word = 0;
  int num_bits = 0;
  for (const char c : base64) {
    if (c == '=') break;
    const std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    word = word << 6 | static_cast<std::uint32_t>(digits.find(c));
    num_bits += 6;
    if (num_bits < 8) continue;
    num_bits -= 8;
    bytes += static_cast<char>(word >> num_bits & 0xff);
  }
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

report::Rows rows_of(int count) {
  report::Rows rows;
  for (int step = 1; step <= count; ++step)
    rows.rows.push_back({step, {{"critic/rewards/mean", std::sin(step)}, {"in/no/panel", 1}, {"timing_s/unix", 1}}});
  return rows;
}

const std::string kHostile = "</script><img src=x onerror=alert(1)>\xE2\x80\xAE\xE2\x80\xA8<!--";

/// Creates a run folder with one step whose response is `response`.
fs::path hostile_run(const fs::path& dir, const std::string& response) {
  fs::create_directories(dir / "rollouts");
  std::ofstream(dir / "metrics.jsonl") << "{\"step\":1,\"critic/rewards/mean\":0.5}\n";
  std::string line = Json{{"step", 1}, {"prompt_id", 0}, {"sample", 0}, {"prompt", kHostile}, {"response", "@"}}.dump();
  std::string quoted = Json(response).dump(-1, ' ', false, nlohmann::json::error_handler_t::ignore);
  line.replace(line.find("\"@\""), 3, quoted);
  std::ofstream(dir / "rollouts/step_1.jsonl") << line << "\n{\"prompt_id\":0,\"response\":\"bad \xFF bytes\"}\n{\"cut";
  return dir;
}

}  // namespace

TEST_CASE("report page columns: float32 in base64, bit for bit") {
  const std::vector<double> values = {0.1, -2.5e-7, std::nan(""), 1e30, 7};
  const std::vector<float> back = decoded(report::base64_floats(values));
  REQUIRE(back.size() == values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) CHECK(std::isnan(back[i]));
    else CHECK(back[i] == static_cast<float>(values[i]));
  }
  CHECK(report::base64_floats({1.0}) == "AACAPw==");
}

TEST_CASE("report page table: all metrics except the clock, thinned to neighborhood extremes when rows are many") {
  const Json small = report::table_json(rows_of(10), 2000);
  CHECK(small["columns"].size() == 2);
  CHECK(small["columns"].contains("in/no/panel"));
  CHECK(decoded(small["steps"]).size() == 10);

  const Json large = report::table_json(rows_of(5000), 2000);
  const std::vector<float> steps = decoded(large["steps"]), values = decoded(large["columns"]["critic/rewards/mean"]);
  REQUIRE(steps.size() == 2000);
  REQUIRE(values.size() == 2000);
  CHECK(steps.front() == 1);
  CHECK(steps.back() == 5000);
  for (std::size_t k = 0; k < 1000; ++k) {
    const auto first = static_cast<int>(steps[2 * k]), last = static_cast<int>(steps[2 * k + 1]);
    float low = 2, high = -2;
    for (int step = first; step <= last; ++step) {
      low = std::min(low, static_cast<float>(std::sin(step)));
      high = std::max(high, static_cast<float>(std::sin(step)));
    }
    CHECK(std::min(values[2 * k], values[2 * k + 1]) == low);
    CHECK(std::max(values[2 * k], values[2 * k + 1]) == high);
  }
}

TEST_CASE("report page data: cannot end its script element, and reads back equal") {
  const Json json = {{"text", kHostile}};
  const std::string text = report::script_json(json);
  CHECK(text.find('<') == std::string::npos);
  CHECK(text.find("\xE2\x80\xA8") == std::string::npos);
  CHECK(Json::parse(text) == json);
  CHECK(Json::parse(report::script_json({{"text", "bad \xFF"}}))["text"] == "bad \xEF\xBF\xBD");
}

TEST_CASE("report page: holds data between fixed parts, and its policy allows no network address") {
  const std::string page = report::make_page("{\"runs\":[]}", false);
  CHECK(page.find("{{") == std::string::npos);
  CHECK(page.find("default-src 'none'") != std::string::npos);
  CHECK(page.find("connect-src") == std::string::npos);
  CHECK(page.find("Copyright (c) 2021, Leon Sorokin") != std::string::npos);
  CHECK(page.find(">{\"runs\":[]}</script>") != std::string::npos);
  CHECK(report::make_page("{}", true).find("connect-src 'self'") != std::string::npos);
  CHECK_THROWS(report::page_file("none"));
}

TEST_CASE("report page: hostile responses stay in the data, long ones are cut, broken lines are left out") {
  const test::TempDir dir;
  const std::string megabyte = std::string(1 << 20, 'x') + kHostile;
  const report::RunFiles run = report::read_run(hostile_run(dir / "run", kHostile + megabyte));
  const Json json = report::page_json({run}, false, {});
  const Json& groups = json["runs"][0]["samples"][0]["groups"];
  REQUIRE(groups.size() == 1);
  CHECK(groups[0]["prompt"] == kHostile);
  REQUIRE(groups[0]["samples"].size() == 2);
  const std::string response = groups[0]["samples"][0]["response"];
  CHECK(response.starts_with(kHostile));
  CHECK(response.size() < 21'000);
  CHECK(response.find("more bytes in the run folder") != std::string::npos);
  CHECK(groups[0]["samples"][1]["response"] == "bad \xEF\xBF\xBD bytes");
  CHECK(report::script_json(json).find("</script") == std::string::npos);
}

TEST_CASE("report page samples: from a limited number of evenly spread files, with first and last, within the size") {
  const test::TempDir dir;
  fs::create_directories(dir / "run/rollouts");
  std::ofstream(dir / "run/metrics.jsonl") << "{\"step\":1,\"critic/rewards/mean\":0.5}\n";
  const std::string text(4000, 'x');
  for (int step = 1; step <= 100; ++step) {
    std::ofstream file(dir / ("run/rollouts/step_" + std::to_string(step) + ".jsonl"));
    for (int prompt = 0; prompt < 12; ++prompt) {
      for (int sample = 0; sample < 2; ++sample)
        file << Json{{"prompt_id", prompt}, {"sample", sample}, {"response", text}}.dump() << "\n";
    }
  }
  const report::RunFiles run = report::read_run(dir / "run");
  const Json whole = report::page_json({run}, false, {})["runs"][0]["samples"];
  REQUIRE(whole.size() == 40);
  CHECK(whole.front()["step"] == 1);
  CHECK(whole.back()["step"] == 100);
  CHECK(whole.front()["groups"].size() == 8);
  CHECK(whole.front()["groups"][0]["samples"].size() == 2);
  report::PageLimits limits;
  limits.max_sample_bytes = 1 << 20;
  const Json part = report::page_json({run}, false, limits);
  CHECK(part["runs"][0]["samples"].size() == 10);
  CHECK(part["left_out"].get<std::string>().find("Samples of 10 of 100 steps are shown") != std::string::npos);
}

TEST_CASE("report page runs: grouped if only the seed differs, and equal names get their parent folder") {
  const test::TempDir dir;
  const auto make = [&](const std::string& name, const std::string& lr, const std::string& seed) {
    fs::create_directories(dir / name);
    std::ofstream(dir / name / "metrics.jsonl") << "{\"step\":1,\"critic/rewards/mean\":0.5}\n";
    std::ofstream(dir / name / "config.yaml")
        << "optim:\n  lr: " << lr << "   # a.yaml:1\ntrainer:\n  seed: " << seed << "  # default\n";
    return report::read_run(dir / name);
  };
  const std::vector<report::RunFiles> runs = {make("a/run", "1.0", "0"), make("b/run", "1.0", "1"),
                                              make("c/run", "2.0", "0")};
  const Json json = report::page_json(runs, true, {})["runs"];
  CHECK(json[0]["group"] == 0);
  CHECK(json[1]["group"] == 0);
  CHECK(json[2]["group"] == 1);
  CHECK(json[1]["label"] == "b/run");
  CHECK(report::page_json(runs, false, {})["runs"][1]["group"] == 1);
  CHECK(json[0]["recipe"] == Json{{"optim.lr", "1.0", "a.yaml:1"}, {"trainer.seed", "0", "default"}});
}

TEST_CASE("report page recipe: keys with values and origins, for any values") {
  const auto lines = report::read_recipe_lines(
      "mode: null    # default\nmodel:\n  path: \"a # b: \\\" c\"  # x.yaml:2\n  init:\n    seed: 3  # --set\noptim:\n "
      " lr: 1\n");
  REQUIRE(lines.size() == 4);
  CHECK(lines[1].key == "model.path");
  CHECK(lines[1].value == "\"a # b: \\\" c\"");
  CHECK(lines[1].origin == "x.yaml:2");
  CHECK(lines[2].key == "model.init.seed");
  CHECK(lines[3].origin.empty());
  CHECK(report::recipe_value(lines, "model.init.seed") == "3");
  CHECK(report::recipe_value(lines, "none").empty());
}

TEST_CASE("report page panels: a star in a metric matches one part of a name") {
  CHECK(report::is_shown("val/countdown/mean@8", false));
  CHECK_FALSE(report::is_shown("val/a/b/mean@8", false));
  CHECK(report::is_shown("actor/grad_norm", true));
  CHECK_FALSE(report::is_shown("critic/rewards/mean", true));
  for (const report::Panel& panel : report::panels()) CHECK_FALSE(panel.unit.empty());
}

TEST_CASE("text report: has verdicts and the figures of compare_runs") {
  const test::TempDir dir;
  fs::create_directories(dir / "a");
  fs::create_directories(dir / "b");
  std::ofstream(dir / "a/metrics.jsonl")
      << "{\"step\":1,\"actor/entropy\":1}\n{\"step\":2,\"actor/entropy\":0.123456789}\n";
  std::ofstream(dir / "b/metrics.jsonl") << "{\"step\":1,\"actor/entropy\":0.5}\n";
  const std::string one = report::report_text({report::read_run(dir / "a")});
  CHECK(one.find("a: 2 rows\n  too few steps for a verdict\n") != std::string::npos);
  CHECK(one.find("metric             last   quarter\nactor/entropy  0.123457  0.123457\n") != std::string::npos);
  const std::string two = report::report_text({report::read_run(dir / "a"), report::read_run(dir / "b")});
  CHECK(two.find("actor/entropy  0.123457     0.5  +0.377") != std::string::npos);
}

TEST_CASE("text report: names the step of a value that is older than the last step, and prints no -0") {
  const test::TempDir dir;
  std::ofstream(dir / "metrics.jsonl") << R"({"step":1,"actor/entropy":3.5,"mismatch/probe_k1_kl":-0.0})"
                                          "\n"
                                       << R"({"step":2,"actor/entropy":null,"mismatch/probe_k1_kl":-0.0})"
                                          "\n";
  const std::string text = report::report_text({report::read_run(dir / ".")});
  INFO(text);
  CHECK(text.find("actor/entropy         3.5 (step 1)      3.5\n") != std::string::npos);
  CHECK(text.find("mismatch/probe_k1_kl             0        0\n") != std::string::npos);
}

TEST_CASE("metric names: sorted by their numbers") {
  const std::vector<std::string> sorted = {"a/maj@16", "a/pass@2", "a/pass@2/b", "a/pass@16", "a/pass@128", "a/passes"};
  CHECK(std::ranges::is_sorted(sorted, report::NameOrder{}));
  for (const std::string& name : sorted) CHECK_FALSE(report::NameOrder{}(name, name));
}

TEST_CASE("text report: terminal control characters are shown as escapes") {
  const test::TempDir dir;
  const fs::path run = dir / "a\x1b[31m";
  fs::create_directories(run);
  std::ofstream(run / "metrics.jsonl") << "{\"step\":1,\"actor/entropy\":1,\"x\\u001b[2J/mean\":2}\n";
  std::ofstream(run / "sessions.jsonl") << "{\"unix\":1,\"ended\":\"done\\u001b]0;x\\u0007\\u202e\"}\n";
  const std::string text = report::report_text({report::read_run(run)});
  CHECK(text.find_first_of("\x1b\a") == std::string::npos);
  CHECK(text.find("\u202e") == std::string::npos);
  CHECK(text.find("a\\x1b[31m: 1 row, done\\x1b]0;x\\x07\\u202e") != std::string::npos);
}

TEST_CASE("sparkline: one bar for each value, means if values are many") {
  const std::vector<double> rising = {0, 1, 2, 3, 4, 5, 6, 7};
  CHECK(report::sparkline(rising, 10) == "▁▂▃▄▅▆▇█");
  CHECK(report::sparkline(rising, 2) == "▁█");
  CHECK(report::sparkline(std::vector<double>{2, 2}, 10) == "▁▁");
  CHECK(report::sparkline(std::vector<double>{std::nan("")}, 10).empty());
}

TEST_CASE("differing keys: listed with each run's value, on the page and in text") {
  const test::TempDir dir;
  const auto run = [&](const std::string& name, const std::string& yaml) {
    fs::create_directories(dir / name);
    std::ofstream(dir / (name + "/metrics.jsonl")) << "{\"step\":1,\"actor/entropy\":1}\n";
    if (!yaml.empty()) std::ofstream(dir / (name + "/config.yaml")) << yaml;
    return report::read_run(dir / name);
  };
  const std::string shared = "trainer:\n  default_local_dir: runs/";
  const report::RunFiles a = run("a", shared + "a\n  seed: 0\noptim:\n  lr: 1e-3  # a.yaml:3\n"),
                         b = run("b", shared + "b\n  seed: 0\noptim:\n  lr: 1e-4  # b.yaml:3\nrollout:\n  n: 4\n"),
                         none = run("none", "");
  CHECK(report::differences_json({a, b, none}) ==
        Json::parse(R"([["optim.lr",["1e-3","1e-4",""]],["rollout.n",["","4",""]]])"));
  CHECK(report::page_json({a, b}, false, {})["differences"].size() == 2);
  CHECK(report::differences_json({a}).empty());
  CHECK(report::differences_json({a, none}).empty());
  CHECK(report::report_text({a, b}).find("recipe key     A     B\noptim.lr    1e-3  1e-4\nrollout.n      –     4\n") !=
        std::string::npos);
  CHECK(report::report_text({a, a}).find("the recipes are equal\n") != std::string::npos);
  CHECK(report::report_text({a}).find("recipe") == std::string::npos);
  CHECK(report::report_text({a, none}).find("recipe") == std::string::npos);
}
