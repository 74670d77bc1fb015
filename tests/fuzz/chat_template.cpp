// A tokenizer_config.json, or (when it begins like one) the text of a chat_template.jinja: the template is recognized
// or refused, and what is recognized writes prompts.
#include "data/chat_template.h"

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
    const data::ChatTemplate chat = data::recognize_template(tokenizer);
    data::ChatPrompt prompt;
    prompt.text = text.substr(0, 40);
    for (const bool thinking : {true, false}) {
      for (const std::string_view system : {"", "be brief"}) {
        prompt.system = system;
        fuzz::require(data::encode_chat(chat, tokenizer, prompt, thinking).size() >= prompt.text.size(),
                      "a prompt holds its text");
      }
    }
  });
  return 0;
}
