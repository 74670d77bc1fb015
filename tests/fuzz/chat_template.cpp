// Fuzzes a tokenizer_config.json, or the text of a chat_template.jinja if the input looks like one. A template is
// either refused, or renders a conversation for generation and for training.
#include "data/chat_template.h"

#include "data/conversation.h"
#include "target.h"

using namespace qrl;

namespace {

std::filesystem::path folder_with_tokenizer() {
  data::Tokenizer::byte_level().save(fuzz::work_folder());
  return fuzz::work_folder();
}

bool is_jinja(std::string_view text) {
  return text.starts_with("{%") || text.starts_with("{{") || text.starts_with("{#") || !text.starts_with('{');
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t num_bytes) {
  static const std::filesystem::path folder = folder_with_tokenizer();
  const std::string_view text = fuzz::text_of(data, num_bytes);
  const auto jinja = folder / "chat_template.jinja", config = folder / "tokenizer_config.json";
  if (is_jinja(text)) {
    fuzz::write_file(config, R"({"eos_token":"<|endoftext|>"})");
    fuzz::write_file(jinja, text);
  } else {
    fuzz::write_file(config, text);
    std::filesystem::remove(jinja);
  }
  fuzz::accepts([&] {
    const data::Tokenizer tokenizer = data::Tokenizer::load(folder);
    const data::ChatTemplate chat = data::choose_template({}, tokenizer);
    if (chat.is_plain()) return;
    data::Conversation conversation;
    conversation.messages = {{"user", std::string(text.substr(0, 40))}, {"assistant", "a"}, {"user", "b"}};
    for (const bool learns : {true, false}) {
      const auto rendered = data::render_conversation(chat, conversation, {!learns, learns}, "fuzz");
      std::size_t length = 0;
      for (const data::RenderedPart& part : rendered.parts) length += part.text.size();
      fuzz::require(length > 0, "a text that shows its messages");
    }
  });
  return 0;
}
