// Tests data set folders in the Hub's layout: the files of a split, and ambiguous or missing splits.
#include "data/dataset_folder.h"

#include <fstream>

#include "support/files.h"
#include "support/refusal.h"

using namespace qrl::data;
using qrl::test::refusal_of;
using qrl::test::says;
namespace fs = std::filesystem;

namespace {

void touch(const fs::path& file) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << "{}\n";
}

std::vector<std::string> names_of(const std::string& name, const fs::path& root) {
  std::vector<std::string> names;
  for (const fs::path& file : find_data_files(name).files) names.push_back(fs::relative(file, root).string());
  return names;
}

}  // namespace

TEST_CASE("dataset folders: a split is the file or shards of its name in the Hub's layouts") {
  const qrl::test::TempDir dir;
  const fs::path root = dir / "gsm8k";
  using Names = std::vector<std::string>;
  const std::string at = root.string() + ":";
  touch(root / "main/train-00001-of-00002.jsonl");
  touch(root / "main/train-00000-of-00002.jsonl");
  touch(root / "main/test-00000-of-00001.parquet");
  touch(root / "socratic/train-00000-of-00001.jsonl");
  touch(root / "README.md");
  touch(root / "data/validation.csv");
  CHECK(names_of(at + "main/train", root) ==
        Names{"main/train-00000-of-00002.jsonl", "main/train-00001-of-00002.jsonl"});
  CHECK(names_of(at + "validation", root) == Names{"data/validation.csv"});
  CHECK(names_of(at + "test", root) == Names{"main/test-00000-of-00001.parquet"});
  CHECK(find_data_files(at + "validation").source == "gsm8k");
  CHECK(says(refusal_of([&] { find_data_files(at + "train"); }),
             "got main/train-00000-of-00002.jsonl, socratic/train-00000-of-00001.jsonl; write DIR:CONFIG/SPLIT"));
  CHECK(says(refusal_of([&] { find_data_files(at + "dev"); }),
             "available splits: main/test, main/train, socratic/train, validation"));
  CHECK(says(refusal_of([&] { find_data_files(at); }), "DIR:SPLIT or DIR:CONFIG/SPLIT"));
  CHECK(says(refusal_of([&] { find_data_files(at + "../train"); }), "DIR:SPLIT or DIR:CONFIG/SPLIT"));
  fs::remove(root / "main/train-00001-of-00002.jsonl");
  CHECK(says(refusal_of([&] { find_data_files(at + "main/train"); }), "2 shards, as in their names, got 1"));
  touch(root / "dev/anything.jsonl");
  CHECK(names_of(at + "dev", root) == Names{"dev/anything.jsonl"});
  touch(root / "dev.csv");
  CHECK(says(refusal_of([&] { find_data_files(at + "dev"); }), "dev.csv, dev/anything.jsonl"));
}

TEST_CASE("dataset folders: an existing path wins, and other paths are left to their reader") {
  const qrl::test::TempDir dir;
  const std::string file = (dir / "a:train").string();
  touch(file);
  fs::create_directories(dir / "a");
  CHECK(find_data_files(file).files == std::vector<fs::path>{file});
  CHECK(find_data_files((dir / "none:train").string()).files.size() == 1);
  CHECK(find_data_files((dir / "x/train.jsonl").string()).source == "train");
}
