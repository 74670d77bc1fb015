#include "tasks/command/crew.h"

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
#include "base/text.h"
#include "state/json.h"

namespace qrl::tasks {

namespace {

constexpr double kPatience_s = 2;
constexpr std::size_t kShown_bytes_of_start = 200;
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
std::string mentioned(const std::string& section, const std::vector<std::string>& withheld, const std::string& text) {
  std::vector<std::string> names;
  std::ranges::copy_if(withheld, std::back_inserter(names), [&](const auto& name) { return mentions(text, name); });
  const std::string named = base::joined(names, ", ");
  return named.empty() ? "" : "the program was not given " + named + ": set " + section + ".env: [" + named + "]";
}

/// Returns the advice of `mentioned` on the last error lines. If no variable occurs there, the advice states their
/// number.
std::string note_on(const std::string& section, const std::vector<std::string>& withheld,
                    const std::string& last_words) {
  const std::string advice = mentioned(section, withheld, last_words);
  if (!advice.empty()) return advice;
  return withheld.empty() ? ""
                          : std::to_string(withheld.size()) + " environment variables are withheld from it (" +
                                section + ".env: [NAME] passes one on)";
}

}  // namespace

CrewSettings crew_settings(const std::string& section, const std::vector<std::string>& argv, const std::string& folder,
                           const std::vector<std::string>& env, std::int64_t memory_bytes) {
  CrewSettings settings;
  settings.program.section = section;
  settings.program.argv = argv;
  settings.program.argv.front() = find_program(argv.front(), folder, section);
  settings.program.folder = folder;
  ProgramEnvironment environment = program_environment(env, section);
  settings.program.environment = std::move(environment.variables);
  settings.withheld = std::move(environment.withheld);
  settings.program.memory_bytes = memory_bytes;
  return settings;
}

Crew::Crew(CrewSettings settings) : settings_(std::move(settings)) {
  slots_.resize(static_cast<std::size_t>(settings_.num_workers));
}

Crew::~Crew() {
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

void Crew::start_worker(Slot& slot) {
  slot.worker = std::make_unique<Worker>(settings_.program, log_, settings_.max_line_bytes);
  (void)slot.worker->send(settings_.hello);  // a program that ignores the line fails at its start timeout
}

std::string Crew::end_worker(Slot& slot) {
  if (!slot.worker) return "";
  Process& process = slot.worker->process();
  const bool by_itself = process.has_ended();
  const std::string end = process.kill();
  slot.worker.reset();
  return by_itself ? "ended with " + end : "closed its standard output";
}

void Crew::refuse_start(Slot& slot, const std::string& what) {
  const std::string errors = slot.worker->last_errors();
  const std::string end = end_worker(slot);
  const std::string got = what.empty() ? "a program that " + end : what;
  std::string words = errors.empty()    ? "it wrote nothing to standard error"
                      : log_.is_shown() ? "its standard error is above"
                                        : "its last lines on standard error:" + errors;
  if (const std::string note = note_on(settings_.program.section, settings_.withheld, errors); !note.empty())
    words += (errors.empty() ? "; " : "\n") + note;
  base::fail_input(key(),
                   "a line {\"ready\": …} within " + settings_.start_key + " = " + seconds(settings_.start_timeout_s),
                   got, words);
}

void Crew::take_ready(Slot& slot, std::string_view line) {
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
    const std::string advice = mentioned(settings_.program.section, settings_.withheld, words);
    base::fail_input(key(), "", words + (advice.empty() ? "" : "\n" + advice));
  }
  const bool is_ready = message.is_object() && message.contains("ready") && message["ready"].is_object();
  if (!is_ready) refuse_start(slot, base::quoted(line, kShown_bytes_of_start) + fault);
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
    refuse_start(slot, "a ready line that differs from the first worker's: " +
                           base::quoted(ready.dump(), kShown_bytes_of_start));
  slot.worker->is_ready = true;
}

std::string Crew::start() {
  Slot& slot = slots_.front();
  if (!slot.worker) start_worker(slot);
  while (!slot.worker->is_ready) {
    poll_workers(slot.worker->started_s + settings_.start_timeout_s, 1);
    slot.worker->read_errors();
    const Worker::Input input = slot.worker->read();
    if (const auto line = slot.worker->next_line()) {
      take_ready(slot, *line);
      if (const auto early = slot.worker->next_line()) refuse_early(slot, *early);
      continue;
    }
    if (input == Worker::Input::too_long) refuse_start(slot, "a first line above 64 KiB");
    if (input == Worker::Input::ended || !slot.worker->flush()) refuse_ended(slot);
    refuse_if_late(slot);
  }
  return ready_;
}

void Crew::refuse_ended(Slot& slot) {
  wait_for_end(slot);
  refuse_start(slot, "");
}

void Crew::refuse_early(Slot& slot, std::string_view line) {
  refuse_start(slot, "another line after it, before the first " + settings_.work + ": " +
                         base::quoted(line, kShown_bytes_of_start));
}

void Crew::refuse_if_late(Slot& slot) {
  if (base::now_s() - slot.worker->started_s > settings_.start_timeout_s) refuse_start(slot, "no such line");
}

/// Waits at most 100 ms, because standard output closes shortly before the process ends.
void Crew::wait_for_end(const Slot& slot) {
  for (int i = 0; i < 20 && !slot.worker->process().has_ended(); ++i) usleep(5000);
}

double Crew::next_start_deadline_s() const {
  double deadline_s = std::numeric_limits<double>::infinity();
  for (const Slot& slot : slots_) {
    if (slot.worker && !slot.worker->is_ready)
      deadline_s = std::min(deadline_s, slot.worker->started_s + settings_.start_timeout_s);
  }
  return deadline_s;
}

void Crew::poll_workers(double deadline_s, double most_s) {
  std::vector<pollfd> files;
  for (Slot& slot : slots_) {
    if (!slot.worker) continue;
    Worker& worker = *slot.worker;
    files.push_back({worker.process().output(), POLLIN, 0});
    files.push_back({worker.process().errors(), POLLIN, 0});
    if (worker.has_unsent()) files.push_back({worker.process().input(), POLLOUT, 0});
  }
  const double left_s = std::clamp(deadline_s - base::now_s(), 0.0, most_s);
  (void)::poll(files.data(), files.size(), static_cast<int>(std::ceil(left_s * 1000)));
}

void Crew::log_once(const std::string& text) {
  constexpr std::size_t kMostTexts = 1000;
  const std::string lines = text.ends_with('\n') ? text : text + "\n";
  const std::size_t last = lines.rfind('\n', lines.size() - 2);
  const bool is_new =
      logged_.size() < kMostTexts && logged_.insert(last == std::string::npos ? lines : lines.substr(0, last)).second;
  if (is_new) log_.add(lines);
}

}  // namespace qrl::tasks
