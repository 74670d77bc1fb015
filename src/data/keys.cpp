#include "data/keys.h"

namespace qrl::data {

namespace {

using namespace config;
using enum config::OnResume;

constexpr std::int64_t kMaxObservationTokens = 1'048'576;

}  // namespace

void add_field_keys(config::Section<FieldNames> data) {
  using D = FieldNames;
  data.add(allow_change, "prompt_key", &D::prompt_key,
           "field that holds the prompt; a.b: field b of a; \"a, b\": the one that the row has", "prompt or question");
  data.add(allow_change, "ground_truth_key", &D::ground_truth_key,
           "field that holds the ground truth; paths and lists as for data.prompt_key",
           "ground_truth, answer or reward_model.ground_truth");
  data.add(allow_change, "data_source_key", &D::data_source_key, "field that names the row's data source",
           "data_source if present, else the file's name");
}

void add_template_keys(config::Section<TemplateOptions> data) {
  using D = TemplateOptions;
  data.add(fixed, "chat_template", &D::chat_template,
           word_or_path({kChatTemplateNames.begin(), kChatTemplateNames.end()}),
           "Jinja chat template; auto: the model's own, or plain if it has none");
  data.add(fixed, "system_prompt", &D::system_prompt, "system message of each prompt", "the template's own, if any");
  data.add(fixed, "enable_thinking", &D::enable_thinking,
           "the template's enable_thinking; with false, Qwen3's responses begin with an empty thought",
           "the template's own choice");
}

void add_observation_keys(config::Section<ObservationLimit> environment) {
  using E = ObservationLimit;
  environment.add(allow_change, "max_observation_tokens", &E::max_observation_tokens,
                  integer(16, kMaxObservationTokens), "maximum tokens per observation; longer ones are cut");
  environment.add(allow_change, "truncate", &E::truncate,
                  "part of a long observation that is left out: the middle, the left (its beginning), or the right");
}

}  // namespace qrl::data
