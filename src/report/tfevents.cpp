#include "report/tfevents.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "base/ascii.h"
#include "base/clock.h"
#include "base/error.h"
#include "state/file.h"
#include "state/sealed.h"

namespace qrl::report {

namespace {

std::array<std::uint32_t, 256> make_table() {
  constexpr std::uint32_t kPolynomial = 0x82f63b78;  // 0x1edc6f41, bit-reversed
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}

template <class Number>
void add_little_endian(std::string& out, Number number) {
  for (std::size_t i = 0; i < sizeof number; ++i) out += static_cast<char>((number >> (8 * i)) & 0xff);
}

void add_masked_crc(std::string& out, std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  add_little_endian(out, ((crc >> 15) | (crc << 17)) + 0xa282ead8U);
}

std::string record(const std::string& event) {
  std::string out;
  add_little_endian(out, static_cast<std::uint64_t>(event.size()));
  add_masked_crc(out, std::string(out));
  out += event;
  add_masked_crc(out, event);
  return out;
}

// Wire types of protobuf. An encoded field is a tag (number and wire type), then the value.
enum WireType : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void add_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
  out += static_cast<char>(value);
}

void add_tag(std::string& out, int field, WireType type) { add_varint(out, static_cast<unsigned>(field) << 3 | type); }

void add_bytes(std::string& out, int field, std::string_view value) {
  add_tag(out, field, bytes);
  add_varint(out, value.size());
  out += value;
}

std::string event_at(double wall_time_s) {
  std::string event;
  add_tag(event, 1, fixed64);
  add_little_endian(event, std::bit_cast<std::uint64_t>(wall_time_s));
  return event;
}

/// Returns the host's name; "_" replaces characters that do not fit a file name.
std::string host_name() {
  char name[256] = "unknown";
  (void)gethostname(name, sizeof name - 1);
  std::string host = name;
  for (char& c : host) {
    if (!base::is_alphanumeric(c) && c != '.' && c != '-') c = '_';
  }
  return host;
}

bool is_events_file(const std::filesystem::path& path) {
  return path.filename().string().starts_with("events.out.tfevents.");
}

/// Returns the record of a summary: a step's values or a text.
std::string summary_record(double wall_time_s, std::int64_t step, const std::string& summary) {
  std::string event = event_at(wall_time_s);
  add_tag(event, 2, varint);
  add_varint(event, static_cast<std::uint64_t>(step));
  add_bytes(event, 5, summary);
  return record(event);
}

}  // namespace

std::uint32_t crc32c(std::string_view text) {
  static const std::array<std::uint32_t, 256> table = make_table();
  std::uint32_t crc = 0xffffffffU;
  for (const char c : text) crc = (crc >> 8) ^ table[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

std::string version_record(double wall_time_s) {
  std::string event = event_at(wall_time_s);
  add_bytes(event, 3, "brain.Event:2");
  return record(event);
}

std::string step_record(double wall_time_s, std::int64_t step, const Metrics& metrics) {
  std::string summary;
  for (const auto& [name, value] : metrics) {
    if (!std::isfinite(value) || name == kUnixMetric) continue;
    std::string entry;
    add_bytes(entry, 1, name);
    add_tag(entry, 2, fixed32);
    add_little_endian(entry, std::bit_cast<std::uint32_t>(static_cast<float>(value)));
    add_bytes(summary, 1, entry);
  }
  return summary_record(wall_time_s, step, summary);
}

std::string text_record(double wall_time_s, std::int64_t step, const EventText& text) {
  constexpr int kString = 7, kTensor = 2;  // DT_STRING and DATA_CLASS_TENSOR
  std::string tensor, plugin, metadata, value, summary;
  add_tag(tensor, 1, varint);
  add_varint(tensor, kString);
  add_bytes(tensor, 2, "");  // a shape without dimensions
  add_bytes(tensor, 8, text.markdown);
  add_bytes(plugin, 1, "text");
  add_bytes(metadata, 1, plugin);
  add_tag(metadata, 4, varint);
  add_varint(metadata, kTensor);
  add_bytes(value, 1, text.tag);
  add_bytes(value, 8, tensor);
  add_bytes(value, 9, metadata);
  add_bytes(summary, 1, value);
  return summary_record(wall_time_s, step, summary);
}

EventsFile::EventsFile(const std::filesystem::path& dir, const Rows& rows, std::filesystem::path run_dir)
    : run_dir_(std::move(run_dir)) {
  std::error_code error;
  state::require_place_for_output(dir);
  std::filesystem::create_directories(dir, error);
  QRL_REQUIRE(!error, dir.string(), "a folder that can be created", error.message());
  std::vector<std::filesystem::path> earlier;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    if (is_events_file(entry.path())) earlier.push_back(entry.path());
  }
  const double now_s = base::unix_s();
  const double first_s = rows.rows.empty() ? now_s : value_of(rows.rows.front().metrics, kUnixMetric);
  std::string text = version_record(std::isfinite(first_s) ? first_s : now_s);
  for (const Row& row : rows.rows) text += records_of(row.step, row.metrics);
  path_ = dir / ("events.out.tfevents." + std::to_string(static_cast<std::int64_t>(now_s)) + "." + host_name());
  // Writes under a temporary name first, so that TensorBoard reads no incomplete file.
  const std::filesystem::path temporary = dir / (".new-" + path_.filename().string());
  state::File::create_or_empty(temporary).write(text);
  std::filesystem::rename(temporary, path_);
  for (const std::filesystem::path& file : earlier) {
    if (file != path_) std::filesystem::remove(file);
  }
}

void EventsFile::append(std::int64_t step, const Metrics& metrics) {
  if (!path_.empty()) state::File::append(path_, true).write(records_of(step, metrics));
}

std::string EventsFile::records_of(std::int64_t step, const Metrics& metrics) {
  const double unix_s = value_of(metrics, kUnixMetric), wall_time_s = std::isfinite(unix_s) ? unix_s : base::unix_s();
  std::string records = step_record(wall_time_s, step, metrics);
  if (!run_dir_.empty()) {
    for (const EventText& text : step_texts(run_dir_, step, !has_rows_))
      records += text_record(wall_time_s, step, text);
  }
  has_rows_ = true;
  return records;
}

}  // namespace qrl::report
