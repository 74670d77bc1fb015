#include "tasks/command/worker.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <utility>

#include "base/clock.h"

namespace qrl::tasks {

namespace {

/// Blocks SIGPIPE on this thread, so that a write to a pipe without a reader only fails.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~NoSigpipe() {
    const timespec at_once{0, 0};
    if (!was_pending_) (void)sigtimedwait(&set_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t set_{}, before_{};
  bool was_pending_ = false;
};

constexpr std::size_t kPiece_bytes = std::size_t{64} << 10;
constexpr std::size_t kMaxErrorLines = 20;
constexpr std::size_t kMaxErrorLine_bytes = 500;

bool would_wait(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

}  // namespace

Worker::Worker(const Program& program, ErrorLog& log, std::size_t max_line_bytes)
    : started_s(base::now_s()), max_line_bytes_(max_line_bytes), log_(log), process_(program), piece_(kPiece_bytes) {}

bool Worker::send(std::string_view line) {
  unsent_ += line;
  return flush();
}

bool Worker::flush() {
  const NoSigpipe quiet;
  while (has_unsent()) {
    const ssize_t count = ::write(process_.input(), unsent_.data() + sent_, unsent_.size() - sent_);
    if (count > 0) sent_ += static_cast<std::size_t>(count);
    else if (count < 0 && would_wait(errno)) return true;
    else if (count < 0 && errno != EINTR) return false;
  }
  unsent_.clear();
  sent_ = 0;
  return true;
}

Worker::Input Worker::read() {
  received_.erase(0, taken_);
  scanned_ -= taken_;
  taken_ = 0;
  for (;;) {
    if (received_.size() > max_line_bytes_ + kPiece_bytes) return Input::too_long;
    const ssize_t count = ::read(process_.output(), piece_.data(), piece_.size());
    received_.append(piece_.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (count == 0) return Input::ended;
    if (count < 0 && would_wait(errno)) return Input::open;
    if (count < 0 && errno != EINTR) return Input::ended;
    if (count > 0 && static_cast<std::size_t>(count) < kPiece_bytes) return Input::open;
  }
}

std::optional<std::string_view> Worker::next_line() {
  const std::size_t end = received_.find('\n', scanned_);
  if (end == std::string::npos) {
    scanned_ = received_.size();
    return std::nullopt;
  }
  const std::string_view line = std::string_view(received_).substr(taken_, end - taken_);
  taken_ = scanned_ = end + 1;
  return line;
}

void Worker::read_errors() {
  for (;;) {
    if (process_.errors() < 0) return;
    const ssize_t count = ::read(process_.errors(), piece_.data(), piece_.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && would_wait(errno)) return;
    if (count <= 0) return process_.close_errors();
    const std::string_view text = std::string_view(piece_.data(), static_cast<std::size_t>(count));
    log_.add(text);
    for (const char c : text) {
      if (c == '\n') {
        errors_.push_back(std::exchange(error_line_, {}));
        if (errors_.size() > kMaxErrorLines) errors_.pop_front();
      } else if (error_line_.size() < kMaxErrorLine_bytes) {
        error_line_ += c;
      }
    }
  }
}

std::string Worker::last_errors() {
  read_errors();
  std::string text;
  for (const std::string& line : errors_) text += "\n  " + line;
  if (!error_line_.empty()) text += "\n  " + error_line_;
  return text;
}

}  // namespace qrl::tasks
