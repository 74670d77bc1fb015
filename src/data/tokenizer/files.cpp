#include <algorithm>
#include <array>
#include <fstream>

#include "base/error.h"
#include "data/tokenizer.h"
#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/gguf.h"
#include "data/tokenizer/parts.h"
#include "state/file.h"
#include "state/json.h"

namespace qrl::data {

using nlohmann::ordered_json;

namespace {

constexpr std::uint64_t kMaxFile_bytes = std::uint64_t{100} << 20;
constexpr const char* kTokenizerFile = "tokenizer.json";
constexpr const char* kConfigFile = "tokenizer_config.json";
constexpr const char* kGenerationFile = "generation_config.json";
constexpr const char* kTemplates = "additional_chat_templates";  ///< a folder of named templates
/// Names of files that are read if they exist, and saved with the tokenizer.
constexpr std::array<const char*, 5> kOtherFiles = {"special_tokens_map.json", "added_tokens.json",
                                                    "chat_template.jinja", "vocab.json", "merges.txt"};

std::string eos_token_of(const std::string& config_text, const std::string& where) {
  const nlohmann::json config = state::parse_json(config_text, where);
  QRL_REQUIRE(config.is_object(), where, "a JSON object", config.type_name());
  const auto eos = config.find("eos_token");  // a string, or a whole added token
  if (eos == config.end() || eos->is_null()) return {};
  const nlohmann::json& content = eos->is_object() && eos->contains("content") ? (*eos)["content"] : *eos;
  QRL_REQUIRE(content.is_string(), where, "`eos_token` to be a string", content.type_name());
  QRL_REQUIRE(!content.get_ref<const std::string&>().empty(), where, "`eos_token` to name a token", "an empty name");
  return content.get<std::string>();
}

/// Reads the first end token of generation_config.json. Returns −1 unless it is a special added token.
types::TokenId eos_of_model(const std::filesystem::path& dir, const TokenizerParts& parts) {
  const std::filesystem::path file = dir / kGenerationFile;
  if (!std::filesystem::exists(file)) return -1;
  const nlohmann::json config = state::parse_json(state::read_text(file, kMaxFile_bytes), file.string());
  QRL_REQUIRE(config.is_object(), file.string(), "a JSON object", config.type_name());
  const auto found = config.find("eos_token_id");  // a number, or a list of numbers
  if (found == config.end() || found->is_null() || (found->is_array() && found->empty())) return -1;
  const nlohmann::json& first = found->is_array() ? found->front() : *found;
  const bool is_id = first.is_number_unsigned() && first.get<std::uint64_t>() < parts.is_special.size() &&
                     parts.is_special[first.get<std::size_t>()];
  return is_id ? first.get<types::TokenId>() : -1;
}

std::string byte_level_json() {
  ordered_json vocab = ordered_json::object();
  for (int byte = 0; byte < 256; ++byte) vocab[byte_spelling(static_cast<unsigned char>(byte))] = byte;
  ordered_json added_tokens = ordered_json::array();
  for (const auto& [id, content] : {std::pair(256, "<|endoftext|>"), {257, "<answer>"}, {258, "</answer>"}}) {
    added_tokens.push_back({{"id", id},
                            {"content", content},
                            {"single_word", false},
                            {"lstrip", false},
                            {"rstrip", false},
                            {"normalized", false},
                            {"special", id == 256}});
  }
  const ordered_json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
  const ordered_json model = {{"type", "BPE"},
                              {"dropout", nullptr},
                              {"unk_token", nullptr},
                              {"continuing_subword_prefix", nullptr},
                              {"end_of_word_suffix", nullptr},
                              {"fuse_unk", false},
                              {"byte_fallback", false},
                              {"ignore_merges", false},
                              {"vocab", vocab},
                              {"merges", ordered_json::array()}};
  const ordered_json tokenizer = {{"version", "1.0"},
                                  {"truncation", nullptr},
                                  {"padding", nullptr},
                                  {"added_tokens", added_tokens},
                                  {"normalizer", nullptr},
                                  {"pre_tokenizer", byte_level},
                                  {"post_processor", nullptr},
                                  {"decoder", byte_level},
                                  {"model", model}};
  return tokenizer.dump(2) + "\n";
}

}  // namespace

Tokenizer Tokenizer::byte_level() {
  const ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                               {"eos_token", "<|endoftext|>"},
                               {"pad_token", "<|endoftext|>"},
                               {"clean_up_tokenization_spaces", false}};
  const std::string text = byte_level_json();
  auto parts = std::make_shared<TokenizerParts>(read_tokenizer(text, "<|endoftext|>", "the byte-level tokenizer"));
  parts->files = {{kTokenizerFile, text}, {kConfigFile, config.dump(2) + "\n"}};
  return Tokenizer(std::move(parts));
}

Tokenizer Tokenizer::parse(std::string_view tokenizer_json, const std::string& eos_token, const std::string& where) {
  auto parts = std::make_shared<TokenizerParts>(read_tokenizer(tokenizer_json, eos_token, where));
  parts->files = {{kTokenizerFile, std::string(tokenizer_json)}};
  return Tokenizer(std::move(parts));
}

Tokenizer Tokenizer::from_gguf(const std::filesystem::path& file) {
  TokenizerFiles made = gguf_tokenizer(state::GgufFile(file));
  const std::string where = file.string() + ": " + kTokenizerFile;
  auto parts = std::make_shared<TokenizerParts>(
      read_tokenizer(made.tokenizer, eos_token_of(made.tokenizer_config, where), where));
  parts->files = {{kTokenizerFile, std::move(made.tokenizer)}, {kConfigFile, std::move(made.tokenizer_config)}};
  parts->dir = file;
  return Tokenizer(std::move(parts));
}

Tokenizer Tokenizer::load(const std::filesystem::path& dir) {
  if (state::is_gguf(dir) && std::filesystem::is_regular_file(dir)) return from_gguf(dir);
  if (std::filesystem::is_regular_file(dir)) return parse(state::read_text(dir, kMaxFile_bytes), "", dir.string());
  for (const char* other : {"vocab.json", "tokenizer.model"}) {
    QRL_REQUIRE(!std::filesystem::exists(dir / other) || std::filesystem::exists(dir / kTokenizerFile),
                (dir / kTokenizerFile).string(), "a readable file", std::string("no such file, but ") + other,
                "load it with transformers' AutoTokenizer, and write the file with save_pretrained");
  }
  std::map<std::string, std::string> files = {{kTokenizerFile, state::read_text(dir / kTokenizerFile, kMaxFile_bytes)}};
  std::string eos_token;
  if (std::filesystem::exists(dir / kConfigFile)) {
    const std::string& config = files[kConfigFile] = state::read_text(dir / kConfigFile, kMaxFile_bytes);
    eos_token = eos_token_of(config, (dir / kConfigFile).string());
  }
  for (const char* name : kOtherFiles) {
    if (std::filesystem::exists(dir / name)) files[name] = state::read_text(dir / name, kMaxFile_bytes);
  }
  if (std::filesystem::is_directory(dir / kTemplates)) {
    for (const auto& entry : std::filesystem::directory_iterator(dir / kTemplates)) {
      if (entry.path().extension() != ".jinja") continue;
      const std::string name = std::string(kTemplates) + "/" + entry.path().filename().string();
      files[name] = state::read_text(entry.path(), kMaxFile_bytes);
    }
  }
  auto parts = std::make_shared<TokenizerParts>(
      read_tokenizer(files[kTokenizerFile], eos_token, (dir / kTokenizerFile).string()));
  if (parts->eos < 0) parts->eos = eos_of_model(dir, *parts);
  parts->files = std::move(files);
  parts->dir = dir;
  return Tokenizer(std::move(parts));
}

std::string Tokenizer::describe() const {
  return parts_->summary + ", ids 0 to " + std::to_string(vocab_size() - 1) +
         (eos() < 0 ? "" : ", end token " + std::to_string(eos()));
}

const std::string* Tokenizer::file(const std::string& name) const {
  const auto found = parts_->files.find(name);
  return found == parts_->files.end() ? nullptr : &found->second;
}

std::string Tokenizer::path_of(const std::string& name) const { return (parts_->dir / name).string(); }

void Tokenizer::save(const std::filesystem::path& dir) const {
  for (const auto& [name, text] : parts_->files) {
    std::filesystem::create_directories((dir / name).parent_path());
    std::ofstream out(dir / name, std::ios::binary);
    out << text;
    out.close();
    QRL_REQUIRE(!out.fail(), (dir / name).string(), "a file that can be written", "a write error");
  }
}

}  // namespace qrl::data
