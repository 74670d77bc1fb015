#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/view.h"
#include "state/file.h"

namespace qrl::state {

/// Numbers of GGUF's metadata types.
enum class GgufKind : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, text, array, u64, i64, f64, count };

/// Describes a type of GGUF's tensors: blocks of `values` numbers in `bytes` bytes.
struct GgufType {
  std::uint32_t id;
  const char* name;  ///< "Q4_K"
  std::int64_t values, bytes;
  /// Writes a block's values as fp32, with the products and sums of GGUF's reference.
  void (*read)(const std::byte* block, float* to);
  /// Encodes a block's finite values, with the scales and rounding of GGUF's reference; null: cannot be written.
  void (*write)(const float* values, std::byte* block) = nullptr;
};

/// Returns the type of this number or name, or null if it cannot be read.
const GgufType* find_gguf_type(std::uint32_t id);
const GgufType* find_gguf_type(std::string_view name);

struct GgufTensor {
  const GgufType* type = nullptr;
  base::Shape shape;        ///< outermost dimension first, as in safetensors
  std::uint64_t begin = 0;  ///< first byte in the file
};

/// Holds a metadata value. Integers of every width are int64; a uint64 above its range is refused.
using GgufValue = std::variant<std::int64_t, double, bool, std::string, std::vector<std::int64_t>, std::vector<double>,
                               std::vector<std::string>>;

/// Returns whether a path has GGUF's extension.
bool is_gguf(const std::filesystem::path& path);

/// Owns an open, checked GGUF file of version 2 or 3, little endian, in one part. Counts and strings fit in the file,
/// keys and tensors are unique, and tensors lie inside the file without overlaps. Types without a reader are refused by
/// name.
class GgufFile {
 public:
  /// Opens and checks a regular file; follows links. Throws an input error with the file and the fault.
  explicit GgufFile(const std::filesystem::path& file);

  const std::filesystem::path& path() const { return file_.path(); }
  const std::map<std::string, GgufTensor, std::less<>>& tensors() const { return tensors_; }
  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }

  /// Return a metadata value; the pointer is null if the key is missing. Throw an input error for another type.
  const std::string* text(std::string_view key) const;
  const std::vector<std::string>* texts(std::string_view key) const;
  const std::vector<std::int64_t>* integers(std::string_view key) const;
  const std::vector<double>* numbers(std::string_view key) const;
  const std::int64_t* integer(std::string_view key) const;
  /// Takes integers, too.
  std::optional<double> number(std::string_view key) const;
  const bool* flag(std::string_view key) const;

  /// Reads to.size() values of a tensor from `first` on as fp32; both must be multiples of the type's block.
  /// Thread-safe.
  void read_f32(const GgufTensor& tensor, std::int64_t first, std::span<float> to) const;

 private:
  template <class T>
  const T* find(std::string_view key, const char* what) const;

  File file_;
  std::map<std::string, GgufTensor, std::less<>> tensors_;
  std::map<std::string, GgufValue, std::less<>> metadata_;
};

}  // namespace qrl::state
