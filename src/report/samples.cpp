#include "report/samples.h"

#include <algorithm>
#include <charconv>
#include <fstream>

#include "report/rows.h"
#include "state/json.h"

namespace qrl::report {

namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr std::size_t kMaxTextBytes = 20'000;
constexpr std::size_t kMaxFileBytes = 64 << 20;
constexpr std::size_t kMaxSamples = 64;  // samples per group
constexpr std::size_t kMaxTurns = 64;    // shown turns per sample

std::string text_of(const Json& row, const char* name) {
  const auto found = row.find(name);
  if (found == row.end() || found->is_null()) return {};
  std::string text = found->is_string() ? found->get<std::string>() : found->dump();
  if (text.size() <= kMaxTextBytes) return text;
  std::size_t end = kMaxTextBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "… (" + std::to_string(text.size() - end) + " more bytes in the run folder)";
}

Json number_of(const Json& row, const char* name) {
  const auto found = row.find(name);
  return found != row.end() && found->is_number() ? *found : Json();
}

/// Returns a conversation's turns: what was sampled in each, and what the environment answered.
Json turns_of(const Json& list) {
  Json turns = Json::array();
  for (const Json& turn : list) {
    if (!turn.is_object() || turns.size() == kMaxTurns) break;
    turns.push_back({{"drawn", text_of(turn, "drawn")}, {"observation", text_of(turn, "observation")}});
  }
  return turns;
}

Json sample_of(const Json& row) {
  Json sample = {{"sample", number_of(row, "sample")},
                 {"score", number_of(row, "score")},
                 {"reward", number_of(row, "reward")},
                 {"advantage", number_of(row, "advantage")},
                 {"response_tokens", number_of(row, "response_tokens")}};
  for (const char* name : {"response", "reason", "extracted", "stop"}) sample[name] = text_of(row, name);
  Json parts = Json::object();
  const auto found = row.find("score_parts");
  if (found != row.end() && found->is_object()) {
    for (const auto& [name, value] : found->items()) {
      if (value.is_number()) parts[name] = value;
    }
  }
  sample["score_parts"] = std::move(parts);
  if (const auto turns = row.find("turns"); turns != row.end() && turns->is_array()) sample["turns"] = turns_of(*turns);
  return sample;
}

/// Reads whole lines on demand, at most kMaxFileBytes.
class Lines {
 public:
  explicit Lines(const fs::path& file) : in_(file, std::ios::binary) {}

  bool next(std::string& line) {
    constexpr std::size_t kPieceBytes = 1 << 20;
    std::size_t end = 0;
    while ((end = text_.find('\n', at_)) == std::string::npos) {
      if (!in_ || num_bytes_ >= kMaxFileBytes) return false;
      text_.erase(0, at_);
      at_ = 0;
      const std::size_t before = text_.size();
      text_.resize(before + kPieceBytes);
      in_.read(text_.data() + before, kPieceBytes);
      text_.resize(before + static_cast<std::size_t>(in_.gcount()));
      num_bytes_ += static_cast<std::size_t>(in_.gcount());
    }
    line.assign(text_, at_, end - at_);
    at_ = end + 1;
    return true;
  }

 private:
  std::ifstream in_;
  std::string text_;
  std::size_t at_ = 0, num_bytes_ = 0;
};

}  // namespace

std::vector<SampleFile> sample_files(const fs::path& dir) {
  std::vector<SampleFile> files;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(dir, none)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("step_") || !name.ends_with(".jsonl") || !entry.is_regular_file(none)) continue;
    std::int64_t step = 0;
    const char* const begin = name.data() + 5;
    const char* const end = name.data() + name.size() - 6;
    if (std::from_chars(begin, end, step).ptr == end) files.push_back({step, entry.path()});
  }
  std::ranges::sort(files, [](const auto& a, const auto& b) { return a.step < b.step; });
  return files;
}

std::vector<SampleFile> spread(const std::vector<SampleFile>& files, std::size_t count) {
  if (files.size() <= count) return files;
  std::vector<SampleFile> some;
  for (std::size_t i = 0; i < count; ++i)
    some.push_back(files[i * (files.size() - 1) / std::max<std::size_t>(count - 1, 1)]);
  return some;
}

Json read_groups(const fs::path& file, std::size_t max_prompts) {
  Json groups = Json::array();
  Lines lines(file);
  for (std::string line; lines.next(line);) {
    const Json row = state::ordered_json_or_null(valid_utf8(line));
    if (!row.is_object() || !row.contains("response")) continue;
    const Json id = {text_of(row, "data_source"), row.contains("prompt_id") ? row["prompt_id"] : Json()};
    if (groups.empty() || groups.back()["id"] != id) {
      if (groups.size() == max_prompts) break;
      groups.push_back({{"id", id},
                        {"data_source", text_of(row, "data_source")},
                        {"prompt", text_of(row, "prompt")},
                        {"ground_truth", text_of(row, "ground_truth")},
                        {"samples", Json::array()}});
    }
    if (groups.back()["samples"].size() < kMaxSamples) groups.back()["samples"].push_back(sample_of(row));
  }
  for (Json& group : groups) group.erase("id");
  return groups;
}

}  // namespace qrl::report
