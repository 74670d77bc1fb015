#include "data/bridge.h"

#include <algorithm>
#include <utility>

#include "base/ascii.h"
#include "base/error.h"
#include "base/text.h"
#include "data/jinja/jinja.h"

namespace qrl::data {

using Json = nlohmann::ordered_json;

namespace {

constexpr std::size_t kAnswer = 1;            ///< index of the assistant's message in a sample conversation
constexpr const char* kCallId = "call00000";  ///< nine letters and digits, which Mistral's templates require

/// Returns a call in OpenAI's form.
Json call_of(const Observation& observation) {
  const Json call = observation.call.is_null() ? Json{{"name", observation.name.empty() ? "f" : observation.name},
                                                      {"arguments", Json::object()}}
                                               : observation.call;
  return {{"id", kCallId}, {"type", "function"}, {"function", call}};
}

Message message_of_observation(const Observation& observation, const std::string& default_role) {
  Message message{observation.role.empty() ? default_role : observation.role, observation.content};
  message.fields = {{"role", message.role}, {"content", message.content}};
  if (message.role != "tool") return message;
  if (!observation.name.empty()) message.fields["name"] = observation.name;
  message.fields["tool_call_id"] = kCallId;
  return message;
}

/// Returns PROMPT and an answer, then the observations. With `has_calls`, the answer has the calls that they answer.
Conversation sample_of_turn(std::span<const Observation> observations, const BridgeOptions& options, bool has_calls) {
  Conversation conversation;
  conversation.tools = options.tools;
  conversation.messages.push_back({"user", "PROMPT"});
  Message& answer = conversation.messages.emplace_back(Message{"assistant", "ANSWER"});
  if (has_calls) {
    answer.fields = {{"role", "assistant"}, {"content", "ANSWER"}, {"tool_calls", Json::array()}};
    for (const Observation& observation : observations) answer.fields["tool_calls"].push_back(call_of(observation));
  }
  for (const Observation& observation : observations)
    conversation.messages.push_back(message_of_observation(observation, options.role));
  return conversation;
}

/// Returns the part of `text` that valid UTF-8 begins, or ends.
std::string whole_characters(std::string text, bool keeps_begin) {
  const auto is_tail = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; };
  if (!keeps_begin) {
    std::size_t begin = 0;
    while (begin < text.size() && is_tail(text[begin])) ++begin;
    return text.substr(begin);
  }
  std::size_t first = text.size();  // first byte of the last character
  while (first > 0 && is_tail(text[first - 1])) --first;
  if (first == 0) return {};
  const auto lead = static_cast<unsigned char>(text[first - 1]);
  const std::size_t size = lead < 0x80U ? 1 : lead < 0xE0U ? 2 : lead < 0xF0U ? 3 : 4;
  if (text.size() - (first - 1) < size) text.resize(first - 1);
  return text;
}

}  // namespace

Bridge::Bridge(ChatTemplate chat, const Tokenizer& tokenizer, BridgeOptions options)
    : chat_(std::move(chat)), tokenizer_(tokenizer), options_(std::move(options)) {
  if (!options_.is_chat) return;
  QRL_REQUIRE(!chat_.is_plain(), "environment.style", "continue with data.chat_template plain", "chat",
              "set environment.style: continue, or data.chat_template");
  end_of_turn_ = tokenizer_.added_token_id(chat_.of({{}, options_.tools}).end_of_turn);
  require_extension();
  const Observation one[] = {{"OBSERVATION"}};
  (void)encode(one, end_of_turn_);
}

/// Throws an input error if the prompt's text, without the answer's header, is changed by an answer and an observation.
void Bridge::require_extension() const {
  const Observation one[] = {{"OBSERVATION"}};
  Conversation prompt = sample_of_turn({}, options_, false);
  prompt.messages.pop_back();
  std::string before, after;
  try {
    RenderOptions told = options_.render;
    told.opens_answer = false;
    before = run_template(chat_, prompt, told).bytes();
  } catch (const jinja::Unsupported&) {
    return;  // a template that refuses such a prompt refuses the run's own, with their file and line
  }
  for (const bool has_calls : {false, true}) {
    try {
      after = run_template(chat_, sample_of_turn(one, options_, has_calls), options_.render).bytes();
      break;
    } catch (const jinja::Unsupported&) {
      if (has_calls) return;  // `encode` says why
    }
  }
  if (after.starts_with(before)) return;
  const auto at = static_cast<std::size_t>(std::ranges::mismatch(after, before).in1 - after.begin());
  base::fail_input("environment.role", "a chat template that leaves earlier turns as they are",
                   chat_.name + ", which writes " + base::readable(std::string_view(after).substr(at), 40) + " where " +
                       base::readable(std::string_view(before).substr(at), 40) + " was",
                   options_.role == "tool" ? "set environment.role: user, or data.chat_template to a different template"
                                           : "set data.chat_template to a different template");
}

std::vector<RenderedPart> Bridge::parts_of_sample(std::span<const Observation> observations, bool has_calls) const {
  const Conversation conversation = sample_of_turn(observations, options_, has_calls);
  RenderOptions options = options_.render;
  options.opens_answer = true;
  const Text text = run_template(chat_, conversation, options);
  std::vector<std::size_t> shown(conversation.messages.size());
  std::size_t begin = 0;
  for (const TextRun& run : text.runs()) {
    const std::int64_t message = data::message_of(run.source, conversation);
    if (message == static_cast<std::int64_t>(kAnswer)) begin = run.end;
    if (message >= 0) shown[static_cast<std::size_t>(message)] += run.end - run.begin;
  }
  if (shown[kAnswer] == 0) jinja::fail("it omits the assistant's messages");
  for (std::size_t i = kAnswer + 1; i < shown.size(); ++i) {
    const Message& message = conversation.messages[i];
    if (shown[i] == 0 && !base::trimmed(message.content).empty())
      jinja::fail("it omits messages of role " + message.role);
  }
  const std::string& end = chat_.of(conversation).end_of_turn;
  const std::size_t at = text.bytes().find(end, begin);
  if (at == std::string::npos) jinja::fail("no " + end + " follows an answer");
  std::vector<RenderedPart> parts;
  for (const TextRun& run : text.runs()) {
    if (run.end <= at) continue;
    const bool parse = options.parse_text || writer_of(run.source) == 0;
    if (parts.empty() || parts.back().parse_added_tokens != parse) parts.push_back({{}, parse, -1});
    parts.back().text.append(text.bytes(), std::max(run.begin, at), run.end - std::max(run.begin, at));
  }
  return parts;
}

/// Returns the text from the end-of-turn token on. If the template refuses observations after an answer without calls,
/// the answer gets calls.
std::vector<RenderedPart> Bridge::parts_between(std::span<const Observation> observations) const {
  try {
    return parts_of_sample(observations, false);
  } catch (const jinja::Unsupported& error) {
    try {
      return parts_of_sample(observations, true);
    } catch (const jinja::Unsupported&) {
      const std::string& role = observations.front().role.empty() ? options_.role : observations.front().role;
      base::fail_input(
          "environment.role", "a role that the chat template supports after an answer",
          role + ", with " + chat_.name + ": " + error.what(),
          role == "tool" ? "set environment.role: user" : "set data.chat_template to a different template");
    }
  }
}

std::vector<types::TokenId> Bridge::encode(std::span<const Observation> observations, types::TokenId last) const {
  std::vector<Observation> cuts(observations.begin(), observations.end());
  for (Observation& observation : cuts) observation.content = cut(observation.content);
  if (!options_.is_chat) {
    std::string all;
    for (const Observation& observation : cuts) all += observation.content;
    const TextPart part[] = {{all, options_.render.parse_text}};
    return tokenizer_.encode(part);
  }
  std::vector<types::TokenId> tokens = encode_parts(tokenizer_, parts_between(cuts));
  QRL_INVARIANT(!tokens.empty() && tokens.front() == end_of_turn_, "bridge", "the end-of-turn token first",
                tokens.empty() ? "nothing" : std::to_string(tokens.front()));
  if (last == end_of_turn_) tokens.erase(tokens.begin());
  return tokens;
}

std::string Bridge::cut(const std::string& text) const {
  if (options_.max_observation_tokens == 0) return text;
  const TextPart part[] = {{text, options_.render.parse_text}};
  const std::vector<types::TokenId> tokens = tokenizer_.encode(part);
  const std::int64_t size = std::ssize(tokens);
  if (size <= options_.max_observation_tokens) return text;
  const auto decode = [&](std::int64_t begin, std::int64_t end) {
    std::string bytes;
    for (std::int64_t i = begin; i < end; ++i) bytes += tokenizer_.bytes_of(tokens[static_cast<std::size_t>(i)], true);
    return bytes;
  };
  // The text around the note may have other tokens than in the whole text, so the kept part shrinks until it fits.
  for (std::int64_t keep = options_.max_observation_tokens; keep > 0; --keep) {
    const std::int64_t begin = options_.truncate == Truncate::middle  ? (keep + 1) / 2
                               : options_.truncate == Truncate::right ? keep
                                                                      : 0;
    const std::string note = "… " + std::to_string(size - keep) + " tokens left out …";
    const std::string cut_text =
        whole_characters(decode(0, begin), true) + note + whole_characters(decode(size - (keep - begin), size), false);
    const TextPart shorter[] = {{cut_text, options_.render.parse_text}};
    if (std::ssize(tokenizer_.encode(shorter)) <= options_.max_observation_tokens) return cut_text;
  }
  return {};  // not even the note fits
}

}  // namespace qrl::data
