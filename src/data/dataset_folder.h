#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace qrl::data {

/// A file of rows, or the shards of one split in order.
struct DataFiles {
  std::vector<std::filesystem::path> files;
  std::string source;  ///< source of rows that name none: the file's stem, or the folder's name
};

/// Finds the files of an entry of data.train_files or a similar key. An existing path is that file. Otherwise the entry
/// is DIR:SPLIT or DIR:CONFIG/SPLIT, as on the Hugging Face Hub; DIR, DIR/data, DIR/CONFIG and DIR/data/CONFIG are
/// searched. Files of a split are SPLIT.EXT, SPLIT-00000-of-00003.EXT, or any in a folder SPLIT, with EXT parquet,
/// jsonl, json or csv.
///
/// Throws an input error for a missing folder or split (and lists the existing ones), for several matches (and lists
/// them), and for missing shards. Returns a name whose folder does not exist unchanged; its reader refuses it.
DataFiles find_data_files(const std::string& name);

}  // namespace qrl::data
