// Owns the tokenizer's files: tokenizer.json and tokenizer_config.json in and out. Every setting that would change ids
// and is not implemented is refused by name; what cannot change them without merges (the pre-tokenizer's regex, offset
// trimming) is accepted.
#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <unordered_set>

#include "base/error.h"
#include "base/text.h"
#include "data/byte_alphabet.h"
#include "data/strict_json.h"
#include "data/tokenizer.h"

namespace qrl::data {

using nlohmann::json;
using types::TokenId;

namespace {

constexpr std::uintmax_t kMaxFile_bytes = std::uintmax_t{100} << 20;
constexpr const char* kUseByteLevel = "use a byte-level tokenizer without merges, such as the one model.init writes";

/// A setting of the file that this version cannot honour.
[[noreturn]] void refuse(const std::string& where, const std::string& setting) {
  base::fail_input(where, "", setting + " is not supported yet by this version", kUseByteLevel);
}

std::string read_file(const std::filesystem::path& file) {
  std::error_code error;
  QRL_REQUIRE(std::filesystem::is_regular_file(file, error), file.string(), "a file", "none of that name");
  QRL_REQUIRE(std::filesystem::file_size(file, error) <= kMaxFile_bytes && !error, file.string(), "at most 100 MiB",
              "more");
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  QRL_REQUIRE(in.good() || in.eof(), file.string(), "a readable file", "an error while reading it");
  return std::move(text).str();
}

}  // namespace

/// Reads one tokenizer.json; throws at the first thing that is wrong or not supported.
class TokenizerReader {
 public:
  TokenizerReader(const json& root, const std::string& where) : root_(root), where_(where) {}

  Tokenizer read(const std::string& eos_token) {
    QRL_REQUIRE(root_.is_object(), where_, "a JSON object", root_.type_name());
    only_keys(root_, "",
              {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
               "decoder", "model"});
    QRL_REQUIRE(text_of(root_, "version") == "1.0", where_, "version \"1.0\"", base::quoted(text_of(root_, "version")));
    read_model();
    check_pipeline();
    read_added();
    set_bytes();
    const auto eos = std::find_if(result_.added_.begin(), result_.added_.end(),
                                  [&](const auto& added) { return added.text == eos_token; });
    QRL_REQUIRE(eos != result_.added_.end() && eos->special, where_,
                "the end token " + base::quoted(eos_token) + " among the special added tokens", "none");
    result_.eos_ = eos->id;
    return std::move(result_);
  }

 private:
  const json& field(const json& object, const char* name) const {
    static const json kNull;
    const auto found = object.find(name);
    return found == object.end() ? kNull : *found;
  }
  std::string text_of(const json& object, const char* name) const {
    const json& value = field(object, name);
    QRL_REQUIRE(value.is_string(), where_, std::string("`") + name + "` to be a string", value.type_name());
    return value.get<std::string>();
  }
  bool flag_of(const json& object, const char* name) const {  // absent: false, as in the tokenizers library
    const json& value = field(object, name);
    QRL_REQUIRE(value.is_boolean() || value.is_null(), where_, std::string("`") + name + "` to be true or false",
                value.type_name());
    return value.is_boolean() && value.get<bool>();
  }
  TokenId id_of(const json& value, const std::string& token) const {
    QRL_REQUIRE(
        value.is_number_unsigned() && value.get<std::uint64_t>() < std::uint64_t{std::numeric_limits<TokenId>::max()},
        where_, "token " + base::quoted(token) + " to have an id from 0 to 2^31 - 2", base::quoted(value.dump()));
    return static_cast<TokenId>(value.get<std::uint64_t>());
  }
  void only_keys(const json& object, const std::string& of, std::initializer_list<std::string_view> known) const {
    for (const auto& [name, value] : object.items()) {
      if (std::find(known.begin(), known.end(), name) == known.end())
        refuse(where_, of + "setting " + base::quoted(name));
    }
  }

  void read_model() {
    const json& model = field(root_, "model");
    QRL_REQUIRE(model.is_object(), where_, "an object `model`", model.type_name());
    const std::string type = text_of(model, "type");
    if (type != "BPE") refuse(where_, "model type " + base::quoted(type));
    only_keys(model, "model ",
              {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
               "byte_fallback", "ignore_merges", "vocab", "merges"});
    const json& merges = field(model, "merges");
    QRL_REQUIRE(merges.is_array(), where_, "model.merges to be an array", merges.type_name());
    if (!merges.empty()) refuse(where_, "BPE with merges");
    for (const char* name : {"byte_fallback", "ignore_merges"}) {
      if (flag_of(model, name)) refuse(where_, std::string("model.") + name);
    }
    if (!field(model, "dropout").is_null()) refuse(where_, "model.dropout");
    for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (!field(model, name).is_null() && !text_of(model, name).empty()) refuse(where_, std::string("model.") + name);
    }
    read_vocab(field(model, "vocab"));
  }

  void read_vocab(const json& vocab) {
    QRL_REQUIRE(vocab.is_object() && !vocab.empty(), where_, "model.vocab to be an object with entries",
                vocab.type_name());
    result_.vocab_.resize(vocab.size());
    std::vector<bool> taken(vocab.size());
    for (const auto& [token, value] : vocab.items()) {
      const auto id = static_cast<std::size_t>(id_of(value, token));
      QRL_REQUIRE(
          id < taken.size() && !taken[id], where_,
          "the " + std::to_string(taken.size()) + " ids of model.vocab to be 0, 1, 2, … without holes or repeats",
          base::quoted(token) + " with id " + std::to_string(id));
      taken[id] = true;
      result_.vocab_[id] = token;
    }
  }

  void check_pipeline() const {
    for (const char* name : {"truncation", "padding"}) {
      if (!field(root_, name).is_null()) refuse(where_, name);
    }
    const json& normalizer = field(root_, "normalizer");
    if (!normalizer.is_null()) refuse(where_, "normalizer " + name_of(normalizer, "normalizer"));
    check_byte_level("pre_tokenizer");
    if (flag_of(field(root_, "pre_tokenizer"), "add_prefix_space")) refuse(where_, "pre_tokenizer.add_prefix_space");
    check_byte_level("decoder");
    check_post_processor();
  }
  /// None, ByteLevel (moves offsets only), or the template that transformers writes where none was: it adds no token.
  void check_post_processor() const {
    const json& part = field(root_, "post_processor");
    if (part.is_null()) return;
    if (name_of(part, "post_processor") != "\"TemplateProcessing\"") return check_byte_level("post_processor");
    static const json kWholeText = json::parse(R"([{"Sequence":{"id":"A","type_id":0}}])");
    if (field(part, "single") != kWholeText) refuse(where_, "a post_processor that adds tokens");
  }
  std::string name_of(const json& part, const char* name) const {
    QRL_REQUIRE(part.is_object(), where_, std::string("an object `") + name + "`", part.type_name());
    return base::quoted(text_of(part, "type"));
  }
  void check_byte_level(const char* name) const {
    const json& part = field(root_, name);
    const std::string type = name_of(part, name);
    if (type != "\"ByteLevel\"") refuse(where_, std::string(name) + " " + type);
    only_keys(part, std::string(name) + " ", {"type", "add_prefix_space", "trim_offsets", "use_regex"});
    for (const char* flag : {"add_prefix_space", "trim_offsets", "use_regex"}) flag_of(part, flag);
  }

  void read_added() {
    const json& added_tokens = field(root_, "added_tokens");
    QRL_REQUIRE(added_tokens.is_array(), where_, "an array `added_tokens`", added_tokens.type_name());
    auto next_id = static_cast<TokenId>(result_.vocab_.size());
    std::unordered_set<std::string> contents;
    for (const json& entry : added_tokens) {
      QRL_REQUIRE(entry.is_object(), where_, "added_tokens to hold objects", entry.type_name());
      only_keys(entry, "added token ", {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
      Tokenizer::Added added{text_of(entry, "content"), 0, flag_of(entry, "special")};
      added.id = id_of(field(entry, "id"), added.text);
      QRL_REQUIRE(!added.text.empty(), where_, "added tokens to have content", "an empty one");
      for (const char* name : {"single_word", "lstrip", "rstrip", "normalized"}) {
        if (flag_of(entry, name)) refuse(where_, std::string(name) + " of added token " + base::quoted(added.text));
      }
      QRL_REQUIRE(contents.insert(added.text).second, where_, "each added token once",
                  base::quoted(added.text) + " twice");
      check_added_id(added, next_id);
      result_.added_.push_back(std::move(added));
    }
    std::stable_sort(result_.added_.begin(), result_.added_.end(),
                     [](const auto& a, const auto& b) { return a.text.size() > b.text.size(); });
    result_.id_to_bytes_.resize(static_cast<std::size_t>(next_id));
  }
  /// An added token either is an entry of the vocabulary under its own id or takes the next id after it: the tokenizers
  /// library would give it that id whatever the file says.
  void check_added_id(const Tokenizer::Added& added, TokenId& next_id) const {
    const json& entry = field(root_["model"]["vocab"], added.text.c_str());
    const TokenId want = entry.is_null() ? next_id++ : entry.get<TokenId>();
    QRL_REQUIRE(added.id == want, where_,
                "added token " + base::quoted(added.text) + " to have id " + std::to_string(want),
                std::to_string(added.id));
  }

  void set_bytes() {
    auto& bytes = result_.id_to_bytes_;
    std::vector<bool> is_added(bytes.size());
    for (const auto& added : result_.added_) {
      is_added[static_cast<std::size_t>(added.id)] = true;
      if (!added.special) bytes[static_cast<std::size_t>(added.id)] = added.text;
    }
    result_.byte_to_id_.assign(256, -1);
    for (std::size_t id = 0; id < result_.vocab_.size(); ++id) {
      if (is_added[id]) continue;  // also where it spells a byte: user text must not reach it
      const auto spelled = bytes_of_spelling(result_.vocab_[id]);
      QRL_REQUIRE(spelled && !spelled->empty(), where_, "vocabulary entries spelled in the byte-level alphabet",
                  base::quoted(result_.vocab_[id]));
      bytes[id] = *spelled;
      if (spelled->size() == 1)
        result_.byte_to_id_[static_cast<unsigned char>(spelled->front())] = static_cast<TokenId>(id);
    }
    for (std::size_t byte = 0; byte < 256; ++byte) {
      QRL_REQUIRE(result_.byte_to_id_[byte] >= 0, where_, "a byte-level vocabulary: a token for each of the 256 bytes",
                  "none for byte " + std::to_string(byte));
    }
  }

  const json& root_;
  const std::string& where_;
  Tokenizer result_;
};

Tokenizer Tokenizer::parse(std::string_view tokenizer_json, const std::string& eos_token, const std::string& where) {
  const json root = parse_strict_json(tokenizer_json, where);
  return TokenizerReader(root, where).read(eos_token);
}

Tokenizer Tokenizer::load(const std::filesystem::path& dir) {
  const std::filesystem::path file = dir / "tokenizer.json", config_file = dir / "tokenizer_config.json";
  const std::string text = read_file(file);
  const json root = parse_strict_json(text, file.string());
  const json config = parse_strict_json(read_file(config_file), config_file.string());
  QRL_REQUIRE(config.is_object() && config.contains("eos_token"), config_file.string(), "an object with `eos_token`",
              "none");
  const json& eos = config["eos_token"];  // a string, or the whole added token
  const json& content = eos.is_object() && eos.contains("content") ? eos["content"] : eos;
  QRL_REQUIRE(content.is_string(), config_file.string(), "`eos_token` to be a string", content.type_name());
  return TokenizerReader(root, file.string()).read(content.get<std::string>());
}

void Tokenizer::save(const std::filesystem::path& dir) const {
  using nlohmann::ordered_json;
  ordered_json vocab = ordered_json::object();
  for (std::size_t id = 0; id < vocab_.size(); ++id) vocab[vocab_[id]] = id;
  std::vector<Added> by_id = added_;
  std::sort(by_id.begin(), by_id.end(), [](const Added& a, const Added& b) { return a.id < b.id; });
  ordered_json added_tokens = ordered_json::array();
  std::string eos_text;
  for (const Added& added : by_id) {
    added_tokens.push_back({{"id", added.id},
                            {"content", added.text},
                            {"single_word", false},
                            {"lstrip", false},
                            {"rstrip", false},
                            {"normalized", false},
                            {"special", added.special}});
    if (added.id == eos_) eos_text = added.text;
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
  const ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                               {"eos_token", eos_text},
                               {"pad_token", eos_text},
                               {"clean_up_tokenization_spaces", false}};
  const auto write = [&](const char* name, const ordered_json& content) {
    std::ofstream out(dir / name, std::ios::binary);
    out << content.dump(2) << '\n';
    out.close();
    QRL_REQUIRE(!out.fail(), (dir / name).string(), "to write it", "an error");
  };
  write("tokenizer.json", tokenizer);
  write("tokenizer_config.json", config);
}

}  // namespace qrl::data
