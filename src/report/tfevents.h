// Owns TensorBoard's file format: records, each of a protobuf message with masked CRC-32C.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "report/event_texts.h"
#include "report/rows.h"

namespace qrl::report {

/// Returns the CRC-32C (Castagnoli, RFC 3720).
std::uint32_t crc32c(std::string_view bytes);

/// Returns a file's first record.
std::string version_record(double wall_time_s);
/// Returns one step's record: a Summary with a float32 for each finite metric except timing_s/unix. `wall_time_s`:
/// seconds since 1970.
std::string step_record(double wall_time_s, std::int64_t step, const Metrics& metrics);

/// Returns the record of a text, for TensorBoard's text page.
std::string text_record(double wall_time_s, std::int64_t step, const EventText& text);

/// Appends one record per step in a single write call, so that a kill leaves a readable file.
class EventsFile {
 public:
  EventsFile() = default;  ///< has no file; append does nothing
  /// Writes `rows` to a new file DIR/events.out.tfevents.<seconds>.<host>, then removes older events files. Creates the
  /// folder, or throws an input error. With `run_dir`, that run's texts stand behind their steps' records (step_texts).
  EventsFile(const std::filesystem::path& dir, const Rows& rows, std::filesystem::path run_dir = {});

  /// Appends a step's record and its texts. Their wall time is timing_s/unix, or the current time without that metric.
  void append(std::int64_t step, const Metrics& metrics);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::string records_of(std::int64_t step, const Metrics& metrics);

  std::filesystem::path path_, run_dir_;
  bool has_rows_ = false;
};

}  // namespace qrl::report
