#include "train/files/run_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "state/file.h"
#include "state/json.h"

namespace qrl::train {

namespace {

std::filesystem::path made(const std::filesystem::path& dir) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  QRL_REQUIRE(!error, dir.string(), "a folder that can be made", error.message(), "set trainer.default_local_dir");
  return dir;
}

class Descriptor {
 public:
  Descriptor(const std::filesystem::path& file, int flags) : file_(file.string()) {
    state::require_no_special_file(file);
    fd_ = ::open(file_.c_str(), flags | O_CLOEXEC, 0666);
    if (fd_ < 0) fail("open");
  }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void write(const std::string& bytes) {
    std::size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t n = ::write(fd_, bytes.data() + done, bytes.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("write");
      done += static_cast<std::size_t>(n);
    }
  }
  void truncate(std::int64_t bytes) {
    if (::ftruncate(fd_, bytes) != 0) fail("truncate");
  }
  std::int64_t sync() {
    if (::fsync(fd_) != 0) fail("fsync");
    return ::lseek(fd_, 0, SEEK_END);
  }

 private:
  [[noreturn]] void fail(const char* what) {
    base::fail_internal(file_, std::string(what) + " to succeed", std::strerror(errno));
  }
  std::string file_;
  int fd_ = -1;
};

void write_step(const std::filesystem::path& dir, std::int64_t step, const std::string& jsonl) {
  Descriptor(dir / ("step_" + std::to_string(step) + ".jsonl"), O_WRONLY | O_CREAT | O_TRUNC).write(jsonl);
}

}  // namespace

MetricsFile::MetricsFile(const std::filesystem::path& file, std::int64_t keep_bytes) : file_(file) {
  Descriptor out(file_, O_RDWR | O_CREAT);
  const std::int64_t size = out.sync();
  QRL_REQUIRE(size >= keep_bytes, file_.string(),
              "at least the " + std::to_string(keep_bytes) + " bytes of the checkpoint", std::to_string(size),
              "the file was cut or replaced; resume into another folder");
  out.truncate(keep_bytes);
}

void MetricsFile::append(std::int64_t step, const Metrics& metrics) {
  if (file_.empty()) return;
  nlohmann::ordered_json row;
  row["step"] = step;
  for (const auto& [name, value] : metrics) {
    if (std::isfinite(value)) row[name] = value;
    else row[name] = nullptr;
  }
  Descriptor(file_, O_WRONLY | O_APPEND).write(row.dump() + "\n");
  events_.append(step, metrics);
}

void MetricsFile::mirror_to(const std::filesystem::path& dir) {
  if (!file_.empty()) events_ = report::EventsFile(dir, report::read_rows(file_));
}

void MetricsFile::append_changes(std::int64_t step, const std::vector<config::KeyChange>& changes) {
  if (file_.empty() || changes.empty()) return;
  nlohmann::ordered_json row = {{"step", step}};
  for (const config::KeyChange& change : changes) row["changed_on_resume"][change.key] = {change.before, change.after};
  Descriptor(file_, O_WRONLY | O_APPEND).write(row.dump() + "\n");
}

std::int64_t MetricsFile::sync() { return file_.empty() ? 0 : Descriptor(file_, O_RDWR).sync(); }

std::vector<std::pair<std::int64_t, double>> read_score(const std::filesystem::path& file, const std::string& name) {
  std::vector<std::pair<std::int64_t, double>> values;
  state::require_no_special_file(file);
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const nlohmann::json row = state::json_or_null(line);
    if (!row.is_object() || !row.contains("step")) continue;
    const auto changes = row.value("changed_on_resume", nlohmann::json::object());
    for (const auto& [key, change] : changes.items()) {
      if ((key.starts_with("eval.") && key != "eval.dump") || key == "data.val_files") values.clear();
    }
    if (row.contains(name) && row[name].is_number()) values.emplace_back(row["step"], row[name]);
  }
  return values;
}

RunFolder::RunFolder(const std::filesystem::path& dir) : path_(made(dir)), lock_(path_) {
  made(checkpoints());
  made(path_ / "rollouts");
}

void RunFolder::set_aside_earlier_rows() const {
  const auto has_rows = [](const std::filesystem::path& file) {
    std::error_code none;
    const auto size = std::filesystem::file_size(file, none);
    return !none && size > 0;
  };
  if (!has_rows(metrics_file()) && !has_rows(sft_metrics_file())) return;
  int number = 1;
  const auto place = [&] { return path_ / ("earlier_" + std::to_string(number)); };
  while (std::filesystem::exists(place())) ++number;
  made(place());
  // Moves the rows last, so that a start after a crash finds them and moves the rest.
  for (const char* name : {"rollouts", "validation", "tensorboard", "sessions.jsonl", "config.yaml", "quant_audit.txt",
                           "sft_metrics.jsonl", "metrics.jsonl"}) {
    if (std::filesystem::exists(path_ / name)) std::filesystem::rename(path_ / name, place() / name);
  }
  made(path_ / "rollouts");
  base::log_warning("no checkpoint to go on from in " + path_.string() +
                    ": metric rows and rollouts of the earlier run there are now in " + place().string());
}

void RunFolder::write_rollouts(std::int64_t step, const std::string& jsonl) const {
  write_step(path_ / "rollouts", step, jsonl);
}

void RunFolder::write_validation(std::int64_t step, const std::string& jsonl) const {
  std::error_code error;
  std::filesystem::create_directory(path_ / "validation", error);  // the path may have moved since it was locked
  write_step(path_ / "validation", step, jsonl);
}

}  // namespace qrl::train
