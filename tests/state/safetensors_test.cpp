#include "state/safetensors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/bf16.h"
#include "support/catch.h"
#include "support/files.h"
#include "support/processor_time.h"

using namespace qrl;
using namespace qrl::state;

namespace {

std::string with_length(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

void write_file_bytes(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

/// Returns the message of the refusal, or "" if the file is accepted.
std::string file_refusal(const std::filesystem::path& file) {
  try {
    const SafetensorsFile opened(file);
    for (const auto& [name, entry] : opened.tensors()) {
      if (entry.dtype) opened.read(name);
    }
  } catch (const base::Error& error) {
    CHECK(error.kind() == base::ErrorKind::input);
    return error.what();
  }
  return {};
}

struct HeaderCase {
  const char* what;
  std::string header;
  std::size_t data_bytes;
};

const std::string kA = R"("a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]})";

}  // namespace

TEST_CASE("safetensors: malformed files behave as their manifest declares") {
  const auto shared = qrl::test::shared_data();
  if (!shared) return qrl::test::skip("shared data not found (QRL_TEST_DATA)");
  std::ifstream manifest(*shared / "malformed" / "manifest.jsonl");
  int seen = 0;
  for (std::string line; std::getline(manifest, line);) {
    const auto row = nlohmann::json::parse(line);
    if (row["kind"] != "safetensors") continue;
    ++seen;
    const std::string file = row["file"], expect = row["expect"];
    INFO(file);
    const std::string message = file_refusal(*shared / "malformed" / file);
    if (expect == "accept") CHECK(message == "");
    if (expect == "reject") {
      CHECK(message != "");
      CHECK(message.find(std::filesystem::path(file).filename().string()) != std::string::npos);
    }
    // Decisions of this program: a NUL in a name is refused, a zero-size tensor may share an offset.
    if (file.find("pol_nul_name") != std::string::npos) CHECK(message != "");
    if (file.find("pol_zero_size") != std::string::npos) CHECK(message == "");
  }
  CHECK(seen >= 25);
}

TEST_CASE("safetensors: bad headers are refused") {
  const qrl::test::TempDir dir;
  const std::vector<HeaderCase> cases = {
      {"empty object with data", "{}", 1},
      {"blank before", " {" + kA + "}", 16},
      {"NUL padding", "{" + kA + "}" + std::string(3, '\0'), 16},
      {"text after", "{" + kA + "}x", 16},
      {"second value", "{" + kA + "}{}", 16},
      {"duplicate name", "{" + kA + "," + kA + "}", 16},
      {"duplicate name, one escaped", "{" + kA + R"(,"\u0061":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", 16},
      {"duplicate field", R"({"a":{"dtype":"F32","dtype":"F32","shape":[4],"data_offsets":[0,16]}})", 16},
      {"duplicate metadata", R"({"__metadata__":{"k":"1","k":"2"},)" + kA + "}", 16},
      {"metadata twice", R"({"__metadata__":{},"__metadata__":{},)" + kA + "}", 16},
      {"metadata null", R"({"__metadata__":null,)" + kA + "}", 16},
      {"metadata number", R"({"__metadata__":{"k":1},)" + kA + "}", 16},
      {"metadata object", R"({"__metadata__":{"k":{}},)" + kA + "}", 16},
      {"unknown field", R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16],"strides":[1]}})", 16},
      {"tensor as a list", R"({"a":["F32",[4],[0,16]]})", 16},
      {"tensor null", R"({"a":null})", 0},
      {"no shape", R"({"a":{"dtype":"F32","data_offsets":[0,16]}})", 16},
      {"no offsets", R"({"a":{"dtype":"F32","shape":[4]}})", 16},
      {"dtype null", R"({"a":{"dtype":null,"shape":[4],"data_offsets":[0,16]}})", 16},
      {"dtype lower case", R"({"a":{"dtype":"f32","shape":[4],"data_offsets":[0,16]}})", 16},
      {"shape string", R"({"a":{"dtype":"F32","shape":"4","data_offsets":[0,16]}})", 16},
      {"shape object", R"({"a":{"dtype":"F32","shape":{},"data_offsets":[0,4]}})", 4},
      {"dimension float", R"({"a":{"dtype":"F32","shape":[4.0],"data_offsets":[0,16]}})", 16},
      {"dimension 4e0", R"({"a":{"dtype":"F32","shape":[4e0],"data_offsets":[0,16]}})", 16},
      {"dimension string", R"({"a":{"dtype":"F32","shape":["4"],"data_offsets":[0,16]}})", 16},
      {"dimension null", R"({"a":{"dtype":"F32","shape":[null],"data_offsets":[0,0]}})", 0},
      {"dimension nested", R"({"a":{"dtype":"F32","shape":[[4]],"data_offsets":[0,16]}})", 16},
      {"dimension negative", R"({"a":{"dtype":"F32","shape":[-4],"data_offsets":[0,16]}})", 16},
      {"dimension -0", R"({"a":{"dtype":"F32","shape":[-0],"data_offsets":[0,0]}})", 0},
      {"dimension 04", R"({"a":{"dtype":"F32","shape":[04],"data_offsets":[0,16]}})", 16},
      {"dimension 2^63", R"({"a":{"dtype":"U8","shape":[0,9223372036854775808],"data_offsets":[0,0]}})", 0},
      {"dimension 2^64", R"({"a":{"dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,0]}})", 0},
      {"dimension 1e999", R"({"a":{"dtype":"U8","shape":[1e999],"data_offsets":[0,0]}})", 0},
      {"product wraps to 4", R"({"a":{"dtype":"F32","shape":[4611686018427387905,4],"data_offsets":[0,16]}})", 16},
      {"product wraps to 0", R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0},
      {"bytes wrap to 16", R"({"a":{"dtype":"F64","shape":[2305843009213693954],"data_offsets":[0,16]}})", 16},
      {"wraps before a zero", R"({"a":{"dtype":"U8","shape":[9223372036854775807,2,0],"data_offsets":[0,0]}})", 0},
      {"nine dimensions", R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,4],"data_offsets":[0,16]}})", 16},
      {"half a byte", R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", 1},
      {"six bits", R"({"a":{"dtype":"F6_E2M3","shape":[1],"data_offsets":[0,1]}})", 1},
      {"offsets of one", R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[16]}})", 16},
      {"offsets of three", R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16,16]}})", 16},
      {"offsets object", R"({"a":{"dtype":"F32","shape":[4],"data_offsets":{"begin":0,"end":16}}})", 16},
      {"offset float", R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0.0,16]}})", 16},
      {"offset bool", R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[false,16]}})", 16},
      {"offset negative", R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[-16,0]}})", 16},
      {"offset beyond 64 bits", R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[18446744073709551616,0]}})", 0},
      {"begin after end", R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[16,0]}})", 16},
      {"too short", R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,12]}})", 12},
      {"beyond the file", "{" + kA + "}", 15},
      {"no data", "{" + kA + "}", 0},
      {"trailing byte", "{" + kA + "}", 17},
      {"hole at the start", R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})", 8},
      {"hole between",
       R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[5,9]}})",
       9},
      {"overlap",
       R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}})",
       7},
      {"same bytes twice",
       R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
       4},
      {"empty tensor inside another",
       R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"z":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}})",
       4},
      {"empty tensor beyond the data",
       R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"z":{"dtype":"U8","shape":[0],"data_offsets":[8,8]}})",
       4},
      {"control byte in a name", R"({"a\u001b":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", 16},
      {"raw newline in a name", "{\"a\n\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", 16},
      {"lone low surrogate", R"({"\udc00":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", 16},
      {"surrogate in UTF-8", "{\"\xed\xa0\x80\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", 16},
      {"overlong UTF-8", "{\"\xc0\xaf\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", 16},
      {"single quotes", R"({'a':{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", 16},
      {"NaN", R"({"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,16]}})", 16},
      {"unfinished", R"({"a":{"dtype":"F32")", 16},
      {"four levels", R"({"a":{"dtype":"F32","shape":[[[4]]],"data_offsets":[0,16]}})", 16},
  };
  for (const HeaderCase& bad : cases) {
    INFO(bad.what);
    write_file_bytes(dir / "x.safetensors", with_length(bad.header, std::string(bad.data_bytes, '\0')));
    CHECK(file_refusal(dir / "x.safetensors") != "");
  }
}

TEST_CASE("safetensors: valid headers are accepted") {
  const qrl::test::TempDir dir;
  const std::vector<HeaderCase> cases = {
      {"nothing in it", "{}", 0},
      {"metadata only", R"({"__metadata__":{"k":"line\nbreak"}})", 0},
      {"white space after", "{" + kA + "} \n\t\r ", 16},
      {"white space within", "{ " + kA + " }", 16},
      {"names out of the data's order",
       R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]},"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
       8},
      {"empty name", R"({"":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", 16},
      {"name of other scripts",
       "{\"\xe6\x95\xb0\\ud83d\\ude00\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4},
      {"dtypes only listed",
       R"({"a":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"F6_E3M2","shape":[4],"data_offsets":[2,5]},"c":{"dtype":"F4","shape":[2],"data_offsets":[5,6]},"d":{"dtype":"C64","shape":[1],"data_offsets":[6,14]}})",
       14},
      {"empty at the end",
       R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"z":{"dtype":"F32","shape":[2,0],"data_offsets":[4,4]}})",
       4},
  };
  for (const HeaderCase& good : cases) {
    INFO(good.what);
    write_file_bytes(dir / "x.safetensors", with_length(good.header, std::string(good.data_bytes, '\0')));
    CHECK(file_refusal(dir / "x.safetensors") == "");
    CHECK(describe_safetensors(dir / "x.safetensors").find("x.safetensors: ") != std::string::npos);
  }
}

TEST_CASE("safetensors: only a regular file with a header is read") {
  const qrl::test::TempDir dir;
  CHECK(file_refusal(dir / "missing") != "");
  CHECK(file_refusal(dir.path()).find("folder") != std::string::npos);
  CHECK(file_refusal("/dev/zero") != "");
  write_file_bytes(dir / "empty", "");
  CHECK(file_refusal(dir / "empty") != "");
  for (const std::uint64_t length : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{9}, std::uint64_t{100'000'001},
                                     std::uint64_t{1} << 63, ~std::uint64_t{0} - 7, ~std::uint64_t{0}}) {
    INFO(length);
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    write_file_bytes(dir / "x", bytes + "{}");
    CHECK(file_refusal(dir / "x") != "");
  }
  std::filesystem::create_symlink(dir / "x2", dir / "link");
  CHECK(file_refusal(dir / "link") != "");
  write_file_bytes(dir / "x2", with_length("{}", ""));
  CHECK(file_refusal(dir / "link") == "");
}

TEST_CASE("safetensors: a header of many tensors takes linear time") {
  constexpr int kTensors = 200'000;  // quadratic time would take minutes
  std::string header = "{";
  for (int i = 0; i < kTensors; ++i) {
    header += (i == 0 ? "\"" : ",\"") + std::to_string(i) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  const qrl::test::TempDir dir;
  write_file_bytes(dir / "x", with_length(header + "}", ""));
  std::size_t num_tensors = 0;
  CHECK(qrl::test::seconds_on_xeon([&] { num_tensors = SafetensorsFile(dir / "x").tensors().size(); }) < 10);
  CHECK(num_tensors == kTensors);
}

TEST_CASE("safetensors: written tensors read back bit for bit in canonical form") {
  const qrl::test::TempDir dir;
  base::Buffer matrix(base::DType::f32, {3, 5}), scalar(base::DType::i64, {}), empty(base::DType::u8, {0, 4}),
      halves(base::DType::bf16, {7});
  for (int i = 0; i < 15; ++i) matrix.as<float>()[i] = 1.0F / static_cast<float>(i - 7);
  *scalar.as<std::int64_t>() = -5;
  for (int i = 0; i < 7; ++i) halves.as<base::bf16>()[i] = base::to_bf16(static_cast<float>(i) * 0.1F);
  const auto file = dir / "x.safetensors";
  write_file_bytes(file, "an older and longer file " + std::string(1000, 'x'));
  std::vector<NamedView> tensors = {{"z\"\\", matrix.view(), {}},
                                    {"scalar", scalar.view(), {}},
                                    {"empty", empty.view(), {}},
                                    {"a", halves.view(), {}},
                                    {"rounded", matrix.view(), base::DType::bf16}};
  write_safetensors(file, tensors, {{"format", "pt"}});
  const std::string bytes = qrl::test::read_file(file);
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), 8);
  CHECK(header_bytes % 8 == 0);
  CHECK(bytes.size() == 8 + header_bytes + 15 * 4 + 8 + 7 * 2 + 15 * 2);

  const SafetensorsFile opened(file);
  CHECK(opened.metadata() == SafetensorsFile::Metadata{{"format", "pt"}});
  CHECK(opened.tensors().size() == 5);
  CHECK(opened.entry("z\"\\").begin == 0);  // the given order
  CHECK(opened.entry("rounded").end == 15 * 4 + 8 + 7 * 2 + 15 * 2);
  const base::Buffer again = opened.read("z\"\\");
  CHECK(again.shape() == base::Shape{3, 5});
  CHECK(std::memcmp(again.view().data, matrix.view().data, matrix.num_bytes()) == 0);
  CHECK(*opened.read("scalar").as<std::int64_t>() == -5);
  CHECK(opened.read("empty").shape() == base::Shape{0, 4});
  const base::Buffer wide = opened.read_f32("rounded");
  for (int i = 0; i < 15; ++i) CHECK(wide.as<float>()[i] == base::to_float(base::to_bf16(matrix.as<float>()[i])));
  CHECK_THROWS_AS(opened.read_f32("scalar"), base::Error);

  // Writes the same bytes from tensors on another device, through a staging buffer of 8 bytes.
  for (NamedView& tensor : tensors) tensor.view.device = base::Device::cuda;
  CHECK_THROWS_AS(write_safetensors(dir / "y", tensors, {}), base::Error);
  std::array<std::byte, 8> room{};
  const auto staged = [&](const base::View& view, std::size_t first_byte, std::size_t num_bytes) {
    const std::size_t count = std::min(room.size(), num_bytes);
    std::memcpy(room.data(), static_cast<const std::byte*>(view.data) + first_byte, count);
    return std::span<const std::byte>(room).first(count);
  };
  write_safetensors(dir / "pieces", tensors, {{"format", "pt"}}, staged);
  CHECK(qrl::test::read_file(dir / "pieces") == bytes);
  const auto nothing = [](const base::View&, std::size_t, std::size_t) { return std::span<const std::byte>(); };
  CHECK_THROWS_AS(write_safetensors(dir / "z", tensors, {}, nothing), base::Error);
  CHECK_THROWS_AS(opened.read("absent"), base::Error);
}

TEST_CASE("safetensors: names that could not be read back are not written") {
  const qrl::test::TempDir dir;
  const base::Buffer one(base::DType::f32, {1});
  CHECK_THROWS_AS(write_safetensors(dir / "x", {{"a", one.view()}, {"a", one.view()}}, {}), base::Error);
  CHECK_THROWS_AS(write_safetensors(dir / "x", {{"a\n", one.view()}}, {}), base::Error);
  CHECK_THROWS_AS(write_safetensors(dir / "x", {{"__metadata__", one.view()}}, {}), base::Error);
  CHECK_THROWS_AS(write_safetensors(dir / "x", {{"a", one.view(), base::DType::i8}}, {}), base::Error);
  std::filesystem::create_symlink(dir / "elsewhere", dir / "link");
  CHECK_THROWS_AS(write_safetensors(dir / "link", {{"a", one.view()}}, {}), base::Error);
  CHECK(!std::filesystem::exists(dir / "elsewhere"));
}

TEST_CASE("safetensors: every half and bfloat16 converts to its float") {
  const qrl::test::TempDir dir;
  std::string data;
  for (int bits = 0; bits < 65536; ++bits) data += {static_cast<char>(bits & 255), static_cast<char>(bits >> 8)};
  // More than one chunk of the reader: the table repeated twelve times.
  std::string repeated;
  for (int i = 0; i < 12; ++i) repeated += data;
  write_file_bytes(dir / "x",
                   with_length(R"({"h":{"dtype":"F16","shape":[12,65536],"data_offsets":[0,1572864]}})", repeated));
  const base::Buffer wide = SafetensorsFile(dir / "x").read_f32("h");
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < 12 * 65536; ++i) {
    const auto bits = static_cast<int>(i % 65536);
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double want = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    if (exponent == 31) want = fraction == 0 ? std::numeric_limits<double>::infinity() : std::nan("");
    if (bits & 0x8000) want = -want;
    const double got = wide.as<float>()[i];
    const bool same = std::isnan(want) ? std::isnan(got) : got == want && std::signbit(got) == std::signbit(want);
    wrong += same ? 0 : 1;
  }
  CHECK(wrong == 0);
}

TEST_CASE("safetensors: a file that shrinks after opening is an input error, not a crash") {
  const qrl::test::TempDir dir;
  write_file_bytes(dir / "x", with_length("{" + kA + "}", std::string(16, '\0')));
  const SafetensorsFile opened(dir / "x");
  std::filesystem::resize_file(dir / "x", 20);
  CHECK_THROWS_AS(opened.read("a"), base::Error);
}
