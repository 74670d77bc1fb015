// Owns the helpers of the fuzz targets: what an input may do, files in memory, the time limit of a verdict. libFuzzer
// or driver.cpp calls the targets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"
#include "tasks/verifier.h"

/// Runs one input of arbitrary bytes; every target defines it. Returns 0; a violation ends the process.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t num_bytes);  // NOLINT: libFuzzer's name

namespace qrl::fuzz {

/// Counts inputs by outcome.
struct Tally {
  std::uint64_t accepted = 0, refused = 0;
};
inline Tally tally;

/// Ends the process unless `holds`, so that the driver keeps the input.
void require(bool holds, const char* what);

/// Returns whether `read` accepts the input. An input error is a refusal; any other exception ends the process.
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

/// Returns a folder of this process in memory (in /dev/shm if that exists), removed at exit.
const std::filesystem::path& work_folder();

/// Overwrites a file in place: links and descriptors to it stay valid.
void write_file(const std::filesystem::path& file, std::string_view bytes);

/// Returns the verifier of that name with the defaults of its own keys; math also judges the form of answers.
std::unique_ptr<tasks::Verifier> verifier_named(const std::string& name);

/// Judges the input: its first line is the gold answer, the rest the response. Checks that a verdict takes at most 25
/// ms of a Xeon's processor time (sanitizers: 200) and is the same twice. Checks its static reason text, a credit in 0
/// … 1 and an extracted answer of bounded size. Counts as accepted if an answer was found.
void judge(const tasks::Verifier& verifier, std::string_view input);

}  // namespace qrl::fuzz
