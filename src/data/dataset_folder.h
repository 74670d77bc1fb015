#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace qrl::data {

/// One file of rows, or all shards of a split in order.
struct DataFiles {
  std::vector<std::filesystem::path> files;
  std::string source;  ///< data source of rows that state none: the file's stem, or the folder's name
};

/// Finds the files that an entry of data.train_files or a similar key names. An entry that is an existing path names
/// that file. Otherwise the entry is DIR:SPLIT or DIR:CONFIG/SPLIT, searched as docs/howto/own-data.md states ("A
/// folder from the Hub").
///
/// Throws an input error for a missing split (and lists the existing ones), several matches, and missing shards. If DIR
/// does not exist, returns `name` itself, and reading it fails.
DataFiles find_data_files(const std::string& name);

}  // namespace qrl::data
