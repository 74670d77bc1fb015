// Owns the end of a process that is caught in a library's call which takes no time limit of its own.
#pragma once

#include <string>
#include <thread>

namespace qrl::dist {

/// While one is alive, its thread counts; after `limit_s` seconds it prints "qrl-train: " and `message` to stderr and
/// ends the process with exit code 1, from which a launcher ends the job. Time in which the process itself stood still
/// (a suspended job) does not count.
class Deadline {
 public:
  Deadline(double limit_s, std::string message);

 private:
  std::jthread counter_;  ///< asked to stop and joined when this is destroyed
};

}  // namespace qrl::dist
