// Owns TensorBoard's file format: records of events with masked CRC-32C, each a protobuf message written by hand. Knows
// nothing of what the metrics mean.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "report/rows.h"

namespace qrl::report {

/// CRC-32C (Castagnoli) as RFC 3720 defines it: crc32c("123456789") is 0xe3069283.
std::uint32_t crc32c(std::string_view bytes);

/// The first record of a file, which names its version.
std::string version_record(double wall_time_s);
/// One step's metrics as a record: a Summary with a float32 for each that is finite. `wall_time_s`: seconds since 1970.
std::string step_record(double wall_time_s, std::int64_t step, const Metrics& metrics);

/// A folder's events file, which grows by a record a step. Each record is one write, so that a kill leaves a file that
/// TensorBoard reads.
class EventsFile {
 public:
  EventsFile() = default;  ///< inert: append does nothing
  /// Writes `rows` to a new file DIR/events.out.tfevents.<seconds>.<host>; earlier events files of the folder are
  /// removed once it is there. An input error when the folder cannot be made.
  EventsFile(const std::filesystem::path& dir, const Rows& rows);

  /// The time of a step is its timing_s/unix, which is no value of its own; now where it has none.
  void append(std::int64_t step, const Metrics& metrics);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace qrl::report
