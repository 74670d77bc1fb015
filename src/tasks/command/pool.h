#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tasks/command/crew.h"

namespace qrl::tasks {

struct PoolLimits {
  std::int64_t in_flight = 1;  ///< rows per worker at once
  double timeout_s = 10;       ///< per row
};

enum class RowFault : std::uint8_t {
  timeout,   ///< no answer within timeout_s
  crashed,   ///< two workers ended while they had this row
  protocol,  ///< its worker wrote an invalid answer
};

/// Holds rows to judge and handlers of their answers. An exception in a handler ends the job and kills busy workers.
struct PoolJob {
  std::size_t num_rows = 0;
  std::function<void(std::size_t row, std::uint64_t id, std::string& line)> write;
  /// Processes an answer; returns false if the protocol does not allow it.
  std::function<bool(std::size_t row, const nlohmann::json& answer)> accept;
  std::function<void(std::size_t row, RowFault fault)> fail;
  std::function<void()> pause;  ///< called at least every 100 ms; may be empty
};

/// Answers or fails each row exactly once, within rows × timeout_s plus the start times of new workers. A failed worker
/// is killed with all its processes. A new worker gets the rows that did not fail. After a crash, it gets them one at a
/// time.
class Pool : public Crew {
 public:
  Pool(CrewSettings settings, PoolLimits limits) : Crew(std::move(settings)), limits_(limits) {}

  void run(const PoolJob& job);

  std::vector<double> take_row_ms() { return std::exchange(row_ms_, {}); }

 private:
  struct Work;

  void start_workers(Work& work);
  void wait(Work& work);
  void attend(Slot& slot, Work& work);
  void take_lines(Slot& slot, Work& work);
  void give_rows(Slot& slot, Work& work);
  void check_deadlines(Slot& slot, Work& work);
  void died(Slot& slot, Work& work);
  void break_protocol(Slot& slot, Work& work, const std::string& what);

  PoolLimits limits_;
  std::uint64_t next_id_ = 1;
  std::vector<double> row_ms_;
};

}  // namespace qrl::tasks
