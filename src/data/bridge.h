#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/conversation.h"
#include "data/tokenizer.h"

namespace qrl::data {

/// Says which part of a text is left out.
enum class Truncate : std::uint8_t { middle, left, right };
constexpr std::string_view words_of(Truncate) { return "middle | left | right"; }

/// Holds the keys of an observation's length, which data/keys.h declares.
struct ObservationLimit {
  std::int64_t max_observation_tokens = 512;  ///< 0: no limit
  Truncate truncate = Truncate::middle;
};

struct BridgeOptions : ObservationLimit {
  bool is_chat = true;                             ///< if unset, an observation's text continues the answer
  std::string role = "tool";                       ///< role of observations that name none: tool or user
  RenderOptions render = {};                       ///< how prompts are rendered
  std::vector<nlohmann::ordered_json> tools = {};  ///< tools of the prompts
};

struct Observation {
  std::string content;
  std::string role = {};                  ///< "": BridgeOptions::role
  std::string name = {};                  ///< the tool's name; "": unknown
  nlohmann::ordered_json call = nullptr;  ///< the call that it answers, {"name", "arguments"}; null: unknown
};

/// Encodes what stands between an answer and the next one: with a chat template, what it writes after an answer's
/// end-of-turn token. That text is tokenized as one, from the end-of-turn token on.
class Bridge {
 public:
  /// Throws an input error if the template refuses observations of the role, omits them, or changes earlier turns.
  Bridge(ChatTemplate chat, const Tokenizer& tokenizer, BridgeOptions options);

  /// Returns the tokens after an answer whose last token is `last`. Includes the end-of-turn token unless it is `last`.
  std::vector<types::TokenId> encode(std::span<const Observation> observations, types::TokenId last) const;
  /// Returns the observation's text, of at most max_observation_tokens tokens. The text left out is replaced by a note.
  std::string cut(const std::string& text) const;
  /// Returns the end-of-turn token; −1 if observations continue the answer.
  types::TokenId end_of_turn() const { return end_of_turn_; }

 private:
  std::vector<RenderedPart> parts_between(std::span<const Observation> observations) const;
  std::vector<RenderedPart> parts_of_sample(std::span<const Observation> observations, bool has_calls) const;
  void require_extension() const;

  ChatTemplate chat_;
  Tokenizer tokenizer_;
  BridgeOptions options_;
  types::TokenId end_of_turn_ = -1;
};

}  // namespace qrl::data
