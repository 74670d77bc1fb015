#include "tasks/command/pool.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/ascii.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "state/json.h"

namespace qrl::tasks {

namespace {

constexpr double kPause_s = 0.1;
constexpr double kPatience_s = 2;
constexpr std::size_t kShown_bytes = 200;
constexpr std::size_t kMaxReadyLine_bytes = std::size_t{64} << 10;

std::string seconds(double value) { return nlohmann::json(value).dump(); }

bool mentions(const std::string& text, const std::string& name) {
  const auto is_of_name = [&](std::size_t at) {
    return at < text.size() && (base::is_letter(text[at]) || base::is_digit(text[at]) || text[at] == '_');
  };
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1))
    if (!is_of_name(at - 1) && !is_of_name(at + name.size())) return true;
  return false;
}

/// Returns advice that names the withheld variables in a text; "" if none occurs there.
std::string mentioned(const std::vector<std::string>& withheld, const std::string& text) {
  std::vector<std::string> names;
  std::ranges::copy_if(withheld, std::back_inserter(names), [&](const auto& name) { return mentions(text, name); });
  const std::string named = base::joined(names, ", ");
  return named.empty() ? "" : "the program was not given " + named + ": set reward.env: [" + named + "]";
}

/// Returns the advice of `mentioned` on the last error lines. If no variable occurs there, the advice states their
/// number.
std::string note_on(const std::vector<std::string>& withheld, const std::string& last_words) {
  const std::string advice = mentioned(withheld, last_words);
  if (!advice.empty()) return advice;
  return withheld.empty() ? ""
                          : std::to_string(withheld.size()) +
                                " environment variables are withheld from it (reward.env: [NAME] passes one on)";
}

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

Pool::Pool(PoolSettings settings) : settings_(std::move(settings)) {
  slots_.resize(static_cast<std::size_t>(settings_.num_workers));
}

Pool::~Pool() {
  for (Slot& slot : slots_) {
    if (slot.worker) slot.worker->process().close_input();
  }
  const double end_s = base::now_s() + kPatience_s;
  const auto all_ended = [&] {
    return std::ranges::all_of(slots_,
                               [](const Slot& slot) { return !slot.worker || slot.worker->process().has_ended(); });
  };
  while (!all_ended() && base::now_s() < end_s) {
    for (Slot& slot : slots_) {
      if (slot.worker) slot.worker->read_errors();
    }
    usleep(2000);
  }
  for (Slot& slot : slots_) {
    if (slot.worker) slot.worker->read_errors();
    end_worker(slot);
  }
}

void Pool::start_worker(Slot& slot) {
  slot.worker = std::make_unique<Worker>(settings_.program, log_);
  (void)slot.worker->send(settings_.hello);  // a program that ignores the line fails at its start timeout
}

std::string Pool::end_worker(Slot& slot) {
  if (!slot.worker) return "";
  Process& process = slot.worker->process();
  const bool by_itself = process.has_ended();
  const std::string end = process.kill();
  slot.worker.reset();
  return by_itself ? "ended with " + end : "closed its standard output";
}

void Pool::refuse_start(Slot& slot, const std::string& what) {
  const std::string errors = slot.worker->last_errors();
  const std::string end = end_worker(slot);
  const std::string got = what.empty() ? "a program that " + end : what;
  std::string words =
      errors.empty() ? "it wrote nothing to standard error" : "its last lines on standard error:" + errors;
  if (const std::string note = note_on(settings_.withheld, errors); !note.empty())
    words += (errors.empty() ? "; " : "\n") + note;
  base::fail_input("reward.command",
                   "a line {\"ready\": …} within reward.start_timeout_s = " + seconds(settings_.start_timeout_s), got,
                   words);
}

void Pool::take_ready(Slot& slot, std::string_view line) {
  if (line.size() > kMaxReadyLine_bytes) refuse_start(slot, "a first line above 64 KiB");
  nlohmann::ordered_json message;  // the scores' order is part of the protocol
  std::string fault;
  try {
    message = state::parse_ordered_json(line, "the line");
  } catch (const base::Error& error) {
    fault = std::string(" (") + error.what() + ")";
  }
  const bool is_refusal = message.is_object() && message.contains("error") && message["error"].is_string();
  if (is_refusal) {
    end_worker(slot);
    const std::string words = message["error"].get<std::string>();
    const std::string advice = mentioned(settings_.withheld, words);
    base::fail_input("reward.command", "", words + (advice.empty() ? "" : "\n" + advice));
  }
  const bool is_ready = message.is_object() && message.contains("ready") && message["ready"].is_object();
  if (!is_ready) refuse_start(slot, base::quoted(line, kShown_bytes) + fault);
  const nlohmann::ordered_json& ready = message["ready"];
  const nlohmann::ordered_json protocol = ready.value("protocol", nlohmann::ordered_json(1));
  if (protocol != 1) refuse_start(slot, "protocol " + protocol.dump() + ", but this program speaks protocol 1");
  if (ready_.empty()) ready_ = ready.dump();
  nlohmann::ordered_json first = nlohmann::ordered_json::parse(ready_), own = ready;
  for (const char* words : {"reads", "notes"}) {  // may have addresses of objects
    first.erase(words);
    own.erase(words);
  }
  if (first != own)
    refuse_start(slot,
                 "a ready line that differs from the first worker's: " + base::quoted(ready.dump(), kShown_bytes));
  slot.worker->is_ready = true;
}

std::string Pool::start() {
  const PoolJob nothing;
  Work work{nothing, 0, 0, {}};
  Slot& slot = slots_.front();
  if (!slot.worker) start_worker(slot);
  while (!slot.worker->is_ready) wait(work);
  return ready_;
}

void Pool::log_once(const std::string& text) {
  constexpr std::size_t kMostTexts = 1000;
  const std::string lines = text.ends_with('\n') ? text : text + "\n";
  const std::size_t last = lines.rfind('\n', lines.size() - 2);
  const bool is_new =
      logged_.size() < kMostTexts && logged_.insert(last == std::string::npos ? lines : lines.substr(0, last)).second;
  if (is_new) log_.add(lines);
}

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
    if (static_cast<std::int64_t>(held.size()) >= (alone ? 1 : settings_.in_flight)) return;
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
  std::vector<pollfd> files;
  double deadline_s = std::numeric_limits<double>::infinity();
  for (Slot& slot : slots_) {
    if (!slot.worker) continue;
    Worker& worker = *slot.worker;
    files.push_back({worker.process().output(), POLLIN, 0});
    files.push_back({worker.process().errors(), POLLIN, 0});
    if (worker.has_unsent()) files.push_back({worker.process().input(), POLLOUT, 0});
    if (!worker.is_ready) deadline_s = std::min(deadline_s, worker.started_s + settings_.start_timeout_s);
    for (const HeldRow& row : worker.held) deadline_s = std::min(deadline_s, row.since_s + settings_.timeout_s);
  }
  const double most_s = work.job.pause ? kPause_s : 1;
  const double left_s = std::clamp(deadline_s - base::now_s(), 0.0, most_s);
  (void)::poll(files.data(), files.size(), static_cast<int>(std::ceil(left_s * 1000)));
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
    if (line->size() > kMaxCommandLine_bytes) return break_protocol(slot, work, "a line above 64 MiB");
    const ParsedLine parsed = parse_line(*line);
    const nlohmann::json& answer = parsed.object;
    const std::string& fault = parsed.fault;
    const auto id = answer.find("id");
    const auto row = std::ranges::find_if(worker.held, [&](const HeldRow& held) {
      return id != answer.end() && id->is_number_unsigned() && *id == held.id;
    });
    if (row == worker.held.end() && !worker.had_rows) {
      refuse_start(slot, "another line after it, before the first row: " + base::quoted(*line, kShown_bytes));
    }
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
    if (now_s - worker.started_s > settings_.start_timeout_s) refuse_start(slot, "no such line");
    return;
  }
  const auto is_late = [&](const HeldRow& row) { return now_s - row.since_s > settings_.timeout_s; };
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
  // Waits at most 100 ms, because standard output closes shortly before the process ends.
  for (int i = 0; i < 20 && !slot.worker->process().has_ended(); ++i) usleep(5000);
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
