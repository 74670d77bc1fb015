// Runs of the built program on the tiny recipe, and what they leave behind.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ops/emulation/kernel_paths.h"
#include "support/files.h"

namespace qrl::test {

/// The built program and a space, and the tiny recipe's path.
inline const std::string kProgram = QRL_BINARY_DIR "/qrl-train ", kTiny = QRL_SOURCE_DIR "/tests/train/tiny.yaml";

/// qrl-train tests/train/tiny.yaml with the run folder and further arguments, behind `launcher` ("mpirun -np 2 …").
std::string tiny_command(const std::filesystem::path& run, const std::string& arguments = "",
                         const std::string& launcher = "");

/// tiny_command on a kernel path. Emulated tiles are in a program of the tests' own.
std::string tiny_command(const KernelPath& path, const std::filesystem::path& run, const std::string& arguments = "");

/// A run of the tiny recipe never stopped, which no case may change. ctest has it made once (tests/CMakeLists.txt);
/// without QRL_FINISHED_RUN it is made once a process.
const std::filesystem::path& finished_run();
/// A copy of it that a case may change.
std::filesystem::path copy_of_finished_run(const std::filesystem::path& to);

/// The tiny recipe's text with each first string replaced by its second, as an absolute recipe of its own at `file`.
void write_recipe(const std::filesystem::path& file, const std::vector<std::pair<std::string, std::string>>& changes);

struct Outcome {
  int exit_code = -1;
  std::string output;  ///< stdout and stderr
};
Outcome run_command(const std::string& command);
/// Whether the output holds `text`; a failing check shows the output.
bool says(const Outcome& outcome, const std::string& text);

/// Starts a shell command in a process group of its own, output to `log`; returns its pid.
pid_t start_command(const std::string& command, const std::filesystem::path& log);
/// Waits; the exit code, or 128 + the signal.
int wait_for(pid_t pid);

/// Waits until `file` exists (a metrics file: holds `bytes` bytes or more); false when the process ended first.
bool wait_for_file(const std::filesystem::path& file, pid_t pid, std::uintmax_t bytes = 0);

/// Turns one bit of a file.
void flip_bit(const std::filesystem::path& file, std::uint64_t bit);

/// The named files of a folder, in order.
std::vector<std::string> names_in(const std::filesystem::path& dir);

/// Rows of a metrics file without what may differ between identical runs.
std::vector<nlohmann::json> stable_rows(const std::filesystem::path& file);

/// Settings of a run whose held-out responses end by themselves now and then, and are so many that other weights or
/// formats give other figures: what the tiny recipe's own, all of full length and wrong, cannot show.
inline const std::string kTelling =
    "--set sft.steps=100 --set sft.save_freq=100 --set eval.n=16 --set trainer.total_training_steps=1 ";
/// The figures of held-out prompts (val/…) in a metrics row.
nlohmann::json held_out_figures(const nlohmann::json& row);

/// Empty when the two finished tiny runs left the same bits: final weights and moments, metric rows, rollouts.
std::string difference(const std::filesystem::path& a, const std::filesystem::path& b);

/// mpirun with the flags that tests need (root, two ranks on any machine); empty when there is none or no MPI is built
/// in.
std::string mpirun(int num_ranks);

}  // namespace qrl::test
