// Owns the safetensors file format, read strictly and written canonically.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/view.h"
#include "state/file.h"

namespace qrl::state {

struct TensorEntry {
  std::string_view dtype_name;       ///< as in the file ("F8_E4M3"); lives as long as the program
  std::optional<base::DType> dtype;  ///< nothing: a dtype that we only list (fp8, fp6, fp4, complex)
  base::Shape shape;
  std::uint64_t begin = 0, end = 0;  ///< byte offsets in the data section
};

/// Holds an open, checked file. Rules of the format: the header is at most 100 MB, fits in the file, and is strict JSON
/// that starts with '{', of bounded depth. Names are unique, dtypes known and products checked. Offsets are contiguous,
/// without holes, overlaps or trailing bytes. __metadata__ is a map of strings.
/// Policy of this project where the format is silent:
/// - a control byte in a name is rejected: other readers could cut "a\0b" to "a";
/// - a zero-size tensor may share its neighbor's offset, like in the reference reader;
/// - a tensor with fields other than dtype, shape and data_offsets is rejected: the field may change its meaning;
/// - more than 8 dimensions, and `__metadata__: null`, are rejected;
/// - JSON whitespace around the header's object is rejected before it and accepted after it.
class SafetensorsFile {
 public:
  /// Opens the file and checks it. Throws an input error that names the file and the fault. Links are followed to a
  /// regular file.
  explicit SafetensorsFile(const std::filesystem::path& file);

  using Tensors = std::map<std::string, TensorEntry, std::less<>>;
  using Metadata = std::map<std::string, std::string, std::less<>>;
  const std::filesystem::path& path() const { return file_.path(); }
  const Tensors& tensors() const { return tensors_; }
  const Metadata& metadata() const { return metadata_; }
  /// Returns the entry of a tensor. Throws an input error with the nearest name if it does not exist.
  const TensorEntry& entry(std::string_view name) const;
  /// Reads one tensor in its own dtype. The data is copied, because it may be unaligned in the file.
  base::Buffer read(std::string_view name) const;
  /// Reads one tensor and converts it exactly from F32, BF16 or F16 to fp32. Throws an input error for other dtypes.
  base::Buffer read_f32(std::string_view name) const;
  /// Reads to.size() elements, starting at element `first`, and converts them like read_f32. Thread-safe. The file is
  /// read with pread in small pieces, not mapped: a file that shrinks is then an input error, not a bus error.
  void read_f32(std::string_view name, std::int64_t first, std::span<float> to) const;

 private:
  File file_;
  std::uint64_t data_start_ = 0;
  Tensors tensors_;
  Metadata metadata_;
};

struct NamedView {
  std::string name;
  base::View view;
  /// Set to bf16 for an f32 view that is rounded to bf16 (nearest even) in the file.
  std::optional<base::DType> stored_as;
  /// The dtype name in the file if DType has none ("F8_E4M3"), with elements of the view's size. Empty: the view's
  /// dtype.
  std::string_view dtype_name = {};
};

/// Copies up to num_bytes of a view, from first_byte, to host memory that stays valid until the next call. May return
/// fewer bytes, limited by its buffer, but at least one.
using StagedRead =
    std::function<std::span<const std::byte>(const base::View& view, std::size_t first_byte, std::size_t num_bytes)>;

/// Writes `tensors` in the given order, with the header padded with spaces to a multiple of 8. An existing file is
/// replaced. The file is written and closed but not synced: state/folder.h does that for checkpoints. No second copy of
/// the tensors is made. Throws an internal error for a name that the reader would reject. `staged`, if set, reads the
/// tensors (for example from a device), and view.data is not dereferenced here. Otherwise the tensors are in CPU
/// memory.
void write_safetensors(const std::filesystem::path& file, const std::vector<NamedView>& tensors,
                       const std::map<std::string, std::string>& metadata, const StagedRead& staged = {});

/// Returns one paragraph for `qrl-train check safetensors`: tensors, elements and bytes by dtype, metadata keys.
std::string describe_safetensors(const std::filesystem::path& file);

}  // namespace qrl::state
