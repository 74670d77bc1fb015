#include "target.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "base/log.h"
#include "support/processor_time.h"
#include "tasks/math/verifier.h"
#include "tasks/task.h"
#include "tasks/verifier.h"

namespace qrl::fuzz {

namespace {

// A million inputs would write a million warnings.
[[maybe_unused]] const bool kQuiet = (base::set_log_quiet(true), true);

#if defined(__SANITIZE_ADDRESS__)
constexpr double kMaxVerdict_s = 200e-3;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr double kMaxVerdict_s = 200e-3;
#else
constexpr double kMaxVerdict_s = 25e-3;
#endif
#else
constexpr double kMaxVerdict_s = 25e-3;
#endif

class WorkFolder {
 public:
  WorkFolder() {
    const bool in_memory = access("/dev/shm", W_OK) == 0;
    std::string name = ((in_memory ? "/dev/shm" : std::filesystem::temp_directory_path()) / "qrl-fuzz-XXXXXX").string();
    require(mkdtemp(name.data()) != nullptr, "a folder for files");
    path = name;
  }
  ~WorkFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  std::filesystem::path path;
};

}  // namespace

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: this does not hold: %s\n", what);
  std::abort();
}

const std::filesystem::path& work_folder() {
  static const WorkFolder folder;
  return folder.path;
}

void write_file(const std::filesystem::path& file, std::string_view bytes) {
  std::ofstream out(file, std::ios::binary);
  out << bytes;
  out.close();
  require(!out.fail(), "a file can be written");
}

std::unique_ptr<tasks::Verifier> verifier_named(const std::string& name) {
  tasks::VerifierOptions options;
  options.known = tasks::verifiers();
  options.word = name;
  if (name != "math") return tasks::make_verifier(options);
  return std::make_unique<tasks::MathVerifier>(
      reward::math::Profile::automatic,
      reward::math::RequiredForm::value);  // compares like every other form first
}

void judge(const tasks::Verifier& verifier, std::string_view input) {
  const std::size_t end = std::min(input.find('\n'), input.size());
  const std::string_view gold = input.substr(0, end), response = input.substr(std::min(end + 1, input.size()));
  try {
    verifier.check_ground_truth({gold}, "x");
  } catch (const base::Error& error) {
    require(error.kind() == base::ErrorKind::input, error.what());
  }
  const auto prepared = verifier.prepare({gold});
  const tasks::Sample sample{response, prepared.get()};
  const auto verdict_of = [&] { return std::move(verifier.judge(std::span(&sample, 1)).front()); };
  double taken_s = kMaxVerdict_s;
  reward::Verdict verdict;
  // A brief stall of the machine during a verdict does not happen three times.
  for (int attempt = 0; attempt < 3 && taken_s >= kMaxVerdict_s; ++attempt) {
    taken_s = std::min(taken_s, test::seconds_on_xeon([&] { verdict = verdict_of(); }));
  }
  require(taken_s < kMaxVerdict_s, "a verdict within its time");
  const reward::Verdict again = verdict_of();
  require(again.outcome == verdict.outcome && again.extracted == verdict.extracted, "the same verdict twice");
  require(again.reason.data() == verdict.reason.data(), "a reason of static text");
  require(verdict.credit >= 0 && verdict.credit <= 1, "a credit from 0 to 1");
  require(verdict.extracted.size() <= reward::kMaxExtracted_bytes, "an extracted answer of bounded size");
  const bool answered = verdict.outcome != reward::Outcome::no_answer;
  require(answered || verdict.credit == 0, "no credit without an answer");
  ++(answered ? tally.accepted : tally.refused);
}

}  // namespace qrl::fuzz
