// Tests TensorBoard's files: their bytes, and what is on disk.
#include "report/tfevents.h"

#include <fstream>
#include <limits>
#include <optional>

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

TEST_CASE("CRC-32C gives the values of RFC 3720") {
  CHECK(report::crc32c("123456789") == 0xe3069283U);
  CHECK(report::crc32c(std::string(32, '\0')) == 0x8a9136aaU);
  CHECK(report::crc32c(std::string(32, '\xff')) == 0x62a8ab43U);
  std::string ascending;
  for (char c = 0; c < 32; ++c) ascending += c;
  CHECK(report::crc32c(ascending) == 0x46dd794eU);
  CHECK(report::crc32c("") == 0);
}

// Generated with TensorBoard's own writer and protobuf.
TEST_CASE("records are TensorBoard's, byte for byte") {
  CHECK(hex(report::version_record(1.0)) ==
        "1800000000000000a37f4b2209000000000000f03f1a0d627261696e2e4576656e743a3286bf577a");
  CHECK(
      hex(report::step_record(2.0, 7, {{"critic/score/mean", 0.5}})) ==
      "2700000000000000bbe1b14609000000000000004010072a1a0a180a116372697469632f73636f72652f6d65616e150000003ffa079b53");
}

TEST_CASE("what has no finite value is no value of a record, and the time is the record's own") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(report::step_record(3.0, 1, {{"a", 1}, {"b", nan}, {"timing_s/unix", 3.0}}) ==
        report::step_record(3.0, 1, {{"a", 1}}));
}

TEST_CASE("an events file begins with the rows there are and grows by a record a step, an earlier one goes") {
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

TEST_CASE("an inert events file writes nothing, a folder that cannot be made is an input error") {
  report::EventsFile().append(1, {{"x", 1}});
  CHECK_THROWS_WITH(report::EventsFile("/proc/none", report::Rows{}), Catch::Contains("a folder that can be created"));
}

TEST_CASE("a step writes its own record alone, however long the file is") {
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

TEST_CASE("the cold start's events are in a folder of their own") {
  const test::TempDir dir;
  fs::create_directories(dir / "run");
  std::ofstream(dir / "run/metrics.jsonl") << "{\"step\":1,\"x\":1}\n";
  std::ofstream(dir / "run/sft_metrics.jsonl") << "{\"step\":1,\"actor/sft_loss\":1}\n";
  report::write_tensorboard(report::read_run(dir / "run"), dir / "out");
  REQUIRE(events_in(dir / "out").size() == 1);
  REQUIRE(events_in(dir / "out/sft").size() == 1);
  CHECK(test::read_file(events_in(dir / "out/sft").front()).find("actor/sft_loss") != std::string::npos);
}
