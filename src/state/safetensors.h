// Owns the safetensors file format, read strictly and written canonically. Knows nothing of models.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/view.h"

namespace qrl::state {

struct TensorEntry {
  base::DType dtype = base::DType::f32;
  base::Shape shape;
  std::uint64_t begin = 0, end = 0;   ///< byte offsets in the data section
};

/// An open, checked file. Rules (reliability.md): header ≤ 100 MB and ≤ the file, starts with '{', strict JSON of bounded
/// depth, no duplicate names, known dtypes, checked products, offsets contiguous without holes, overlap or trailing bytes,
/// __metadata__ a map of strings. Our policy where the format leaves it open: names hold no NUL or control byte; a
/// zero-size tensor may share its neighbour's offset (the reference reader accepts it).
class SafetensorsFile {
 public:
  /// Throws an input error that names the file and the fault.
  explicit SafetensorsFile(const std::filesystem::path& file);

  const std::map<std::string, TensorEntry, std::less<>>& tensors() const { return tensors_; }
  const std::map<std::string, std::string, std::less<>>& metadata() const { return metadata_; }
  /// Reads one tensor in its own dtype (copied: the data need not be aligned in the file).
  base::Buffer read(std::string_view name) const;
  /// Reads one tensor into fp32 (from F32, BF16 or F16); other dtypes are an input error.
  base::Buffer read_f32(std::string_view name) const;

 private:
  std::filesystem::path file_;
  std::uint64_t data_start_ = 0;
  std::map<std::string, TensorEntry, std::less<>> tensors_;
  std::map<std::string, std::string, std::less<>> metadata_;
};

struct NamedView {
  std::string name;
  base::View view;
};

/// Writes `tensors` in the given order, header padded with spaces to a multiple of 8. The file is created (an existing
/// one is replaced), written and closed, not fsynced: state/folder.h does that for checkpoints.
void write_safetensors(const std::filesystem::path& file, const std::vector<NamedView>& tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace qrl::state
