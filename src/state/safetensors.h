// Owns the safetensors file format, read strictly and written canonically. Knows nothing of models.
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
  std::optional<base::DType> dtype;  ///< nothing: the format has it, we only list it (fp8, fp6, fp4, complex)
  base::Shape shape;
  std::uint64_t begin = 0, end = 0;  ///< byte offsets in the data section
};

/// An open, checked file. Rules: header ≤ 100 MB and ≤ the file, starts with '{', strict JSON of
/// bounded depth, no duplicate names, known dtypes, checked products, offsets contiguous without holes, overlap or
/// trailing bytes,
/// __metadata__ a map of strings.
/// Our policy where the format leaves it open:
/// - a name holds no control byte (a NUL would make "a\0b" read as "a" elsewhere): refused;
/// - a zero-size tensor may share its neighbor's offset (the reference reader accepts it): accepted;
/// - a tensor has dtype, shape and data_offsets and nothing else (who adds a field means something by it): refused;
/// - more than 8 dimensions: refused; `__metadata__: null`: refused;
/// - JSON whitespace around the header's object: none before, any after.
class SafetensorsFile {
 public:
  /// Throws an input error that names the file and the fault. Links are followed to a regular file.
  explicit SafetensorsFile(const std::filesystem::path& file);

  using Tensors = std::map<std::string, TensorEntry, std::less<>>;
  using Metadata = std::map<std::string, std::string, std::less<>>;
  const std::filesystem::path& path() const { return file_.path(); }
  const Tensors& tensors() const { return tensors_; }
  const Metadata& metadata() const { return metadata_; }
  /// The entry of a tensor; an input error that names the nearest when there is none.
  const TensorEntry& entry(std::string_view name) const;
  /// Reads one tensor in its own dtype (copied: the data need not be aligned in the file).
  base::Buffer read(std::string_view name) const;
  /// Reads one tensor into fp32 (from F32, BF16 or F16, exactly); other dtypes are an input error.
  base::Buffer read_f32(std::string_view name) const;
  /// The same of to.size() elements from `first` on, into memory of the caller's. By pread, a small piece at a time,
  /// not by mapping: a file that shrinks under us is then an input error, not a bus error. Several threads may call it.
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
  /// Set for an f32 view to be rounded to bf16 (nearest even) on its way into the file.
  std::optional<base::DType> stored_as;
  /// The dtype that the file says, of the view's size, where no DType names it ("F8_E4M3"); empty: the view's own.
  std::string_view dtype_name = {};
};

/// Brings num_bytes of a view from first_byte on to host memory, where they stay until the next call. May bring fewer,
/// but some: as many as its memory holds.
using StagedRead =
    std::function<std::span<const std::byte>(const base::View& view, std::size_t first_byte, std::size_t num_bytes)>;

/// Writes `tensors` in the given order, header padded with spaces to a multiple of 8. The file is created (an existing
/// one is replaced), written and closed, not fsynced: state/folder.h does that for checkpoints. Needs no memory for a
/// second copy. A name that the reader would refuse is an internal error. `staged`, if
/// there is one, reads the tensors, wherever they are; else they are in CPU memory. Views mean to `staged` what their
/// maker put there: their data is not read here.
void write_safetensors(const std::filesystem::path& file, const std::vector<NamedView>& tensors,
                       const std::map<std::string, std::string>& metadata, const StagedRead& staged = {});

/// One paragraph for `qrl-train check safetensors`: tensors, elements and bytes by dtype, metadata keys.
std::string describe_safetensors(const std::filesystem::path& file);

}  // namespace qrl::state
