#include "tasks/command/pool.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "state/json.h"

namespace qrl::tasks {

namespace {

constexpr double kPause_s = 0.1;
constexpr std::size_t kShown_bytes = 200;
struct ParsedLine {
  nlohmann::json object;
  std::string fault;
};

ParsedLine parse_line(std::string_view line) try {
  nlohmann::json value = state::parse_json(line, "the line");
  if (!value.is_object()) return {{}, "the line: expected an object"};
  return {std::move(value), {}};
} catch (const base::Error& error) {
  return {{}, error.what()};
}

bool holds_nan(std::string_view line) {
  std::string text(line);
  bool found = false;
  for (const std::string_view word : {"NaN", "-Infinity", "Infinity"}) {
    for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos;) {
      text.replace(at, word.size(), "0");
      found = true;
    }
  }
  return found && !nlohmann::json::accept(line) && nlohmann::json::accept(text);
}

}  // namespace

struct Pool::Work {
  const PoolJob& job;
  std::size_t next = 0;  ///< first row not yet given to a worker
  std::size_t num_open;  ///< number of rows neither answered nor failed
  std::vector<std::uint8_t> deaths;

  bool has_next() const { return next < job.num_rows; }
  void fail(std::size_t row, RowFault fault) {
    --num_open;
    job.fail(row, fault);
  }
};

void Pool::start_workers(Work& work) {
  auto num_live =
      static_cast<std::size_t>(std::ranges::count_if(slots_, [](const Slot& slot) { return slot.worker != nullptr; }));
  for (Slot& slot : slots_) {
    const bool is_needed = !slot.again.empty() || (work.has_next() && num_live < work.num_open);
    if (slot.worker || !is_needed) continue;
    start_worker(slot);
    ++num_live;
  }
}

void Pool::run(const PoolJob& job) {
  Work work{job, 0, job.num_rows, std::vector<std::uint8_t>(job.num_rows, 0)};
  try {
    while (work.num_open > 0) {
      start_workers(work);
      for (Slot& slot : slots_) give_rows(slot, work);
      if (work.num_open > 0) wait(work);
      if (job.pause) job.pause();
    }
  } catch (...) {
    for (Slot& slot : slots_) {
      slot.again.clear();
      if (slot.worker && !slot.worker->held.empty()) end_worker(slot);
    }
    throw;
  }
}

void Pool::give_rows(Slot& slot, Work& work) {
  while (slot.worker && slot.worker->is_ready) {
    std::vector<HeldRow>& held = slot.worker->held;
    const auto is_suspect = [&](std::size_t row) { return work.deaths[row] > 0; };
    if (slot.again.empty() && !work.has_next()) return;
    const std::size_t row = slot.again.empty() ? work.next : slot.again.back();
    const bool alone = is_suspect(row) || (!held.empty() && is_suspect(held.front().row));
    if (static_cast<std::int64_t>(held.size()) >= (alone ? 1 : limits_.in_flight)) return;
    if (slot.again.empty()) ++work.next;
    else slot.again.pop_back();
    held.push_back({row, next_id_++, base::now_s()});
    slot.worker->had_rows = true;
    std::string line;
    work.job.write(row, held.back().id, line);
    if (!slot.worker->send(line)) died(slot, work);
  }
}

void Pool::wait(Work& work) {
  double deadline_s = next_start_deadline_s();
  for (const Slot& slot : slots_) {
    if (!slot.worker) continue;
    for (const HeldRow& row : slot.worker->held) deadline_s = std::min(deadline_s, row.since_s + limits_.timeout_s);
  }
  poll_workers(deadline_s, work.job.pause ? kPause_s : 1);
  for (Slot& slot : slots_) attend(slot, work);
}

void Pool::attend(Slot& slot, Work& work) {
  if (!slot.worker) return;
  slot.worker->read_errors();
  const Worker::Input input = slot.worker->read();
  take_lines(slot, work);
  if (!slot.worker) return;
  if (input == Worker::Input::too_long) {
    if (!slot.worker->is_ready) refuse_start(slot, "a first line above 64 KiB");
    return break_protocol(slot, work, "a line above 64 MiB");
  }
  if (input == Worker::Input::ended || !slot.worker->flush()) return died(slot, work);
  check_deadlines(slot, work);
}

void Pool::take_lines(Slot& slot, Work& work) {
  while (slot.worker) {
    Worker& worker = *slot.worker;
    const auto line = worker.next_line();
    if (!line) return;
    if (!worker.is_ready) {
      take_ready(slot, *line);
      continue;
    }
    if (line->size() > kMaxRewardLine_bytes) return break_protocol(slot, work, "a line above 64 MiB");
    const ParsedLine parsed = parse_line(*line);
    const nlohmann::json& answer = parsed.object;
    const std::string& fault = parsed.fault;
    const auto id = answer.find("id");
    const auto row = std::ranges::find_if(worker.held, [&](const HeldRow& held) {
      return id != answer.end() && id->is_number_unsigned() && *id == held.id;
    });
    if (row == worker.held.end() && !worker.had_rows) refuse_early(slot, *line);
    if (row == worker.held.end()) {
      const std::string what = !fault.empty() && holds_nan(*line)
                                   ? "NaN or an infinity (use null for a score that does not apply): "
                                   : "a line that answers none of its rows: ";
      return break_protocol(slot, work,
                            what + base::quoted(*line, kShown_bytes) + (fault.empty() ? "" : " (" + fault + ")"));
    }
    if (!work.job.accept(row->row, answer))
      return break_protocol(slot, work,
                            "an answer that the protocol does not allow: " + base::quoted(*line, kShown_bytes));
    row_ms_.push_back((base::now_s() - row->since_s) * 1000);
    worker.held.erase(row);
    --work.num_open;
    give_rows(slot, work);
  }
}

void Pool::check_deadlines(Slot& slot, Work& work) {
  Worker& worker = *slot.worker;
  const double now_s = base::now_s();
  if (!worker.is_ready) {
    refuse_if_late(slot);
    return;
  }
  const auto is_late = [&](const HeldRow& row) { return now_s - row.since_s > limits_.timeout_s; };
  if (std::ranges::none_of(worker.held, is_late)) return;
  last_errors_ = worker.last_errors();
  const std::vector<HeldRow> held = std::move(worker.held);
  end_worker(slot);
  ++num_restarts_;
  for (auto row = held.rbegin(); row != held.rend(); ++row) {
    if (!is_late(*row)) slot.again.push_back(row->row);
  }
  for (const HeldRow& row : held) {
    if (is_late(row)) work.fail(row.row, RowFault::timeout);
  }
}

void Pool::died(Slot& slot, Work& work) {
  wait_for_end(slot);
  if (!slot.worker->had_rows) refuse_start(slot, "");
  last_errors_ = slot.worker->last_errors();
  const std::vector<HeldRow> held = std::move(slot.worker->held);
  base::log_to_file("reward.command: a worker " + end_worker(slot) + last_errors_);
  ++num_restarts_;
  std::vector<std::size_t> crashed;
  for (auto row = held.rbegin(); row != held.rend(); ++row) {
    if (++work.deaths[row->row] >= 2) crashed.push_back(row->row);
    else slot.again.push_back(row->row);
  }
  for (const std::size_t row : crashed) work.fail(row, RowFault::crashed);
}

void Pool::break_protocol(Slot& slot, Work& work, const std::string& what) {
  last_errors_ = slot.worker->last_errors();
  const std::vector<HeldRow> held = std::move(slot.worker->held);
  base::log_warning("reward.command wrote " + what);
  end_worker(slot);
  ++num_restarts_;
  for (const HeldRow& row : held) work.fail(row.row, RowFault::protocol);
}

}  // namespace qrl::tasks
