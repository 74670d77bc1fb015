#include "data/chat_description.h"

#include <algorithm>

#include "base/error.h"
#include "base/readable.h"
#include "data/chat_template.h"
#include "data/conversation.h"

namespace qrl::data {

namespace {

std::string marked(const Text& text) {
  std::string shown;
  bool is_data = false;
  const auto turn_to = [&](bool data) {
    shown += data == is_data ? "" : data ? "«" : "»";
    is_data = data;
  };
  for (const TextRun& run : text.runs()) {
    turn_to(writer_of(run.source) != 0);
    shown += text.bytes(run);
  }
  turn_to(false);
  return base::readable(shown, 1000);
}

std::string describe_tools(const ChatTemplate& chat) {
  const auto json = [](const char* text) { return nlohmann::ordered_json::parse(text); };
  const Conversation conversation = read_conversation(
      json(R"([{"role":"user","content":"u"},{"role":"assistant","content":"","tool_calls":[{"name":"f","arguments":)"
           R"({"x":1}}]},{"role":"tool","name":"f","content":"a"},{"role":"assistant","content":"b"}])"),
      json(R"([{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":)"
           R"({"x":{"type":"integer","description":"e"}}}}}])"),
      "messages", "check chat");
  try {
    (void)render_conversation(chat, conversation, {}, "check chat");
    return "shown, with their calls and answers";
  } catch (const base::Error&) {
    return "no form for them";
  }
}

std::string describe_extension(const ChatTemplate& chat) {
  const auto prompt = [&](const char* answer) {
    return run_template(chat, sample_turns(answer), {.opens_answer = true}).bytes();
  };
  const std::string answer = "<think>\nT\n</think>\n\nA", opening = "<think>\n", before = prompt("");
  const std::string want = before + answer.substr(before.ends_with(opening) ? opening.size() : 0);
  const std::string after = prompt(answer.c_str());
  if (after.starts_with(want)) return "is extended by later turns";
  const auto at = static_cast<std::size_t>(std::ranges::mismatch(after, want).in1 - after.begin());
  const auto rest = [at](const std::string& text) { return base::readable(std::string_view(text).substr(at), 40); };
  return "is changed by later turns: " + rest(after) + " where " + rest(want) + " was";
}

}  // namespace

std::string describe_chat(const Tokenizer& tokenizer) {
  const ChatTemplate chat = choose_template({}, tokenizer);
  if (chat.is_plain()) return "chat template plain: a prompt is its text alone";
  const auto prompt = [&](bool has_system, std::optional<bool> thinking) {
    return marked(run_template(chat, sample_turns("", has_system), {.opens_answer = true, .thinking = thinking}));
  };
  std::string lines = "chat template " + chat.name + "\n  prompt          " + prompt(false, {});
  if (has_thinking(chat))
    lines += "\n  thinking true   " + prompt(false, true) + "\n  thinking false  " + prompt(false, false);
  const std::string fault = fault_of_system(chat);
  lines += "\n  system message  " + (fault.empty() ? prompt(true, {}) : "not shown by " + fault);
  lines += "\n  end of a turn   " + chat.end_of_turn + " (token " +
           std::to_string(tokenizer.added_token_id(chat.end_of_turn)) + ")";
  lines += "\n  tools           " + describe_tools(chat);
  return lines + "\n  earlier text    " + describe_extension(chat);
}

}  // namespace qrl::data
