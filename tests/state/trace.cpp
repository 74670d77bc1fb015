#include "state/trace.h"

#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <csignal>
#include <filesystem>

namespace qrl::test {

namespace {

namespace fs = std::filesystem;

std::string path_of_fd(pid_t pid, unsigned long long fd) {
  std::error_code error;
  return fs::read_symlink("/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd), error).string();
}

/// Returns `size` bytes at an address of the traced process, or fewer where its memory ends.
std::string bytes_at(pid_t pid, unsigned long long address, std::size_t size) {
  std::string bytes(size, '\0');
  const iovec here{bytes.data(), bytes.size()};
  const iovec there{reinterpret_cast<void*>(address), size};  // NOLINT(performance-no-int-to-ptr): another process's
  const ssize_t got = process_vm_readv(pid, &here, 1, &there, 1, 0);
  bytes.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return bytes;
}

std::string text_at(pid_t pid, unsigned long long address) {
  constexpr std::size_t kPage_bytes = 4096;  // a read must not cross into an unmapped page
  std::string text;
  while (text.size() < PATH_MAX) {
    const std::string part = bytes_at(pid, address + text.size(), kPage_bytes - (address + text.size()) % kPage_bytes);
    text += part.substr(0, part.find('\0'));
    if (part.empty() || part.find('\0') != std::string::npos) break;
  }
  return text;
}

Call read_call(pid_t pid, const user_regs_struct& registers) {
  Call call;
  call.number = registers.orig_rax;
  switch (call.number) {
    case SYS_openat:
      call.path = text_at(pid, registers.rsi);
      call.flags = static_cast<int>(registers.rdx);
      break;
    case SYS_unlinkat:
      call.path = text_at(pid, registers.rsi);
      break;
    case SYS_rename:
      call.second = text_at(pid, registers.rsi);
      [[fallthrough]];
    case SYS_mkdir:
    case SYS_rmdir:
    case SYS_unlink:
      call.path = text_at(pid, registers.rdi);
      break;
    case SYS_write:
      call.bytes = bytes_at(pid, registers.rsi, registers.rdx);
      [[fallthrough]];
    default:
      call.path = path_of_fd(pid, registers.rdi);
  }
  return call;
}

[[noreturn]] void run_child(const std::function<void()>& body) {
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(99);
  raise(SIGSTOP);
  try {
    body();
  } catch (...) {
    _exit(1);
  }
  _exit(0);
}

}  // namespace

Trace run_traced(const std::function<void()>& body, const TraceOptions& options) {
  Trace trace;
  const pid_t pid = fork();
  if (pid == 0) run_child(body);
  int status = 0;
  waitpid(pid, &status, 0);
  if (!WIFSTOPPED(status)) {
    trace.possible = false;
    return trace;
  }
  ptrace(PTRACE_SETOPTIONS, pid, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  for (bool entry = true;;) {
    ptrace(PTRACE_SYSCALL, pid, nullptr, nullptr);
    waitpid(pid, &status, 0);
    if (WIFEXITED(status)) {
      trace.exit_code = WEXITSTATUS(status);
      return trace;
    }
    if (!WIFSTOPPED(status) || WSTOPSIG(status) != (SIGTRAP | 0x80)) continue;
    user_regs_struct registers{};
    ptrace(PTRACE_GETREGS, pid, nullptr, &registers);
    if (entry) {
      if (trace.calls.size() == options.kill_at) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        trace.killed = true;
        return trace;
      }
      trace.calls.push_back(read_call(pid, registers));
    } else {
      trace.calls.back().result = static_cast<long long>(registers.rax);
    }
    if (trace.calls.size() == options.fail_at + 1) {
      if (entry) registers.orig_rax = ~0ULL;  // an invalid call number: the kernel does nothing
      else registers.rax = static_cast<unsigned long long>(-options.error);
      ptrace(PTRACE_SETREGS, pid, nullptr, &registers);
    }
    entry = !entry;
  }
}

}  // namespace qrl::test
