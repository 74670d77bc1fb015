// Runs of the built program on the tiny recipe, and what they leave behind.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace qrl::test {

std::string slurp(const std::filesystem::path& file);

/// qrl-train tests/train/tiny.yaml with the run folder and further arguments, behind `launcher` ("mpirun -np 2 …").
std::string tiny_command(const std::filesystem::path& run, const std::string& arguments = "",
                         const std::string& launcher = "");

struct Outcome {
  int exit_code = -1;
  std::string output;  ///< stdout and stderr
};
Outcome run_command(const std::string& command);

/// Starts a shell command in a process group of its own, output to `log`; returns its pid.
pid_t start_command(const std::string& command, const std::filesystem::path& log);
/// Waits; the exit code, or 128 + the signal.
int wait_for(pid_t pid);

/// Rows of a metrics file without what may differ between identical runs.
std::vector<nlohmann::json> stable_rows(const std::filesystem::path& file);

/// Empty when the two finished tiny runs left the same bits: final weights and moments, metric rows, rollouts.
std::string difference(const std::filesystem::path& a, const std::filesystem::path& b);

/// mpirun with the flags that tests need (root, two ranks on any machine); empty when there is none or no MPI is built
/// in.
std::string mpirun(int num_ranks);

}  // namespace qrl::test
