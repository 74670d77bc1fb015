// Runs the built program on the tiny recipe and reads what it leaves behind.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ops/emulation/kernel_paths.h"
#include "support/files.h"

namespace qrl::test {

/// The built program and a space, and the tiny recipe's path.
inline const std::string kProgram = QRL_BINARY_DIR "/qrl-train ", kTiny = QRL_SOURCE_DIR "/tests/train/tiny.yaml";

/// Returns qrl-train tests/train/tiny.yaml with the run folder and further arguments, after `launcher` ("mpirun -np 2
/// …").
std::string tiny_command(const std::filesystem::path& run, const std::string& arguments = "",
                         const std::string& launcher = "");

/// Returns tiny_command on a kernel path. Emulated tiles are in a test program of their own.
std::string tiny_command(const KernelPath& path, const std::filesystem::path& run, const std::string& arguments = "");

/// Returns an uninterrupted run of the tiny recipe, which no case may change. ctest makes it once
/// (tests/CMakeLists.txt); without QRL_FINISHED_RUN each process makes it once.
const std::filesystem::path& finished_run();
/// Copies it for a case that changes it.
std::filesystem::path copy_of_finished_run(const std::filesystem::path& to);

/// Copies a checkpoint with one file's text edited, sealed as its writer does.
void copy_edited(const std::filesystem::path& from, const std::filesystem::path& to, const char* file,
                 const std::function<void(std::string&)>& edit);

/// Writes the tiny recipe's text to `file`, with each first string replaced by its second, as a separate absolute
/// recipe.
void write_recipe(const std::filesystem::path& file, const std::vector<std::pair<std::string, std::string>>& changes);

struct Outcome {
  int exit_code = -1;
  std::string output;  ///< stdout and stderr
};
Outcome run_command(const std::string& command);
/// Returns whether the output contains `text`; a failing check shows the output.
bool says(const Outcome& outcome, const std::string& text);

/// Starts a shell command in its own process group, with output to `log`; returns its pid.
pid_t start_command(const std::string& command, const std::filesystem::path& log);
/// Returns the process ids of a process's children; empty where /proc does not list them.
std::vector<pid_t> children_of(pid_t pid);
/// Waits; returns the exit code, or 128 + the signal.
int wait_for(pid_t pid);

/// Waits until `file` exists (a metrics file: has at least `bytes` bytes). Returns false if the process ended first.
bool wait_for_file(const std::filesystem::path& file, pid_t pid, std::uintmax_t bytes = 0);

/// Flips one bit of a file.
void flip_bit(const std::filesystem::path& file, std::uint64_t bit);

/// Returns the sorted names of a folder's files.
std::vector<std::string> names_in(const std::filesystem::path& dir);

/// Returns rows of a metrics file without values that may differ between identical runs.
std::vector<nlohmann::json> stable_rows(const std::filesystem::path& file);

/// Settings of a run whose held-out responses sometimes end by themselves. They are numerous enough that other weights
/// or formats give other figures; the tiny recipe's own are all of full length and wrong.
inline const std::string kTelling =
    "--set sft.steps=100 --set sft.save_freq=100 --set eval.n=16 --set trainer.total_training_steps=1 ";
/// Returns the figures of held-out prompts (val/…) in a metrics row.
nlohmann::json held_out_figures(const nlohmann::json& row);

/// Returns "" if the two finished tiny runs left the same bits: final weights and moments, metric rows, rollouts.
std::string difference(const std::filesystem::path& a, const std::filesystem::path& b);

/// Returns mpirun with the flags that tests need (root, two ranks on any machine). Empty if mpirun is missing or the
/// build has no MPI.
std::string mpirun(int num_ranks);

}  // namespace qrl::test
