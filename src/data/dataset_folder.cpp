#include "data/dataset_folder.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"

namespace qrl::data {

namespace fs = std::filesystem;

namespace {

constexpr std::array<std::string_view, 4> kExtensions = {".parquet", ".jsonl", ".json", ".csv"};

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// Splits the name of a shard: returns "train" and 3 for "train-00000-of-00003". For other names, returns the name and
/// 0.
std::pair<std::string, std::size_t> split_of(const std::string& stem) {
  const std::size_t of = stem.rfind("-of-");
  const std::size_t dash = of == std::string::npos || of == 0 ? std::string::npos : stem.rfind('-', of - 1);
  const bool is_shard = dash != std::string::npos &&
                        is_digits(std::string_view(stem).substr(dash + 1, of - dash - 1)) &&
                        is_digits(std::string_view(stem).substr(of + 4)) && stem.size() - of < 12;
  if (!is_shard) return {stem, 0};
  return {stem.substr(0, dash), std::stoul(stem.substr(of + 4))};
}

struct Candidate {
  std::vector<fs::path> files;
  std::size_t num_shards = 0;
};
using Candidates = std::map<std::pair<std::string, std::string>, Candidate>;  // key: subfolder and extension

void look_in(const fs::path& root, const fs::path& within, const std::string& split, bool any_name, Candidates& found,
             std::set<std::string>& splits) {
  std::error_code error;
  const fs::path folder = within.empty() ? root : root / within;
  if (!fs::is_directory(folder, error)) return;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string extension = entry.path().extension().string();
    if (std::ranges::find(kExtensions, extension) == kExtensions.end() || !entry.is_regular_file(error)) continue;
    const auto [name, num_shards] = split_of(entry.path().stem().string());
    splits.insert((within.empty() || within == "data" ? "" : within.string() + "/") + name);
    if (!any_name && name != split) continue;
    Candidate& candidate = found[{within.string(), extension}];
    candidate.files.push_back(entry.path());
    candidate.num_shards = std::max(candidate.num_shards, num_shards);
  }
}

}  // namespace

DataFiles find_data_files(const std::string& name) {
  std::error_code error;
  const std::size_t colon = name.rfind(':');
  if (fs::exists(name, error) || colon == std::string::npos) return {{name}, fs::path(name).stem().string()};
  const fs::path root = fs::path(name.substr(0, colon)).lexically_normal();
  if (!fs::is_directory(root, error)) return {{name}, fs::path(name).stem().string()};
  const std::string wanted = name.substr(colon + 1);
  const std::size_t slash = wanted.rfind('/');
  const std::string config = slash == std::string::npos ? "" : wanted.substr(0, slash);
  const std::string split = slash == std::string::npos ? wanted : wanted.substr(slash + 1);
  QRL_REQUIRE(!split.empty() && wanted.find("..") == std::string::npos, name, "DIR:SPLIT or DIR:CONFIG/SPLIT",
              base::quoted(wanted));

  Candidates found;
  std::set<std::string> splits;
  for (const fs::path& within : {fs::path(config), fs::path("data") / config}) {
    look_in(root, within.has_filename() ? within : within.parent_path(), split, false, found, splits);
    look_in(root, within / split, split, true, found, splits);
  }
  if (config.empty()) {
    for (const fs::directory_entry& entry : fs::directory_iterator(root, error)) {
      const std::string folder = entry.path().filename().string();
      if (entry.is_directory(error) && folder != "data" && folder != split)
        look_in(root, folder, split, false, found, splits);
    }
  }
  QRL_REQUIRE(!found.empty(), name, "files of the split " + base::quoted(wanted) + " in " + root.string(),
              "no such split", "available splits: " + (splits.empty() ? "none" : base::joined(splits, ", ")));
  std::set<std::string> matches;
  for (auto& [place, candidate] : found) std::ranges::sort(candidate.files);
  for (const auto& [place, candidate] : found)
    matches.insert(fs::relative(candidate.files.front(), root, error).string());
  QRL_REQUIRE(found.size() == 1, name, "one set of files for the split " + base::quoted(wanted),
              base::joined(matches, ", "), "write DIR:CONFIG/SPLIT, or name the files");
  const Candidate& chosen = found.begin()->second;
  QRL_REQUIRE(chosen.num_shards == 0 || chosen.num_shards == chosen.files.size(), name,
              std::to_string(chosen.num_shards) + " shards, as in their names", std::to_string(chosen.files.size()),
              "download the missing shards");
  return {chosen.files, root.filename().string()};
}

}  // namespace qrl::data
