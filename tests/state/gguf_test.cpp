// Tests GGUF files against PyPI's gguf (scripts/golden/gguf_files.py), and broken ones.
#include "state/gguf.h"

#include <cstring>
#include <fstream>
#include <limits>

#include "base/error.h"
#include "base/rng.h"
#include "state/gguf_writer.h"
#include "state/safetensors.h"
#include "support/catch.h"
#include "support/files.h"
#include "support/refusal.h"

using namespace qrl;
using namespace qrl::state;
namespace fs = std::filesystem;

namespace {

const fs::path kGguf = qrl::test::shipped_data() / "golden" / "gguf";

/// Returns the message of the refusal of a file with these bytes, or "" if it is accepted and read.
std::string gguf_refusal(const fs::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
  try {
    const GgufFile opened(file);
    for (const auto& [name, tensor] : opened.tensors()) {
      std::vector<float> values(static_cast<std::size_t>(tensor.shape.numel()));
      opened.read_f32(tensor, 0, values);
    }
  } catch (const base::Error& error) {
    CHECK(error.kind() == base::ErrorKind::input);
    return error.what();
  }
  return {};
}

template <class T>
std::string raw_bytes(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
std::string text_bytes(const std::string& text) { return raw_bytes(std::uint64_t{text.size()}) + text; }
std::string head_bytes(std::uint32_t version, std::uint64_t num_tensors, std::uint64_t num_keys) {
  return "GGUF" + raw_bytes(version) + raw_bytes(num_tensors) + raw_bytes(num_keys);
}

}  // namespace

TEST_CASE("gguf: every type that is read has the values of gguf's own dequantizer, bit for bit") {
  const GgufFile file(kGguf / "types.gguf");
  const SafetensorsFile want(kGguf / "types.safetensors");
  CHECK(file.tensors().size() == 11);
  for (const auto& [name, tensor] : file.tensors()) {
    INFO(name);
    CHECK(tensor.type->name == name);
    const base::Buffer expected = want.read_f32(name);
    REQUIRE(tensor.shape == expected.shape());
    std::vector<float> got(static_cast<std::size_t>(tensor.shape.numel()));
    file.read_f32(tensor, 0, got);
    CHECK(std::memcmp(got.data(), expected.as<float>(), got.size() * sizeof(float)) == 0);
    std::vector<float> part(256);  // from the middle
    file.read_f32(tensor, 512, part);
    CHECK(std::memcmp(part.data(), expected.as<float>() + 512, part.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("gguf: files of another kind, version, order or part are refused by what they are") {
  const qrl::test::TempDir dir;
  const auto says = [&](const std::string& bytes, const char* about) {
    const std::string message = gguf_refusal(dir / "x.gguf", bytes);
    INFO(message);
    CHECK(message.find(about) != std::string::npos);
  };
  says("", "a GGUF file");
  says("PK" + std::string(40, 'x'), "another kind");
  says(head_bytes(1, 0, 0), "version 1");
  says(head_bytes(4, 0, 0), "version 4");
  says(head_bytes(0x03000000, 0, 0), "big-endian");
  says(head_bytes(3, std::uint64_t{1} << 60, 0), "tensors");
  says(head_bytes(3, 0, std::uint64_t{1} << 60), "keys");
  const std::string split = text_bytes("split.count") + raw_bytes(std::uint32_t{2}) + raw_bytes(std::uint16_t{3});
  says(head_bytes(3, 0, 1) + split, "llama-gguf-split --merge");
  says(head_bytes(3, 0, 2) + text_bytes("a") + raw_bytes(std::uint32_t{4}) + raw_bytes(std::uint32_t{3}) +
           text_bytes("a") + raw_bytes(std::uint32_t{4}) + raw_bytes(std::uint32_t{3}),
       "twice");
  says(head_bytes(3, 0, 1) + text_bytes("a") + raw_bytes(std::uint32_t{9}) + raw_bytes(std::uint32_t{4}) +
           raw_bytes(std::uint64_t{1} << 60) + std::string(64, '\0'),
       "an array of at most");
  says(head_bytes(3, 0, 1) + raw_bytes(std::uint64_t{1} << 60) + std::string(64, '\0'), "at most");
  const auto tensor = [](std::uint32_t type, std::uint64_t width, std::uint64_t offset) {
    return text_bytes("t") + raw_bytes(std::uint32_t{1}) + raw_bytes(width) + raw_bytes(type) + raw_bytes(offset);
  };
  for (const auto& [type, name] :
       {std::pair{16U, "IQ2_XXS"}, {34U, "TQ1_0"}, {39U, "MXFP4"}, {40U, "NVFP4"}, {10U, "Q2_K"}})
    says(head_bytes(3, 1, 0) + tensor(type, 256, 0) + std::string(4096, '\0'), name);
  says(head_bytes(3, 1, 0) + tensor(8, 33, 0) + std::string(4096, '\0'), "multiple of 32");
  says(head_bytes(3, 1, 0) + tensor(0, 4, 8) + std::string(4096, '\0'), "offset");
  says(head_bytes(3, 1, 0) + tensor(0, 4096, 0) + std::string(64, '\0'), "inside the file");
  says(head_bytes(3, 1, 0) + tensor(0, std::uint64_t{1} << 62, 0) + std::string(64, '\0'), "dimensions");
}

TEST_CASE("gguf: a file that is cut or changed anywhere is read or refused in one error") {
  const qrl::test::TempDir dir;
  const std::string good = qrl::test::read_file(kGguf / "qwen3.gguf");
  REQUIRE(gguf_refusal(dir / "x.gguf", good).empty());
  for (std::size_t length = 0; length < 1200; length += 7)
    CHECK(!gguf_refusal(dir / "x.gguf", good.substr(0, length)).empty());
  CHECK(!gguf_refusal(dir / "x.gguf", good.substr(0, good.size() - 33)).empty());
  base::RandomStream random(7, base::RandomPurpose::test, 0);
  for (int i = 0; i < 200; ++i) {
    std::string changed = good;
    for (int k = 0; k < 3; ++k) changed[random.below(1500)] = static_cast<char>(random.below(256));
    (void)gguf_refusal(dir / "x.gguf", changed);
  }
}

TEST_CASE("gguf: each type that is written has the bytes of gguf's own quantizer") {
  const SafetensorsFile golden(kGguf / "quantized.safetensors");
  const base::Buffer values = golden.read("values");
  const std::int64_t count = values.shape().numel();
  for (const std::string name : {"BF16", "Q8_0", "Q4_0"}) {
    INFO(name);
    const GgufType& type = *find_gguf_type(name);
    REQUIRE(type.write != nullptr);
    const base::Buffer want = golden.read(name);
    std::vector<std::byte> got(static_cast<std::size_t>(count / type.values * type.bytes));
    REQUIRE(got.size() == static_cast<std::size_t>(want.shape().numel()));
    for (std::int64_t i = 0; i < count / type.values; ++i)
      type.write(values.as<float>() + i * type.values, got.data() + i * type.bytes);
    std::int64_t differ = 0;
    for (std::size_t i = 0; i < got.size(); ++i)
      differ += got[i] == static_cast<std::byte>(want.as<std::uint8_t>()[i]) ? 0 : 1;
    CHECK(differ == 0);
  }
}

TEST_CASE("gguf writer: a file is read back with its keys, shapes and values") {
  const test::TempDir dir;
  const fs::path path = dir / "x.gguf";
  const std::vector<GgufKey> keys = {{"general.architecture", std::string("llama")},
                                     {"llama.block_count", std::uint32_t{7}},
                                     {"llama.eps", 1e-5F},
                                     {"flag", true},
                                     {"kinds", std::vector<std::int32_t>{1, -3}},
                                     {"tokens", std::vector<std::string>{"a", "", "\xc4\xa0 b"}}};
  const std::vector<GgufOutput> tensors = {{"odd", find_gguf_type("F32"), {3}},
                                           {"matrix", find_gguf_type("BF16"), {2, 5}}};
  write_gguf(path, keys, tensors, [](const GgufOutput& tensor, std::span<float> to) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(i) + (tensor.name == "odd" ? 0.5F : 0);
  });
  const GgufFile file(path);
  CHECK(*file.text("general.architecture") == "llama");
  CHECK(*file.integer("llama.block_count") == 7);
  CHECK(file.number("llama.eps") == static_cast<double>(1e-5F));
  CHECK(*file.flag("flag"));
  CHECK(*file.integers("kinds") == std::vector<std::int64_t>{1, -3});
  CHECK(*file.texts("tokens") == std::vector<std::string>{"a", "", "\xc4\xa0 b"});
  const GgufTensor& matrix = file.tensors().find("matrix")->second;
  CHECK(matrix.shape == base::Shape{2, 5});
  std::vector<float> values(10);
  file.read_f32(matrix, 0, values);
  CHECK(values.back() == 9);
  values.resize(3);
  file.read_f32(file.tensors().find("odd")->second, 0, values);
  CHECK(values == std::vector<float>{0.5F, 1.5F, 2.5F});
}

TEST_CASE("gguf writer: values that are not finite are refused by their tensor") {
  const test::TempDir dir;
  const auto write = [&] {
    write_gguf(dir / "x.gguf", {}, {{"bad", find_gguf_type("F32"), {2}}}, [](const GgufOutput&, std::span<float> to) {
      to[0] = 0;
      to[1] = std::numeric_limits<float>::quiet_NaN();
    });
  };
  const std::string error = qrl::test::refusal_of(write);
  CHECK(qrl::test::says(error, "\"bad\""));
  CHECK(qrl::test::says(error, "finite"));
}
