// Owns what the fuzz targets share: what an input may do, files that cost no disk, time a verdict may take. Knows
// nothing of who calls the targets: libFuzzer, or driver.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"
#include "tasks/verifier.h"

/// Every target defines it: one input, any bytes. Returns 0; what must not happen ends the process.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t num_bytes);  // NOLINT: libFuzzer's name

namespace qrl::fuzz {

/// Inputs so far, by what became of them.
struct Tally {
  std::uint64_t accepted = 0, refused = 0;
};
inline Tally tally;

/// Ends the process unless `holds`, so that whoever runs the target keeps the input.
void require(bool holds, const char* what);

/// Whether `read` takes the input; an input error is a refusal, and everything else thrown ends the process.
template <class Read>
bool accepts(const Read& read) {
  try {
    read();
    ++tally.accepted;
    return true;
  } catch (const base::Error& error) {
    require(error.kind() == base::ErrorKind::input, error.what());
    ++tally.refused;
    return false;
  }
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t num_bytes) {
  return {reinterpret_cast<const char*>(data), num_bytes};
}

/// A folder of this process in memory (/dev/shm where there is one), removed at its end.
const std::filesystem::path& work_folder();

/// Writes a file anew, in place: links and descriptors to it stay.
void write_file(const std::filesystem::path& file, std::string_view bytes);

/// The verifier of that name with everything else as recipes have it; math judges the form of answers, too.
std::unique_ptr<tasks::Verifier> verifier_named(const std::string& name);

/// Judges what the input holds: its first line is the gold answer, the rest the response. Checked: it ends within
/// 25 ms of a Xeon's processor time (sanitizers: 200), twice the same, with a reason of static text, a credit from 0 to
/// 1 and an extracted answer of bounded size; whatever the gold. Counts as accepted when an answer was found.
void judge(const tasks::Verifier& verifier, std::string_view input);

}  // namespace qrl::fuzz
