#include "state/gguf_writer.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "base/error.h"
#include "base/text.h"
#include "base/threads.h"

namespace qrl::state {

namespace {

constexpr std::uint64_t kAlignment = 32;

std::uint64_t padded(std::uint64_t num_bytes) { return (num_bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::uint64_t stored_bytes(const GgufOutput& tensor) {
  return static_cast<std::uint64_t>(tensor.shape.numel() / tensor.type->values * tensor.type->bytes);
}

/// Collects a file's head.
class Head {
 public:
  template <class T>
  requires std::is_arithmetic_v<T>
  void put(T value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void put(const std::string& text) {
    put(static_cast<std::uint64_t>(text.size()));
    bytes_ += text;
  }
  void put_type(GgufKind kind) { put(static_cast<std::uint32_t>(kind)); }

  void put_value(std::uint32_t value) { put_typed(GgufKind::u32, value); }
  void put_value(float value) { put_typed(GgufKind::f32, value); }
  void put_value(bool value) { put_typed(GgufKind::boolean, static_cast<std::uint8_t>(value ? 1 : 0)); }
  void put_value(const std::string& value) { put_typed(GgufKind::text, value); }
  void put_value(const std::vector<std::int32_t>& values) { put_array(GgufKind::i32, values); }
  void put_value(const std::vector<float>& values) { put_array(GgufKind::f32, values); }
  void put_value(const std::vector<std::string>& values) { put_array(GgufKind::text, values); }

  void pad() { bytes_.resize(padded(bytes_.size()), '\0'); }
  const std::string& bytes() const { return bytes_; }

 private:
  template <class T>
  void put_typed(GgufKind kind, const T& value) {
    put_type(kind);
    put(value);
  }
  template <class T>
  void put_array(GgufKind kind, const std::vector<T>& values) {
    put_type(GgufKind::array);
    put_type(kind);
    put(static_cast<std::uint64_t>(values.size()));
    for (const T& value : values) put(value);
  }

  std::string bytes_;
};

std::string head_of(const std::vector<GgufKey>& keys, const std::vector<GgufOutput>& tensors) {
  Head head;
  for (const char letter : {'G', 'G', 'U', 'F'}) head.put(letter);
  head.put(std::uint32_t{3});
  head.put(static_cast<std::uint64_t>(tensors.size()));
  head.put(static_cast<std::uint64_t>(keys.size()));
  for (const GgufKey& key : keys) {
    head.put(key.name);
    std::visit([&](const auto& value) { head.put_value(value); }, key.value);
  }
  std::uint64_t begin = 0;
  for (const GgufOutput& tensor : tensors) {
    QRL_INVARIANT(tensor.type->write != nullptr && tensor.shape[tensor.shape.rank() - 1] % tensor.type->values == 0,
                  "gguf", "a type that is written, with whole blocks in a row", tensor.name);
    head.put(tensor.name);
    head.put(static_cast<std::uint32_t>(tensor.shape.rank()));
    for (std::int64_t i = tensor.shape.rank() - 1; i >= 0; --i) head.put(static_cast<std::uint64_t>(tensor.shape[i]));
    head.put(tensor.type->id);
    head.put(begin);
    begin += padded(stored_bytes(tensor));
  }
  head.pad();
  return head.bytes();
}

/// Encodes a tensor's blocks, with zeros up to the alignment.
std::vector<std::byte> encoded(const GgufOutput& tensor, std::span<const float> values) {
  std::vector<std::byte> bytes(padded(stored_bytes(tensor)));
  const GgufType& type = *tensor.type;
  base::parallel_for(tensor.shape.numel() / type.values, 65536 / type.values, [&](base::Range blocks) {
    for (std::int64_t i = blocks.begin; i < blocks.end; ++i)
      type.write(values.data() + i * type.values, bytes.data() + i * type.bytes);
  });
  return bytes;
}

}  // namespace

void write_gguf(const std::filesystem::path& file, const std::vector<GgufKey>& keys,
                const std::vector<GgufOutput>& tensors, const GgufValues& values) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  const std::string head = head_of(keys, tensors);
  out.write(head.data(), static_cast<std::streamsize>(head.size()));
  std::vector<float> numbers;
  for (const GgufOutput& tensor : tensors) {
    numbers.resize(static_cast<std::size_t>(tensor.shape.numel()));
    values(tensor, numbers);
    QRL_REQUIRE(std::ranges::all_of(numbers, [](float value) { return std::isfinite(value); }),
                "tensor " + base::quoted(tensor.name), "finite weights", "an infinity or NaN",
                "export an earlier checkpoint");
    const std::vector<std::byte> bytes = encoded(tensor, numbers);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!out.good()) break;
  }
  out.close();
  QRL_REQUIRE(!out.fail(), shown(file), "a file that can be written", "a write error");
}

}  // namespace qrl::state
