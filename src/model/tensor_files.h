#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "model/config.h"
#include "state/safetensors.h"

namespace qrl::model {

inline constexpr const char* kSingleFile = "model.safetensors";
inline constexpr const char* kIndexFile = "model.safetensors.index.json";

/// Reads a model.safetensors.index.json and returns each tensor's shard. Throws an input error unless `weight_map`
/// names only .safetensors files in the same folder (links are allowed). Does the same unless these files hold exactly
/// the tensors that `weight_map` lists.
std::map<std::string, std::filesystem::path, std::less<>> read_index(const std::filesystem::path& file);

/// Opens DIR's model.safetensors, or the shards of its index, as one set of tensors. Throws an input error unless
/// exactly one of these two files exists.
class TensorFiles {
 public:
  explicit TensorFiles(const std::filesystem::path& dir);

  /// Keeps the text model of a folder of text and images, under the names of a text model alone. Returns the number of
  /// tensors that it drops: those of a vision tower, and of layers that predict several tokens. Throws an input error
  /// for two tensors of one name.
  std::int64_t take_text_model();

  const state::SafetensorsFile* find(std::string_view name) const;
  /// Returns a tensor's name in its file.
  const std::string& stored_name(const std::string& name) const;
  const std::map<std::string, const state::SafetensorsFile*, std::less<>>& by_name() const { return by_name_; }

 private:
  const state::SafetensorsFile& open(const std::filesystem::path& file);
  void add(const std::string& name, const std::filesystem::path& file) { by_name_.emplace(name, &open(file)); }

  std::map<std::filesystem::path, std::unique_ptr<state::SafetensorsFile>> files_;
  std::map<std::string, const state::SafetensorsFile*, std::less<>> by_name_;
  std::map<std::string, std::string> stored_names_;  ///< of tensors that take_text_model has renamed
};

/// Throws an input error for a missing, misshaped or extra tensor, or a tensor that stacks all experts. Accepts RoPE's
/// buffers, and a tied lm_head equal to the embedding.
void require_tensors_of(const TensorFiles& files, const ModelConfig& config, const std::string& dir);

/// Reads a tensor as fp32 from its stored parts, each part on all threads. Throws an input error for non-finite values.
void read_tensor(const TensorFiles& files, const WeightSpec& spec, float* to);

}  // namespace qrl::model
