// Runs a fuzz target without libFuzzer: every seed unchanged, then random edits of the seeds. Run i draws from stream
// i, so equal arguments give equal inputs. An input that ends the process is kept.
// usage: fuzz_TARGET [-runs=N] [-seed=S] [-dict=FILE] [-timeout=SECONDS] [-artifact_prefix=PREFIX] [FOLDER or FILE of
// seeds]...
//        -timeout: processor time for one input; default 60
//        -runs: number of edits; default 500, or -long_runs (default a million) if QRL_LONG_TESTS is set
#include <fcntl.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "support/files.h"
#include "target.h"

namespace {

using qrl::base::RandomStream;
using qrl::fuzz::tally;

constexpr std::size_t kMaxGrowth_bytes = 4096;

struct Options {
  std::uint64_t runs = 500, long_runs = 1'000'000, seed = 1;
  int max_run_s = 60;
  std::string artifact_prefix = "./";
  std::vector<std::string> words;       ///< of the dictionary
  std::vector<std::string> seeds;       ///< contents
  std::vector<std::string> good_seeds;  ///< accepted by the target
};

// The input that the signal handler writes; set before each run.
const char* g_input = nullptr;
std::size_t g_input_bytes = 0;
std::string g_input_file;  ///< complete before the run begins

/// Writes the input to its file. Uses only calls that a signal handler may make.
void keep_input(int signal_number) {
  const int fd = open(g_input_file.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
  const bool kept = fd >= 0 && write(fd, g_input, g_input_bytes) == static_cast<ssize_t>(g_input_bytes);
  for (const std::string_view text :
       {std::string_view(kept ? "fuzz: the input is in " : "fuzz: the input cannot be written to "),
        std::string_view(g_input_file), std::string_view("\n")}) {
    if (write(STDERR_FILENO, text.data(), text.size()) < 0) break;
  }
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

void install_handlers() {
  // The stack may be exhausted.
  static std::vector<char> stack(1 << 16);
  stack_t alternative{};
  alternative.ss_sp = stack.data();
  alternative.ss_size = stack.size();
  sigaltstack(&alternative, nullptr);
  struct sigaction action {};
  action.sa_handler = keep_input;
  action.sa_flags = SA_ONSTACK;
  for (const int number : {SIGABRT, SIGPROF, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    struct sigaction before {};
    sigaction(number, nullptr, &before);
    // A sanitizer's own handler reports more, and then aborts.
    if (before.sa_handler == SIG_DFL || number == SIGABRT) sigaction(number, &action, nullptr);
  }
}

/// Reads a dictionary in libFuzzer's format: a line NAME="WORD", or just "WORD", with \\, \" and \xNN in it; # for
/// comments.
std::vector<std::string> read_dictionary(const std::string& file) {
  std::vector<std::string> words;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const std::size_t begin = line.find('"'), end = line.rfind('"');
    if (line.empty() || line[0] == '#' || begin == end) continue;
    std::string word;
    for (std::size_t i = begin + 1; i < end; ++i) {
      if (line[i] == '\\' && line[i + 1] == 'x') {
        word += static_cast<char>(std::stoi(line.substr(i + 2, 2), nullptr, 16));
        i += 3;
      } else {
        word += line[i] == '\\' ? line[++i] : line[i];
      }
    }
    words.push_back(word);
  }
  if (words.empty()) {
    std::fprintf(stderr, "fuzz: no words in %s\n", file.c_str());
    std::exit(2);
  }
  return words;
}

Options read_options(int argc, char** argv) {
  Options options;
  std::vector<std::filesystem::path> files;
  bool runs_given = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&](std::string_view name) { return argument.substr(name.size()); };
    if (argument.starts_with("-runs=")) {
      options.runs = std::stoull(value("-runs="));
      runs_given = true;
    } else if (argument.starts_with("-long_runs=")) {
      options.long_runs = std::stoull(value("-long_runs="));
    } else if (argument.starts_with("-seed=")) {
      options.seed = std::stoull(value("-seed="));
    } else if (argument.starts_with("-dict=")) {
      options.words = read_dictionary(value("-dict="));
    } else if (argument.starts_with("-timeout=")) {
      options.max_run_s = std::stoi(value("-timeout="));
    } else if (argument.starts_with("-artifact_prefix=")) {
      options.artifact_prefix = value("-artifact_prefix=");
    } else if (argument.starts_with("-")) {
      std::fprintf(stderr, "fuzz: unknown option %s\n", argv[i]);
      std::exit(2);
    } else if (std::filesystem::is_directory(argument)) {
      for (const auto& entry : std::filesystem::directory_iterator(argument)) files.push_back(entry.path());
    } else {
      files.emplace_back(argument);
    }
  }
  std::sort(files.begin(), files.end());
  for (const auto& file : files) options.seeds.push_back(qrl::test::read_file(file));
  if (!runs_given && std::getenv("QRL_LONG_TESTS") != nullptr) options.runs = options.long_runs;
  return options;
}

void edit(std::string& text, const Options& options, RandomStream& random) {
  const std::size_t place = random.below(text.size() + 1);
  const std::size_t length = 1 + random.below(random.below(8) == 0 ? 200 : 12);
  const auto piece_of = [&](const std::string& from) { return from.substr(random.below(from.size() + 1), length); };
  switch (random.below(7)) {
    case 0:
      if (place < text.size()) text[place] = static_cast<char>(random.below(256));
      break;
    case 1:
      text.erase(place, length);
      break;
    case 2:
      text.insert(place, piece_of(text));
      break;
    case 3:
      text.insert(place, std::to_string(random.next() >> random.below(32)));
      break;
    case 4:
      if (!options.seeds.empty()) text.insert(place, piece_of(options.seeds[random.below(options.seeds.size())]));
      break;
    case 5:
      if (random.below(8) == 0) text.resize(place);
      break;
    default:
      if (!options.words.empty()) text.insert(place, options.words[random.below(options.words.size())]);
  }
}

/// Returns an edited seed, or sometimes words of the dictionary, alone or after the first line of a seed (a gold
/// answer).
std::string drawn_input(const Options& options, RandomStream& random) {
  std::string text;
  const auto& sound = options.good_seeds.empty() ? options.seeds : options.good_seeds;
  const auto& from = random.below(2) == 0 ? sound : options.seeds;  // nearly correct inputs reach the deepest code
  if (!from.empty()) text = from[random.below(from.size())];
  const std::size_t most = text.size() + kMaxGrowth_bytes;
  if (!options.words.empty() && random.below(4) == 0) {
    text.resize(random.below(2) == 0 ? 0 : std::min(text.size(), text.find('\n') + 1));
    for (std::uint64_t k = random.below(40); k > 0; --k) {
      const std::string& word = options.words[random.below(options.words.size())];
      const std::uint64_t kind = random.below(60);
      if (kind == 0) text.append(random.below(3000), word[0]);
      else if (kind < 5) text += static_cast<char>(random.below(256));
      else text += word;
    }
  } else {
    for (std::uint64_t edits = 1 + random.below(4); edits > 0; --edits) edit(text, options, random);
  }
  if (text.size() > most) text.resize(most);
  return text;
}

/// Ends the process after that much processor time; 0 switches the timer off.
void set_timer_s(int seconds) {
  itimerval timer{};
  timer.it_value.tv_sec = seconds;
  setitimer(ITIMER_PROF, &timer, nullptr);
}

void run(const std::string& text, const std::string& name, const Options& options) {
  // Copies the input to a heap block of its exact size, so that a read beyond its end is detected.
  const std::vector<std::uint8_t> bytes(text.begin(), text.end());
  g_input = text.data();
  g_input_bytes = text.size();
  g_input_file = options.artifact_prefix + "crash-" + name;
  set_timer_s(options.max_run_s);
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  set_timer_s(0);
}

}  // namespace

#ifdef __SANITIZE_ADDRESS__
// A finding must reach our handler, which keeps the input.
extern "C" const char* __asan_default_options() { return "abort_on_error=1"; }
extern "C" const char* __ubsan_default_options() { return "abort_on_error=1:print_stacktrace=1"; }
#endif

int main(int argc, char** argv) {
  Options options = read_options(argc, argv);
  install_handlers();
  for (std::size_t i = 0; i < options.seeds.size(); ++i) {
    const std::uint64_t before = tally.accepted;
    run(options.seeds[i], "seed-" + std::to_string(i), options);
    if (tally.accepted > before) options.good_seeds.push_back(options.seeds[i]);
  }
  tally = {};
  for (std::uint64_t i = 0; i < options.runs; ++i) {
    RandomStream random(options.seed, qrl::base::RandomPurpose::test, i);
    run(drawn_input(options, random), std::to_string(options.seed) + "-" + std::to_string(i), options);
  }
  std::printf("%zu seeds, %llu runs: %llu inputs accepted, %llu refused\n", options.seeds.size(),
              static_cast<unsigned long long>(options.runs), static_cast<unsigned long long>(tally.accepted),
              static_cast<unsigned long long>(tally.refused));
  // Otherwise the edits miss the code under test.
  if (options.runs >= 400 && (tally.accepted < options.runs / 200 || tally.refused < options.runs / 200)) {
    std::fprintf(stderr, "fuzz: one half of what can happen hardly ever did\n");
    return 1;
  }
  return 0;
}
