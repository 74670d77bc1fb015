// Owns how a recipe names a split of a data set's folder, laid out as the Hugging Face Hub has it. Knows nothing of
// rows.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace qrl::data {

/// A file of rows, or the shards of one split, in order.
struct DataFiles {
  std::vector<std::filesystem::path> files;
  std::string source;  ///< what the rows' source is called where they do not say: the file's stem, or the folder's name
};

/// What an entry of data.train_files or its kin names. A path that is there: that file. Else DIR:SPLIT or
/// DIR:CONFIG/SPLIT: the .parquet, .jsonl, .json or .csv files of the split in DIR, DIR/data, DIR/CONFIG or
/// DIR/data/CONFIG, named SPLIT.EXT or SPLIT-00000-of-00003.EXT, or any in a folder SPLIT. Input errors: no such folder
/// or split (those that are there are listed), several that match (all are listed), shards that are missing. A name
/// without a folder in it is returned as it is, for its reader to refuse.
DataFiles find_data_files(const std::string& name);

}  // namespace qrl::data
