// Fuzzes model.safetensors.index.json with two shards that hold "a" and "b", and "c": each tensor it names must exist.
#include "base/buffer.h"
#include "model/tensor_files.h"
#include "model/weights.h"
#include "state/safetensors.h"
#include "target.h"

using namespace qrl;

namespace {

std::filesystem::path folder_with_shards() {
  const auto& folder = fuzz::work_folder();
  base::Buffer values(base::DType::f32, {2, 2});
  const std::map<std::string, std::string> no_metadata;
  state::write_safetensors(folder / "model-00001-of-00002.safetensors",
                           {{"a", values.view(), {}}, {"b", values.view(), {}}}, no_metadata);
  state::write_safetensors(folder / "model-00002-of-00002.safetensors", {{"c", values.view(), {}}}, no_metadata);
  return folder;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t num_bytes) {
  static const std::filesystem::path folder = folder_with_shards();
  const auto file = folder / "model.safetensors.index.json";
  fuzz::write_file(file, fuzz::text_of(data, num_bytes));
  fuzz::accepts([&] {
    const auto places = model::read_index(file);
    fuzz::require(!places.empty(), "an index names tensors");
    for (const auto& [name, shard] : places) (void)state::SafetensorsFile(shard).read_f32(name);
    (void)model::describe_index(file);
  });
  return 0;
}
