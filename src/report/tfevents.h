// Owns TensorBoard's file format: records with masked CRC-32C, each a protobuf message.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "report/rows.h"

namespace qrl::report {

/// Returns the CRC-32C (Castagnoli, RFC 3720); crc32c("123456789") is 0xe3069283.
std::uint32_t crc32c(std::string_view bytes);

/// Returns the first record of a file, the format's version.
std::string version_record(double wall_time_s);
/// Returns one step's record: a Summary with a float32 for each finite metric. `wall_time_s`: since 1970.
std::string step_record(double wall_time_s, std::int64_t step, const Metrics& metrics);

/// Appends one record per step in a single write call, so that a kill leaves a readable file.
class EventsFile {
 public:
  EventsFile() = default;  ///< has no file; append does nothing
  /// Writes `rows` to a new file DIR/events.out.tfevents.<seconds>.<host>, then removes older ones. Throws an input
  /// error if the folder does not exist.
  EventsFile(const std::filesystem::path& dir, const Rows& rows);

  /// Appends a step's record. Its time is timing_s/unix, which is not written as a metric, else the current time.
  void append(std::int64_t step, const Metrics& metrics);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace qrl::report
