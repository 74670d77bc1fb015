#include "state/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <set>
#include <utility>

#include "base/bf16.h"
#include "base/error.h"
#include "base/text.h"
#include "state/json.h"

namespace qrl::state {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian and read in place");

namespace {

using base::DType;
using Json = nlohmann::json;

constexpr std::uint64_t kLengthField_bytes = 8;
constexpr std::uint64_t kMaxHeader_bytes = 100'000'000;  // the reference reader's limit
constexpr int kMaxHeaderDepth = 3;                       // root, tensor, array
constexpr std::size_t kChunk_bytes = std::size_t{1} << 20;

struct FormatDType {
  std::string_view name;
  std::uint64_t bits;
  std::optional<DType> dtype;
};

constexpr std::array<FormatDType, 22> kDTypes = {{
    {"BOOL", 8, DType::boolean},      {"U8", 8, DType::u8},         {"I8", 8, DType::i8},
    {"U16", 16, DType::u16},          {"I16", 16, DType::i16},      {"F16", 16, DType::f16},
    {"BF16", 16, DType::bf16},        {"U32", 32, DType::u32},      {"I32", 32, DType::i32},
    {"F32", 32, DType::f32},          {"U64", 64, DType::u64},      {"I64", 64, DType::i64},
    {"F64", 64, DType::f64},          {"C64", 64, std::nullopt},    {"F8_E5M2", 8, std::nullopt},
    {"F8_E4M3", 8, std::nullopt},     {"F8_E8M0", 8, std::nullopt}, {"F8_E4M3FNUZ", 8, std::nullopt},
    {"F8_E5M2FNUZ", 8, std::nullopt}, {"F6_E2M3", 6, std::nullopt}, {"F6_E3M2", 6, std::nullopt},
    {"F4", 4, std::nullopt},
}};

bool has_control_byte(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

std::uint64_t natural(const Json& value, const std::string& where) {
  QRL_REQUIRE(value.is_number_unsigned() && std::in_range<std::int64_t>(value.get<std::uint64_t>()), where,
              "integers from 0 to 2^63 - 1", base::quoted(value.dump()));
  return value.get<std::uint64_t>();
}

const Json& member(const Json& object, const char* key, const std::string& where) {
  const auto found = object.find(key);
  QRL_REQUIRE(found != object.end(), where, key, "no such key");
  return *found;
}

base::Shape read_shape(const Json& value, const std::string& where) {
  QRL_REQUIRE(value.is_array() && value.size() <= base::Shape::kMaxRank, where, "a list of at most 8 dimensions",
              base::quoted(value.dump()));
  std::array<std::int64_t, base::Shape::kMaxRank> dims{};
  std::int64_t product = 1;
  for (std::size_t axis = 0; axis < value.size(); ++axis) {
    dims[axis] = static_cast<std::int64_t>(natural(value[axis], where));
    QRL_REQUIRE(!__builtin_mul_overflow(product, dims[axis], &product), where, "a number of elements below 2^63",
                base::quoted(value.dump()));
  }
  return base::Shape(std::span(dims).first(value.size()));
}

TensorEntry read_entry(const Json& value, const std::string& where) {
  QRL_REQUIRE(value.is_object(), where, "an object", base::quoted(value.dump()));
  for (const auto& [key, field] : value.items()) {
    QRL_REQUIRE(key == "dtype" || key == "shape" || key == "data_offsets", where,
                "dtype, shape and data_offsets, nothing else", base::quoted(key));
  }
  TensorEntry entry;
  const Json& dtype = member(value, "dtype", where);
  const auto* known = std::find_if(kDTypes.begin(), kDTypes.end(), [&](const FormatDType& d) {
    return dtype.is_string() && d.name == dtype.get_ref<const std::string&>();
  });
  QRL_REQUIRE(known != kDTypes.end(), where + ".dtype", "a dtype of the format (F32, BF16, …)",
              base::quoted(dtype.dump()));
  entry.dtype_name = known->name;
  entry.dtype = known->dtype;
  entry.shape = read_shape(member(value, "shape", where), where + ".shape");

  const Json& offsets = member(value, "data_offsets", where);
  QRL_REQUIRE(offsets.is_array() && offsets.size() == 2, where + ".data_offsets", "[begin, end]",
              base::quoted(offsets.dump()));
  entry.begin = natural(offsets[0], where + ".data_offsets");
  entry.end = natural(offsets[1], where + ".data_offsets");
  QRL_REQUIRE(entry.begin <= entry.end, where + ".data_offsets", "begin ≤ end", base::quoted(offsets.dump()));
  std::uint64_t bits = 0;
  QRL_REQUIRE(
      !__builtin_mul_overflow(static_cast<std::uint64_t>(entry.shape.numel()), known->bits, &bits) && bits % 8 == 0,
      where, "a size in whole bytes below 2^61", entry.shape.to_string() + " of " + std::string(known->name));
  QRL_REQUIRE(entry.end - entry.begin == bits / 8, where + ".data_offsets",
              std::to_string(bits / 8) + " bytes for " + entry.shape.to_string() + " of " + std::string(known->name),
              std::to_string(entry.end - entry.begin));
  return entry;
}

void require_tiling(const SafetensorsFile::Tensors& tensors, std::uint64_t data_bytes, const std::string& where) {
  std::vector<std::pair<const std::string*, const TensorEntry*>> order;
  order.reserve(tensors.size());
  for (const auto& [name, entry] : tensors) order.emplace_back(&name, &entry);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second->begin, a.second->end) < std::pair(b.second->begin, b.second->end);
  });
  std::uint64_t next = 0;
  for (const auto& [name, entry] : order) {
    QRL_REQUIRE(entry->begin == next, where + ": tensor " + base::quoted(*name),
                "data from byte " + std::to_string(next) + " on (no hole, no overlap)", std::to_string(entry->begin));
    next = entry->end;
  }
  QRL_REQUIRE(next == data_bytes, where, std::to_string(next) + " bytes of data after the header",
              std::to_string(data_bytes));
}

float f16_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t magnitude = bits & 0x7fffU;
  if (magnitude >= 0x7c00U) return std::bit_cast<float>(sign | 0x7f800000U | (magnitude & 0x3ffU) << 13);
  // The shifted bits form a float whose exponent is 112 too small, which 2^112 corrects exactly, also for subnormals.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(scaled));
}

/// Returns the format that a file's first bytes show, with advice, or "". Call it only after an invalid header.
std::string foreign_format(std::string_view start) {
  struct Mark {
    std::string_view bytes;
    const char* what;
  };
  static constexpr const char* kPickle =
      "a Python pickle (torch.save), which can run code when read; load it with transformers and save_pretrained";
  static constexpr std::array<Mark, 12> kMarks = {
      {{"PK\x03\x04", "a zip archive, as torch.save writes; load it with transformers and save_pretrained"},
       {"\x80\x02", kPickle},
       {"\x80\x03", kPickle},
       {"\x80\x04", kPickle},
       {"\x80\x05", kPickle},
       {"GGUF", "a GGUF file; use the safetensors model that it was made from"},
       {"\x93NUMPY", "a NumPy array; save the model as safetensors"},
       {"\x89HDF", "an HDF5 file; save the model as safetensors"},
       {"\x1f\x8b", "a gzip file; decompress it first"},
       {"\x28\xb5\x2f\xfd", "a zstd file; decompress it first"},
       {"<", "an HTML or XML page; download the file itself"},
       {"{", "JSON text; the tensors are in the .safetensors file next to it"}}};
  if (base::is_lfs_pointer(start)) return base::kLfsPointer;
  for (const Mark& mark : kMarks) {
    if (start.starts_with(mark.bytes)) return mark.what;
  }
  return {};
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& file) : file_(File::open(file)) {
  const std::string where = shown(file);
  const std::uint64_t size = file_.size_bytes();
  QRL_REQUIRE(size >= kLengthField_bytes, where, "a safetensors file (8 bytes of header length first)",
              std::to_string(size) + " bytes");
  std::uint64_t header_bytes = 0;
  file_.read_at(0, std::as_writable_bytes(std::span(&header_bytes, 1)));
  // Does not compute 8 + length, which may overflow.
  const bool length_fits = header_bytes <= std::min(kMaxHeader_bytes, size - kLengthField_bytes);
  std::string header(length_fits ? header_bytes : 0, '\0');
  file_.read_at(kLengthField_bytes, std::as_writable_bytes(std::span(header)));
  if (!header.starts_with('{')) {
    std::string start(std::min<std::uint64_t>(size, 32), '\0');
    file_.read_at(0, std::as_writable_bytes(std::span(start)));
    const std::string foreign = foreign_format(start);
    QRL_REQUIRE(foreign.empty(), where, "a safetensors file", foreign);
  }
  QRL_REQUIRE(length_fits, where, "a header length of at most 100 MB within the file", std::to_string(header_bytes));
  QRL_REQUIRE(header.starts_with('{'), where, "a header that starts with '{'", base::quoted(header.substr(0, 8)));
  data_start_ = kLengthField_bytes + header_bytes;

  const Json root = parse_json(header, where + ": header", kMaxHeaderDepth);
  for (const auto& [name, value] : root.items()) {
    if (name == "__metadata__") {
      QRL_REQUIRE(value.is_object(), where + ": __metadata__", "a map of strings", base::quoted(value.dump()));
      for (const auto& [key, text] : value.items()) {
        QRL_REQUIRE(text.is_string(), where + ": __metadata__." + base::quoted(key), "a string",
                    base::quoted(text.dump()));
        metadata_.emplace(key, text.get<std::string>());
      }
      continue;
    }
    QRL_REQUIRE(!has_control_byte(name), where, "names without control bytes", base::quoted(name));
    tensors_.emplace(name, read_entry(value, where + ": tensor " + base::quoted(name)));
  }
  require_tiling(tensors_, size - data_start_, where);
}

const TensorEntry& SafetensorsFile::entry(std::string_view name) const {
  const auto found = tensors_.find(name);
  QRL_REQUIRE(found != tensors_.end(), shown(path()), "a tensor " + base::quoted(name), "no such tensor");
  return found->second;
}

base::Buffer SafetensorsFile::read(std::string_view name) const {
  const TensorEntry& tensor = entry(name);
  QRL_REQUIRE(tensor.dtype.has_value(), shown(path()) + ": tensor " + base::quoted(name), "a dtype that qrl-train uses",
              std::string(tensor.dtype_name));
  base::Buffer buffer(*tensor.dtype, tensor.shape);
  file_.read_at(data_start_ + tensor.begin, std::span(static_cast<std::byte*>(buffer.view().data), buffer.num_bytes()));
  return buffer;
}

base::Buffer SafetensorsFile::read_f32(std::string_view name) const {
  base::Buffer buffer(DType::f32, entry(name).shape);
  read_f32(name, 0, {buffer.as<float>(), static_cast<std::size_t>(buffer.view().numel())});
  return buffer;
}

void SafetensorsFile::read_f32(std::string_view name, std::int64_t first, std::span<float> to) const {
  const TensorEntry& tensor = entry(name);
  QRL_REQUIRE(tensor.dtype == DType::f32 || tensor.dtype == DType::bf16 || tensor.dtype == DType::f16,
              shown(path()) + ": tensor " + base::quoted(name), "F32, BF16 or F16", std::string(tensor.dtype_name),
              "convert the weights to one of these");
  const auto count = static_cast<std::int64_t>(to.size());
  QRL_INVARIANT(first >= 0 && first + count <= tensor.shape.numel(), shown(path()) + ": tensor " + base::quoted(name),
                "elements within the tensor", std::to_string(first) + " to " + std::to_string(first + count));
  std::uint64_t at = data_start_ + tensor.begin + static_cast<std::uint64_t>(first) * base::size_bytes(*tensor.dtype);
  if (tensor.dtype == DType::f32) return file_.read_at(at, std::as_writable_bytes(to));
  std::vector<std::uint16_t> chunk(std::min(to.size(), kChunk_bytes / sizeof(std::uint16_t)));
  while (!to.empty()) {
    const auto part = std::span(chunk).first(std::min(chunk.size(), to.size()));
    file_.read_at(at, std::as_writable_bytes(part));
    if (tensor.dtype == DType::bf16) {
      std::transform(part.begin(), part.end(), to.begin(),
                     [](std::uint16_t bits) { return base::to_float(base::bf16{bits}); });
    } else {
      std::transform(part.begin(), part.end(), to.begin(), f16_to_float);
    }
    at += part.size_bytes();
    to = to.subspan(part.size());
  }
}

namespace {

void write_as_bf16(File& out, std::span<const std::byte> floats) {
  const auto* values = reinterpret_cast<const float*>(floats.data());
  const std::size_t count = floats.size() / sizeof(float);
  std::vector<base::bf16> chunk(std::min(count, kChunk_bytes / sizeof(base::bf16)));
  for (std::size_t at = 0; at < count;) {
    const std::size_t part = std::min(chunk.size(), count - at);
    std::transform(values + at, values + at + part, chunk.begin(), base::to_bf16);
    out.write(chunk.data(), part * sizeof(base::bf16));
    at += part;
  }
}

}  // namespace

void write_safetensors(const std::filesystem::path& file, const std::vector<NamedView>& tensors,
                       const std::map<std::string, std::string>& metadata, const StagedRead& staged) {
  // The header is built as text, which keeps the tensors in order.
  std::string header = "{";
  if (!metadata.empty()) header += "\"__metadata__\":" + Json(metadata).dump();
  std::uint64_t offset = 0;
  std::set<std::string_view> seen;
  for (const auto& [name, view, stored_as, dtype_name] : tensors) {
    QRL_INVARIANT(base::is_utf8(name) && !has_control_byte(name) && name != "__metadata__" && seen.insert(name).second,
                  shown(file), "names in UTF-8 without control bytes, each once", base::quoted(name));
    const DType dtype = stored_as.value_or(view.dtype);
    QRL_INVARIANT(dtype == view.dtype || (view.dtype == DType::f32 && dtype == DType::bf16), shown(file),
                  "f32 stored as bf16, or the view's own dtype", std::string(base::name(dtype)));
    QRL_INVARIANT(staged || view.device == base::Device::cpu, shown(file), "tensors in CPU memory", base::quoted(name));
    const std::uint64_t end = offset + static_cast<std::uint64_t>(view.numel()) * base::size_bytes(dtype);
    const std::string shown_dtype(dtype_name.empty() ? base::name(dtype) : dtype_name);
    header += (header.size() > 1 ? "," : "") + Json(name).dump() + R"(:{"dtype":")" + shown_dtype + R"(","shape":)" +
              Json(view.shape.dims()).dump() + ",\"data_offsets\":" + Json({offset, end}).dump() + "}";
    offset = end;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  QRL_INVARIANT(header.size() <= kMaxHeader_bytes, shown(file), "a header of at most 100 MB",
                std::to_string(header.size()));

  File out = File::create_or_empty(file);
  const std::uint64_t header_bytes = header.size();
  out.write(&header_bytes, sizeof header_bytes);
  out.write(header);
  for (const auto& [name, view, stored_as, dtype_name] : tensors) {
    const bool as_it_is = stored_as.value_or(view.dtype) == view.dtype;
    for (std::size_t at = 0; at < view.num_bytes();) {
      const std::size_t left = view.num_bytes() - at;
      const auto part = staged ? staged(view, at, left) : std::span(static_cast<const std::byte*>(view.data), left);
      QRL_INVARIANT(!part.empty() && part.size() <= left && part.size() % base::size_bytes(view.dtype) == 0,
                    shown(file), "whole elements of " + base::quoted(name), std::to_string(part.size()) + " bytes");
      if (as_it_is) out.write(part.data(), part.size());
      else write_as_bf16(out, part);
      at += part.size();
    }
  }
  out.close();
}

std::string describe_safetensors(const std::filesystem::path& file) {
  const SafetensorsFile opened(file);
  std::map<std::string_view, std::pair<std::size_t, std::int64_t>> by_dtype;
  std::uint64_t data_bytes = 0;
  for (const auto& [name, entry] : opened.tensors()) {
    auto& [tensors, elements] = by_dtype[entry.dtype_name];
    ++tensors;
    elements += entry.shape.numel();
    data_bytes += entry.end - entry.begin;
  }
  std::string text = shown(file) + ": " + std::to_string(opened.tensors().size()) + " tensors, " +
                     std::to_string(data_bytes) + " bytes of data";
  for (const auto& [name, count] : by_dtype) {
    text += "; " + std::string(name) + ": " + std::to_string(count.first) + " tensors, " +
            std::to_string(count.second) + " elements";
  }
  for (const auto& [key, value] : opened.metadata())
    text += "; metadata " + base::quoted(key) + " = " + base::quoted(value);
  return text;
}

}  // namespace qrl::state
