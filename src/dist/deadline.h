#pragma once

#include <string>
#include <thread>

namespace qrl::dist {

/// Limits the time until the object's destruction. After `limit_s` seconds, prints "qrl-train: " and `message` to
/// stderr and exits with code 1, which ends the job. Time while the machine is suspended does not count.
class Deadline {
 public:
  Deadline(double limit_s, std::string message);

 private:
  std::jthread counter_;
};

}  // namespace qrl::dist
