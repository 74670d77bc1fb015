// Fuzzes a safetensors file: every listed tensor can be read, or the file is refused. An input that begins with '{' is
// a header and, after its first line break, the data; edits then need not keep the header's length correct.
#include "state/safetensors.h"

#include <cstring>

#include "target.h"

using namespace qrl;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t num_bytes) {
  std::string bytes(fuzz::text_of(data, num_bytes));
  if (bytes.starts_with('{')) {
    const std::size_t end = bytes.find('\n');
    const std::uint64_t length = end == std::string::npos ? bytes.size() : end;
    if (end != std::string::npos) bytes.erase(end, 1);
    bytes.insert(0, sizeof length, '\0');
    std::memcpy(bytes.data(), &length, sizeof length);
  }
  const auto file = fuzz::work_folder() / "x.safetensors";
  fuzz::write_file(file, bytes);
  fuzz::accepts([&] {
    const state::SafetensorsFile opened(file);
    for (const auto& [name, entry] : opened.tensors()) {
      if (!entry.dtype) continue;
      fuzz::require(opened.read(name).num_bytes() == entry.end - entry.begin, "a tensor has the bytes it declares");
      const bool converts =
          entry.dtype == base::DType::f32 || entry.dtype == base::DType::bf16 || entry.dtype == base::DType::f16;
      if (converts) fuzz::require(opened.read_f32(name).shape() == entry.shape, "a tensor keeps its shape");
    }
    (void)state::describe_safetensors(file);
  });
  return 0;
}
