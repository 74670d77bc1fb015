// Tests TensorBoard's files: their bytes, and what is on disk.
#include "report/tfevents.h"

#include <fstream>
#include <limits>
#include <optional>

#include "report/event_texts.h"
#include "report/run_files.h"
#include "support/catch.h"
#include "support/files.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    constexpr const char* kDigits = "0123456789abcdef";
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

std::vector<fs::path> events_in(const fs::path& dir) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(dir)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  return files;
}

/// Returns the bytes that this process has written so far, by any means; nothing if the system does not count them.
std::optional<std::uint64_t> bytes_written() {
  std::ifstream counts("/proc/self/io");
  for (std::string name; counts >> name;) {
    std::uint64_t bytes = 0;
    counts >> bytes;
    if (name == "wchar:") return bytes;
  }
  return std::nullopt;
}

report::Rows two_rows() {
  return report::parse_rows(
      "{\"step\":1,\"critic/score/mean\":0.25,\"timing_s/unix\":100.5}\n"
      "{\"step\":2,\"critic/score/mean\":null,\"actor/lr\":0.001,\"timing_s/unix\":101.5}\n");
}

}  // namespace

TEST_CASE("CRC-32C: equals the values of RFC 3720") {
  CHECK(report::crc32c("123456789") == 0xe3069283U);
  CHECK(report::crc32c(std::string(32, '\0')) == 0x8a9136aaU);
  CHECK(report::crc32c(std::string(32, '\xff')) == 0x62a8ab43U);
  std::string ascending;
  for (char c = 0; c < 32; ++c) ascending += c;
  CHECK(report::crc32c(ascending) == 0x46dd794eU);
  CHECK(report::crc32c("") == 0);
}

// Generated with TensorBoard's own writer and protobuf.
TEST_CASE("TensorBoard records: equal TensorBoard's, byte for byte") {
  CHECK(hex(report::version_record(1.0)) ==
        "1800000000000000a37f4b2209000000000000f03f1a0d627261696e2e4576656e743a3286bf577a");
  CHECK(
      hex(report::step_record(2.0, 7, {{"critic/score/mean", 0.5}})) ==
      "2700000000000000bbe1b14609000000000000004010072a1a0a180a116372697469632f73636f72652f6d65616e150000003ffa079b53");
  CHECK(hex(report::text_record(2.0, 7, {"recipe", "**x**"})) ==
        "300000000000000095f5d05f09000000000000004010072a230a210a06726563697065420b0807120042052a2a"
        "782a2a4a0a0a060a047465787420024c039673");
}

TEST_CASE("TensorBoard texts: recipe and samples at step 1, each 20th, and steps with held-out answers") {
  const test::TempDir dir;
  fs::create_directories(dir / "rollouts");
  fs::create_directories(dir / "validation");
  std::ofstream(dir / "config.yaml") << "optim:\n  lr: 1e-3  # a.yaml:3\n  beta: 0.9  # default\n";
  const auto respond = [&](const std::string& file, const std::string& response) {
    std::ofstream(dir / file) << R"({"prompt_id":0,"prompt":"1|2","score":0.5,"response_tokens":3,"response":")"
                              << response << "\"}\n";
  };
  for (const int step : {1, 2, 20, 30}) respond("rollouts/step_" + std::to_string(step) + ".jsonl", "a\\n**b**");
  respond("validation/step_30.jsonl", "held");
  const auto tags = [&](std::int64_t step, bool is_first) {
    std::string all;
    for (const report::EventText& text : report::step_texts(dir.path(), step, is_first)) all += text.tag + " ";
    return all;
  };
  CHECK(tags(1, true) == "recipe samples/rollouts ");
  CHECK(tags(2, false).empty());
  CHECK(tags(20, false) == "samples/rollouts ");
  CHECK(tags(30, false) == "samples/held_out samples/rollouts ");
  const auto texts = report::step_texts(dir.path(), 1, true);
  CHECK(texts[0].markdown ==
        "| key | value | origin |\n|---|---|---|\n| optim.lr | `1e-3` | `a.yaml:3` |\n| optim.beta | `0.9` | `default` "
        "|\n");
  CHECK(texts[1].markdown == "**prompt**\n\n    1|2\n\n**score 0.5**, 3 tokens\n\n    a\n    **b**\n\n");

  std::ofstream(dir / "metrics.jsonl") << "{\"step\":1,\"x\":1,\"timing_s/unix\":9}\n";
  report::write_tensorboard(report::read_run(dir.path()), dir / "out");
  CHECK(test::read_file(events_in(dir / "out").front()) ==
        report::version_record(9) + report::step_record(9, 1, {{"x", 1}}) + report::text_record(9, 1, texts[0]) +
            report::text_record(9, 1, texts[1]));
}

TEST_CASE("TensorBoard values: non-finite ones are left out, and the time is the record's own") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(report::step_record(3.0, 1, {{"a", 1}, {"b", nan}, {"timing_s/unix", 3.0}}) ==
        report::step_record(3.0, 1, {{"a", 1}}));
}

TEST_CASE("TensorBoard file: begins with existing rows, grows by one record per step, replaces an earlier file") {
  const test::TempDir dir;
  { report::EventsFile(dir / "tensorboard", report::Rows{}).append(9, {{"x", 1}}); }
  std::ofstream(dir / "tensorboard/events.out.tfevents.1.elsewhere") << "earlier";
  std::ofstream(dir / "tensorboard/notes.txt") << "kept";
  report::EventsFile file(dir / "tensorboard", two_rows());
  file.append(3, {{"x", 2}, {"timing_s/unix", 102.5}});
  REQUIRE(events_in(dir / "tensorboard").size() == 2);  // including the notes
  CHECK(test::read_file(file.path()) ==
        report::version_record(100.5) + report::step_record(100.5, 1, {{"critic/score/mean", 0.25}}) +
            report::step_record(101.5, 2, {{"actor/lr", 0.001}}) + report::step_record(102.5, 3, {{"x", 2}}));
  CHECK(file.path().filename().string().starts_with("events.out.tfevents."));
}

TEST_CASE("TensorBoard file: an inactive one writes nothing, and an impossible folder is an input error") {
  report::EventsFile().append(1, {{"x", 1}});
  const test::TempDir dir;
  std::ofstream(dir / "file") << "x";
  CHECK_THROWS_WITH(report::EventsFile(dir / "file/none", report::Rows{}),
                    Catch::Contains("a folder that can be created"));
}

TEST_CASE("TensorBoard file: a step writes only its own record, however long the file is") {
  const test::TempDir dir;
  report::EventsFile file(dir / "tensorboard", report::Rows{});
  const report::Metrics row{{"x", 1}, {"timing_s/unix", 1}};
  const std::uint64_t record_bytes = report::step_record(1, 1000, row).size();
  for (int step = 0; step < 1000; ++step) file.append(step, row);
  const auto before = bytes_written();
  if (!before) return test::skip("the system does not count what a process writes");
  file.append(1000, row);
  CHECK(*bytes_written() - *before == record_bytes);
}

TEST_CASE("TensorBoard file: events of the cold start have their own folder") {
  const test::TempDir dir;
  fs::create_directories(dir / "run");
  std::ofstream(dir / "run/metrics.jsonl") << "{\"step\":1,\"x\":1}\n";
  std::ofstream(dir / "run/sft_metrics.jsonl") << "{\"step\":1,\"actor/sft_loss\":1}\n";
  report::write_tensorboard(report::read_run(dir / "run"), dir / "out");
  REQUIRE(events_in(dir / "out").size() == 1);
  REQUIRE(events_in(dir / "out/sft").size() == 1);
  CHECK(test::read_file(events_in(dir / "out/sft").front()).find("actor/sft_loss") != std::string::npos);
}
