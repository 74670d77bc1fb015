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
  std::string_view dtype_name;       ///< name in the file ("F8_E4M3"), a static string
  std::optional<base::DType> dtype;  ///< empty for a dtype that can be listed but not read (fp8, fp6, fp4, complex)
  base::Shape shape;
  std::uint64_t begin = 0, end = 0;  ///< byte range in the data section
};

/// Owns an open, checked file. The header is at most 100 MB, fits in the file, and is strict JSON of bounded depth that
/// starts with '{'. Names are unique, dtypes are known, and byte ranges fit dtype and shape. Offsets leave no holes,
/// overlaps or trailing bytes. __metadata__ is a map of strings. Where the format is silent, this project decides:
/// - a control byte in a name is rejected: readers could cut "a\0b" to "a".
/// - a zero-size tensor may share its neighbor's offset, as in the reference reader.
/// - a tensor with fields beside dtype, shape and data_offsets is rejected.
/// - more than 8 dimensions, and `__metadata__: null`, are rejected.
/// - JSON whitespace is rejected before the header's object, accepted after it.
class SafetensorsFile {
 public:
  /// Opens and checks a regular file; follows links. Throws an input error with the file and the fault.
  explicit SafetensorsFile(const std::filesystem::path& file);

  using Tensors = std::map<std::string, TensorEntry, std::less<>>;
  using Metadata = std::map<std::string, std::string, std::less<>>;
  const std::filesystem::path& path() const { return file_.path(); }
  const Tensors& tensors() const { return tensors_; }
  const Metadata& metadata() const { return metadata_; }
  /// Throws an input error if no tensor has this name.
  const TensorEntry& entry(std::string_view name) const;
  /// Reads one tensor in its own dtype into aligned memory. Throws an input error if its entry has no `dtype`.
  base::Buffer read(std::string_view name) const;
  /// Reads an F32, BF16 or F16 tensor as fp32, exactly. Throws an input error for other dtypes.
  base::Buffer read_f32(std::string_view name) const;
  /// Reads to.size() elements from `first` on, like read_f32; thread-safe. Reads by pread, so that a shrinking file is
  /// an input error, not a bus error.
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
  /// If bf16, an f32 view is stored rounded to bf16 (nearest even).
  std::optional<base::DType> stored_as;
  /// Dtype name in the file if DType lacks the dtype ("F8_E4M3"); empty: name of the stored DType.
  std::string_view dtype_name = {};
};

/// Copies a piece of a view to host memory. The piece begins at first_byte, and consists of whole elements: at least
/// one, at most num_bytes bytes. The result stays valid until the next call.
using StagedRead =
    std::function<std::span<const std::byte>(const base::View& view, std::size_t first_byte, std::size_t num_bytes)>;

/// Creates or overwrites `file` with `tensors` in order, without a second copy in memory. Pads the header with spaces
/// to a multiple of 8. Does not sync the file. Throws an internal error for a name that the reader would reject. If
/// set, `staged` reads the bytes, for example from a device; otherwise views must be in CPU memory.
void write_safetensors(const std::filesystem::path& file, const std::vector<NamedView>& tensors,
                       const std::map<std::string, std::string>& metadata, const StagedRead& staged = {});

std::string describe_safetensors(const std::filesystem::path& file);

}  // namespace qrl::state
