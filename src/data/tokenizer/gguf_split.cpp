#include "data/tokenizer/gguf_split.h"

#include <array>

namespace qrl::data {

using Json = nlohmann::ordered_json;

namespace {

/// Split patterns of the tokenizers that llama.cpp names.
constexpr const char* kSplitByThrees =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kSplitDigits =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::array kSplits = {GgufSplit{"gpt-2", nullptr, false, false, false},
                                GgufSplit{"smollm", nullptr, true, false, false},
                                GgufSplit{"llama-bpe", kSplitByThrees, false, false, true},
                                GgufSplit{"llama3", kSplitByThrees, false, false, true},
                                GgufSplit{"llama-v3", kSplitByThrees, false, false, true},
                                GgufSplit{"smaug-bpe", kSplitByThrees, false, false, true},
                                GgufSplit{"qwen2", kSplitDigits, false, true, false},
                                GgufSplit{"deepseek-r1-qwen", kSplitDigits, false, false, false}};

}  // namespace

std::span<const GgufSplit> gguf_splits() { return kSplits; }

nlohmann::ordered_json pre_tokenizer_json(const GgufSplit& split) {
  Json byte_level = {{"type", "ByteLevel"},
                     {"add_prefix_space", false},
                     {"trim_offsets", true},
                     {"use_regex", split.pattern == nullptr}};
  Json parts = Json::array();
  if (split.digits) parts.push_back({{"type", "Digits"}, {"individual_digits", true}});
  if (split.pattern != nullptr)
    parts.push_back(
        {{"type", "Split"}, {"pattern", {{"Regex", split.pattern}}}, {"behavior", "Isolated"}, {"invert", false}});
  if (parts.empty()) return byte_level;
  parts.push_back(byte_level);
  return {{"type", "Sequence"}, {"pretokenizers", parts}};
}

Json normalizer_json(const GgufSplit& split) { return split.nfc ? Json{{"type", "NFC"}} : Json(); }

}  // namespace qrl::data
