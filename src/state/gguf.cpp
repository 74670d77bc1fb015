#include "state/gguf.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/text.h"

namespace qrl::state {

namespace {

constexpr std::uint64_t kMaxMetadata_bytes = std::uint64_t{1} << 28, kMaxString_bytes = std::uint64_t{1} << 26;
constexpr std::uint64_t kMaxEntries = 1U << 24, kMaxTensors = 1U << 20;
constexpr std::uint32_t kMaxDimensions = 4;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 48;

using Kind = GgufKind;

constexpr std::array<std::uint64_t, static_cast<std::size_t>(Kind::count)> kKindBytes = {1, 1, 2,  2, 4, 4, 4,
                                                                                         1, 8, 12, 8, 8, 8};

struct UnreadType {
  std::uint32_t id;
  const char* name;
};
constexpr UnreadType kUnreadTypes[] = {{9, "Q8_1"},    {10, "Q2_K"},    {11, "Q3_K"},  {15, "Q8_K"},   {16, "IQ2_XXS"},
                                       {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"}, {20, "IQ4_NL"}, {21, "IQ3_S"},
                                       {22, "IQ2_S"},  {23, "IQ4_XS"},  {24, "I8"},    {25, "I16"},    {26, "I32"},
                                       {27, "I64"},    {28, "F64"},     {29, "IQ1_M"}, {34, "TQ1_0"},  {35, "TQ2_0"},
                                       {39, "MXFP4"},  {40, "NVFP4"}};

std::string type_name(std::uint32_t id) {
  const auto* found = std::ranges::find(kUnreadTypes, id, &UnreadType::id);
  return found == std::end(kUnreadTypes) ? "type " + std::to_string(id) : found->name;
}

/// Reads a file's head in order, through a buffer. Every read is checked against the file's size.
class Cursor {
 public:
  explicit Cursor(const File& file) : file_(file), size_(file.size_bytes()) {}

  std::uint64_t offset() const { return offset_; }
  std::uint64_t left() const { return size_ - offset_; }
  const std::string& where() const { return where_; }

  template <class T>
  T take(const char* what) {
    T value;
    read(&value, sizeof value, what);
    return value;
  }

  std::string take_text(const char* what) {
    const auto length = take<std::uint64_t>(what);
    QRL_REQUIRE(length <= std::min(left(), kMaxString_bytes), where_,
                std::string(what) + " of at most " + std::to_string(std::min(left(), kMaxString_bytes)) + " bytes",
                std::to_string(length), "the file is broken or incomplete");
    std::string text(length, '\0');
    read(text.data(), length, what);
    return text;
  }

 private:
  void read(void* to, std::uint64_t num_bytes, const char* what) {
    QRL_REQUIRE(
        num_bytes <= left() && offset_ + num_bytes <= kMaxMetadata_bytes, where_,
        std::string(what) + " inside the file, whose head has at most " + std::to_string(kMaxMetadata_bytes) + " bytes",
        "the end at byte " + std::to_string(std::min(size_, kMaxMetadata_bytes)), "the file is broken or incomplete");
    auto* out = static_cast<std::byte*>(to);
    while (num_bytes > 0) {
      if (at_ == buffer_.size()) {
        buffer_.resize(std::min<std::uint64_t>(left(), 1U << 20));
        file_.read_at(offset_, buffer_);
        at_ = 0;
      }
      const std::size_t count = std::min<std::size_t>(num_bytes, buffer_.size() - at_);
      std::memcpy(out, buffer_.data() + at_, count);
      at_ += count;
      offset_ += count;
      out += count;
      num_bytes -= count;
    }
  }

  const File& file_;
  std::uint64_t size_, offset_ = 0;
  std::vector<std::byte> buffer_;
  std::size_t at_ = 0;
  std::string where_ = shown(file_.path());
};

Kind take_kind(Cursor& cursor, const std::string& key) {
  const auto number = cursor.take<std::uint32_t>("a metadata type");
  QRL_REQUIRE(number < static_cast<std::uint32_t>(Kind::count), cursor.where() + ": " + base::quoted(key),
              "a metadata type from 0 to 12", std::to_string(number), "the file is broken, or of a newer version");
  return static_cast<Kind>(number);
}

bool is_integer(Kind kind) { return kind < Kind::f32 || kind == Kind::u64 || kind == Kind::i64; }

std::int64_t take_integer(Cursor& cursor, Kind kind, const std::string& key) {
  switch (kind) {
    case Kind::u8:
      return cursor.take<std::uint8_t>("a value");
    case Kind::i8:
      return cursor.take<std::int8_t>("a value");
    case Kind::u16:
      return cursor.take<std::uint16_t>("a value");
    case Kind::i16:
      return cursor.take<std::int16_t>("a value");
    case Kind::u32:
      return cursor.take<std::uint32_t>("a value");
    case Kind::i32:
      return cursor.take<std::int32_t>("a value");
    case Kind::i64:
      return cursor.take<std::int64_t>("a value");
    default:
      break;
  }
  const auto value = cursor.take<std::uint64_t>("a value");
  QRL_REQUIRE(value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()),
              cursor.where() + ": " + base::quoted(key), "an integer below 2^63", std::to_string(value));
  return static_cast<std::int64_t>(value);
}

double take_number(Cursor& cursor, Kind kind) {
  return kind == Kind::f32 ? static_cast<double>(cursor.take<float>("a value")) : cursor.take<double>("a value");
}

bool take_flag(Cursor& cursor, const std::string& key) {
  const auto value = cursor.take<std::uint8_t>("a value");
  QRL_REQUIRE(value <= 1, cursor.where() + ": " + base::quoted(key), "0 or 1", std::to_string(value));
  return value == 1;
}

template <class T, class Take>
std::vector<T> take_all(std::uint64_t count, const Take& take) {
  std::vector<T> values;
  values.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) values.push_back(take());
  return values;
}

GgufValue take_array(Cursor& cursor, const std::string& key) {
  const Kind kind = take_kind(cursor, key);
  const auto count = cursor.take<std::uint64_t>("an array's length");
  const std::uint64_t most = std::min(kMaxEntries, cursor.left() / kKindBytes[static_cast<std::size_t>(kind)]);
  QRL_REQUIRE(count <= most, cursor.where() + ": " + base::quoted(key),
              "an array of at most " + std::to_string(most) + " entries", std::to_string(count),
              "the file is broken or incomplete");
  QRL_REQUIRE(kind != Kind::array, cursor.where() + ": " + base::quoted(key), "an array of numbers or texts",
              "an array of arrays");
  if (kind == Kind::text) return take_all<std::string>(count, [&] { return cursor.take_text("a text"); });
  if (kind == Kind::boolean)
    return take_all<std::int64_t>(count, [&] { return std::int64_t{take_flag(cursor, key) ? 1 : 0}; });
  if (is_integer(kind)) return take_all<std::int64_t>(count, [&] { return take_integer(cursor, kind, key); });
  return take_all<double>(count, [&] { return take_number(cursor, kind); });
}

GgufValue take_value(Cursor& cursor, const std::string& key) {
  const Kind kind = take_kind(cursor, key);
  if (kind == Kind::array) return take_array(cursor, key);
  if (kind == Kind::text) return cursor.take_text("a text");
  if (kind == Kind::boolean) return take_flag(cursor, key);
  if (is_integer(kind)) return take_integer(cursor, kind, key);
  return take_number(cursor, kind);
}

/// Checks the first bytes and returns the numbers of tensors and of metadata keys.
std::pair<std::uint64_t, std::uint64_t> take_head(Cursor& cursor) {
  QRL_REQUIRE(cursor.left() >= 24, cursor.where(), "a GGUF file", std::to_string(cursor.left()) + " bytes");
  const auto magic = cursor.take<std::array<char, 4>>("the magic");
  QRL_REQUIRE((std::string_view(magic.data(), magic.size()) == "GGUF"), cursor.where(), "a GGUF file",
              "a file of another kind");
  const auto version = cursor.take<std::uint32_t>("the version");
  QRL_REQUIRE(version == 2 || version == 3, cursor.where(), "GGUF of version 2 or 3, little endian",
              (version & 0xffffU) == 0 ? "a big-endian file" : "version " + std::to_string(version),
              "convert it again with a current llama.cpp");
  const auto num_tensors = cursor.take<std::uint64_t>("the number of tensors");
  const auto num_keys = cursor.take<std::uint64_t>("the number of metadata keys");
  QRL_REQUIRE(num_tensors <= kMaxTensors && num_keys <= kMaxEntries, cursor.where(),
              "at most " + std::to_string(kMaxTensors) + " tensors and " + std::to_string(kMaxEntries) + " keys",
              std::to_string(num_tensors) + " and " + std::to_string(num_keys), "the file is broken");
  return {num_tensors, num_keys};
}

GgufTensor take_tensor(Cursor& cursor, const std::string& where) {
  const auto rank = cursor.take<std::uint32_t>("a tensor's rank");
  QRL_REQUIRE(rank >= 1 && rank <= kMaxDimensions, where, "1 to 4 dimensions", std::to_string(rank));
  std::vector<std::int64_t> dims;
  std::int64_t elements = 1;
  for (std::uint32_t i = 0; i < rank; ++i) {
    const auto dim = cursor.take<std::uint64_t>("a dimension");
    QRL_REQUIRE(dim >= 1 && dim <= static_cast<std::uint64_t>(kMaxElements / elements), where,
                "dimensions of at least 1, at most 2^48 elements", std::to_string(dim));
    elements *= static_cast<std::int64_t>(dim);
    dims.insert(dims.begin(), static_cast<std::int64_t>(dim));
  }
  const auto id = cursor.take<std::uint32_t>("a tensor's type");
  GgufTensor tensor{find_gguf_type(id), base::Shape(dims), cursor.take<std::uint64_t>("a tensor's offset")};
  QRL_REQUIRE(tensor.type != nullptr, where, "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K or Q6_K",
              type_name(id), "take a file of another type, such as Q8_0 or Q4_K_M");
  QRL_REQUIRE(dims.back() % tensor.type->values == 0, where,
              "rows of a multiple of " + std::to_string(tensor.type->values) + " values in " + tensor.type->name,
              std::to_string(dims.back()));
  return tensor;
}

std::uint64_t stored_bytes(const GgufTensor& tensor) {
  return static_cast<std::uint64_t>(tensor.shape.numel() / tensor.type->values * tensor.type->bytes);
}

void require_separate(const std::map<std::string, GgufTensor, std::less<>>& tensors, const std::string& where) {
  std::vector<const std::pair<const std::string, GgufTensor>*> order;
  for (const auto& entry : tensors) order.push_back(&entry);
  std::ranges::sort(order, {}, [](const auto* entry) { return entry->second.begin; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const auto& [before, first] = *order[i - 1];
    QRL_REQUIRE(first.begin + stored_bytes(first) <= order[i]->second.begin, where, "tensors that do not overlap",
                base::quoted(before) + " and " + base::quoted(order[i]->first));
  }
}

}  // namespace

bool is_gguf(const std::filesystem::path& path) { return path.extension() == ".gguf"; }

GgufFile::GgufFile(const std::filesystem::path& file) : file_(File::open(file)) {
  Cursor cursor(file_);
  const auto [num_tensors, num_keys] = take_head(cursor);
  for (std::uint64_t i = 0; i < num_keys; ++i) {
    std::string key = cursor.take_text("a metadata key");
    GgufValue value = take_value(cursor, key);
    QRL_REQUIRE(metadata_.try_emplace(key, std::move(value)).second, cursor.where() + ": " + base::quoted(key),
                "each metadata key once", "it twice");
  }
  for (const char* key : {"split.count", "split.no"}) {
    const std::int64_t* parts = integer(key);
    QRL_REQUIRE(parts == nullptr || *parts == (std::string_view(key) == "split.count" ? 1 : 0) || *parts == 0,
                cursor.where(), "a file in one part", "a part of a split file",
                "merge the parts: llama-gguf-split --merge FIRST-PART.gguf WHOLE.gguf");
  }
  for (std::uint64_t i = 0; i < num_tensors; ++i) {
    const std::string name = cursor.take_text("a tensor's name");
    const std::string where = cursor.where() + ": tensor " + base::quoted(name);
    QRL_REQUIRE(tensors_.try_emplace(name, take_tensor(cursor, where)).second, where, "each tensor once", "it twice");
  }
  const std::int64_t* own = integer("general.alignment");
  const std::int64_t alignment = own == nullptr ? 32 : *own;
  QRL_REQUIRE(alignment >= 1 && alignment <= 1 << 20, cursor.where() + ": \"general.alignment\"",
              "a number from 1 to 1048576", std::to_string(alignment));
  const auto step = static_cast<std::uint64_t>(alignment);
  const std::uint64_t data = (cursor.offset() + step - 1) / step * step, size = file_.size_bytes();
  for (auto& [name, tensor] : tensors_) {
    const std::string where = cursor.where() + ": tensor " + base::quoted(name);
    QRL_REQUIRE(tensor.begin % step == 0, where, "an offset that is a multiple of " + std::to_string(step),
                std::to_string(tensor.begin));
    const std::uint64_t bytes = stored_bytes(tensor);
    QRL_REQUIRE(data <= size && tensor.begin <= size - data && bytes <= size - data - tensor.begin, where,
                "its " + std::to_string(bytes) + " bytes inside the file", "the file's end before them",
                "the file is incomplete: download it again");
    tensor.begin += data;
  }
  require_separate(tensors_, cursor.where());
}

template <class T>
const T* GgufFile::find(std::string_view key, const char* what) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end()) return nullptr;
  const T* value = std::get_if<T>(&found->second);
  QRL_REQUIRE(value != nullptr, shown(path()) + ": " + base::quoted(key), what, "a value of another type");
  return value;
}

const std::string* GgufFile::text(std::string_view key) const { return find<std::string>(key, "a text"); }
const std::vector<std::string>* GgufFile::texts(std::string_view key) const {
  return find<std::vector<std::string>>(key, "a list of texts");
}
const std::vector<std::int64_t>* GgufFile::integers(std::string_view key) const {
  return find<std::vector<std::int64_t>>(key, "a list of integers");
}
const std::vector<double>* GgufFile::numbers(std::string_view key) const {
  return find<std::vector<double>>(key, "a list of numbers");
}
const std::int64_t* GgufFile::integer(std::string_view key) const { return find<std::int64_t>(key, "an integer"); }
const bool* GgufFile::flag(std::string_view key) const { return find<bool>(key, "true or false"); }

std::optional<double> GgufFile::number(std::string_view key) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end()) return std::nullopt;
  if (const auto* whole = std::get_if<std::int64_t>(&found->second)) return static_cast<double>(*whole);
  return *find<double>(key, "a number");
}

void GgufFile::read_f32(const GgufTensor& tensor, std::int64_t first, std::span<float> to) const {
  const GgufType& type = *tensor.type;
  const auto count = static_cast<std::int64_t>(to.size());
  QRL_INVARIANT(
      first % type.values == 0 && count % type.values == 0 && first >= 0 && first + count <= tensor.shape.numel(),
      "gguf", "whole blocks of a tensor", std::to_string(first) + " and " + std::to_string(count));
  constexpr std::int64_t kBlocksAtOnce = 4096;
  std::vector<std::byte> bytes;
  const std::int64_t first_block = first / type.values, num_blocks = count / type.values;
  for (std::int64_t at = 0; at < num_blocks; at += kBlocksAtOnce) {
    const std::int64_t blocks = std::min(kBlocksAtOnce, num_blocks - at);
    bytes.resize(static_cast<std::size_t>(blocks * type.bytes));
    file_.read_at(tensor.begin + static_cast<std::uint64_t>((first_block + at) * type.bytes), bytes);
    for (std::int64_t i = 0; i < blocks; ++i)
      type.read(bytes.data() + i * type.bytes, to.data() + (at + i) * type.values);
  }
}

}  // namespace qrl::state
