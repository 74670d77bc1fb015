#include "report/sample_text.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "report/samples.h"

namespace qrl::report {

namespace {

using Json = nlohmann::ordered_json;

struct Judged {
  const Json* group;
  const Json* sample;
  std::size_t prompt;  ///< the group's index
  double score;        ///< NaN without a score
  std::size_t turn;    ///< earlier responses of the same prompt and score
};

double number_in(const Json& json, const char* name) {
  return json[name].is_number() ? json[name].get<double>() : kNan;
}

std::vector<Judged> responses_of(const Json& groups) {
  std::vector<Judged> all;
  std::map<std::pair<std::size_t, double>, std::size_t> turns;
  for (std::size_t prompt = 0; prompt < groups.size(); ++prompt) {
    for (const Json& sample : groups[prompt]["samples"]) {
      const double score = number_in(sample, "score");
      const std::size_t turn = std::isfinite(score) ? turns[{prompt, score}]++ : 0;
      all.push_back({&groups[prompt], &sample, prompt, score, turn});
    }
  }
  return all;
}

/// Keeps the chosen responses, in the order in which they are shown.
void choose(std::vector<Judged>& all, const SampleChoice& choice) {
  const std::size_t count = std::min(choice.count, all.size());
  if (choice.order == SampleChoice::Order::spread) {
    for (std::size_t i = 0; i < count; ++i) all[i] = all[i * all.size() / count];
  } else {
    const double sign = choice.order == SampleChoice::Order::best ? -1 : 1;
    const auto key = [&](const Judged& one) {
      const double score = std::isfinite(one.score) ? sign * one.score : std::numeric_limits<double>::infinity();
      return std::tuple(score, one.turn, one.prompt);
    };
    std::ranges::stable_sort(all, [&](const Judged& a, const Judged& b) { return key(a) < key(b); });
  }
  all.erase(all.begin() + static_cast<std::ptrdiff_t>(count), all.end());
}

std::string figure(const char* name, double value) {
  return std::isfinite(value) ? base::format(", %s %.6g", name, value) : "";
}

/// Returns lines that begin with a label and a bar, so that a response cannot look like the report's own text.
std::string labeled(const char* label, const std::string& text) {
  std::string lines;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines += base::format("%-9s| ", at == 0 ? label : "") + text.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return lines;
}

std::string verdict_of(const Json& sample) {
  std::string text = sample["reason"].get<std::string>();
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  if (const auto extracted = sample["extracted"].get<std::string>(); !extracted.empty()) add("extracted: " + extracted);
  for (const auto& [name, value] : sample["score_parts"].items())
    add(name + base::format(" %.6g", value.get<double>()));
  return text;
}

/// Returns the response, or each turn and what the environment answered.
std::string response_of(const Json& sample) {
  if (!sample.contains("turns")) return labeled("response", sample["response"].get<std::string>());
  std::string text;
  std::size_t number = 0;
  for (const Json& turn : sample["turns"]) {
    text += labeled(("turn " + std::to_string(++number)).c_str(), turn["drawn"].get<std::string>());
    if (const auto answer = turn["observation"].get<std::string>(); !answer.empty())
      text += labeled("observed", answer);
  }
  return text;
}

std::string shown(const Judged& one, std::size_t number, std::size_t num_prompts) {
  const Json& sample = *one.sample;
  std::string text = base::format("\n%zu. prompt %zu of %zu", number, one.prompt + 1, num_prompts);
  if (const double index = number_in(sample, "sample"); std::isfinite(index))
    text += base::format(", sample %g", index);
  text += figure("score", one.score);
  const double reward = number_in(sample, "reward");
  if (reward != one.score) text += figure("reward", reward);
  text += figure("advantage", number_in(sample, "advantage"));
  const double tokens = number_in(sample, "response_tokens");
  if (std::isfinite(tokens)) text += base::format(", %g tokens", tokens);
  if (sample["stop"] == "length") text += ", truncated";
  text += "\n" + labeled("prompt", (*one.group)["prompt"].get<std::string>());
  text += response_of(sample);
  if (const auto answer = (*one.group)["ground_truth"].get<std::string>(); !answer.empty())
    text += labeled("answer", answer);
  if (const std::string verdict = verdict_of(sample); !verdict.empty()) text += labeled("verdict", verdict);
  return text;
}

/// Returns "1 to 4, 8" of 1, 2, 3, 4, 8.
std::string listed(const std::vector<SampleFile>& files) {
  std::string text;
  for (std::size_t i = 0; i < files.size();) {
    std::size_t end = i + 1;
    while (end < files.size() && files[end].step == files[end - 1].step + 1) ++end;
    text += (i == 0 ? "" : ", ") + std::to_string(files[i].step);
    if (end - i > 1) text += (end - i == 2 ? ", " : " to ") + std::to_string(files[end - 1].step);
    i = end;
  }
  return text;
}

SampleFile file_of(const RunFiles& run, const SampleChoice& choice) {
  const std::filesystem::path dir = run.dir / (choice.held_out ? "validation" : "rollouts");
  const std::vector<SampleFile> files = sample_files(dir);
  QRL_REQUIRE(!files.empty(), dir.string(), "files step_N.jsonl with responses", "none",
              choice.held_out ? "a run writes them at each evaluation if eval.dump is above 0"
                              : "a run writes them each step unless trainer.rollout_dump is false");
  if (!choice.step) return files.back();
  const auto found = std::ranges::find(files, *choice.step, &SampleFile::step);
  QRL_REQUIRE(found != files.end(), "--step", "a step with responses in " + dir.string() + ": " + listed(files),
              std::to_string(*choice.step));
  return *found;
}

}  // namespace

std::string samples_text(const RunFiles& run, const SampleChoice& choice) {
  const SampleFile file = file_of(run, choice);
  const Json groups = read_groups(file.path, std::numeric_limits<std::size_t>::max());
  std::vector<Judged> all = responses_of(groups);
  QRL_REQUIRE(!all.empty(), file.path.string(), "rows with a response", "none");
  const std::size_t num_all = all.size();
  choose(all, choice);
  constexpr const char* kOrders[] = {"", ", highest score first", ", lowest score first"};
  std::string text = run.dir.string() + ", step " + std::to_string(file.step) + ": " + std::to_string(all.size()) +
                     " of " + std::to_string(num_all) + (choice.held_out ? " held-out" : "") + " responses" +
                     kOrders[static_cast<std::size_t>(choice.order)] + "\n";
  for (std::size_t i = 0; i < all.size(); ++i) text += shown(all[i], i + 1, groups.size());
  return base::printable(text);
}

}  // namespace qrl::report
