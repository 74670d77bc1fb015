#include "tasks/command/protocol.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "config/words.h"
#include "state/json.h"
#include "tasks/command/process.h"

namespace qrl::tasks {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::size_t kMaxScores = 64;

bool fits_float(double value) { return std::abs(value) <= std::numeric_limits<float>::max(); }

bool read_flag(const ordered_json& ready, const char* name) {
  const auto found = ready.find(name);
  if (found == ready.end()) return false;
  QRL_REQUIRE(found->is_boolean(), kCommandKey, std::string("true or false for ") + name + " in the ready line",
              found->dump());
  return found->get<bool>();
}

void add_score(const std::string& name, const ordered_json& weight, const std::string& key, NamedScores& out) {
  QRL_REQUIRE(config::is_score_name(name), key,
              "score names of 1 to 64 letters, digits and . _ - @ + in the ready line", base::quoted(name));
  QRL_REQUIRE(std::ranges::find(out.scores, name) == out.scores.end(), key, "each score once in the ready line",
              base::quoted(name) + " twice");
  QRL_REQUIRE(weight.is_number() && fits_float(weight.get<double>()), key,
              "a number as the weight of " + base::quoted(name) + ", within the range of a float", weight.dump());
  out.scores.push_back(name);
  out.weights.push_back(weight.get<double>());
}

/// Reads a number that fits fp32, a boolean, or null (NaN: the score does not apply). Returns none for other values.
std::optional<double> read_score(const json& value) {
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (value.is_boolean()) return value.get<bool>() ? 1.0 : 0.0;
  if (!value.is_number() || !fits_float(value.get<double>())) return std::nullopt;
  return value.get<double>();
}

/// Returns the score by which a program says whether a response is correct, such as veRL's `acc`; NaN without one.
double score_of_outcome(const NamedScores& ready, const std::vector<double>& scores) {
  for (const char* name : {"correct", "acc"}) {
    const auto known = std::ranges::find(ready.scores, name);
    if (known != ready.scores.end()) return scores[static_cast<std::size_t>(known - ready.scores.begin())];
  }
  return std::numeric_limits<double>::quiet_NaN();
}

/// Sets outcome and has_outcome; returns false for an invalid outcome.
bool read_outcome(const json& answer, const NamedScores& ready, double correct_at, Verdict& verdict) {
  const auto found = answer.find("outcome");
  if (found == answer.end() || found->is_null()) {
    const double own = score_of_outcome(ready, verdict.scores);
    const bool is_given = correct_at != kUsualCorrectAt;
    const bool has_own = !std::isnan(own) && !is_given;
    verdict.has_outcome = has_own || is_given;
    const bool correct = has_own ? own >= 1 : verdict.scores.front() >= correct_at;
    verdict.outcome = correct ? Outcome::correct : Outcome::wrong;
    return true;
  }
  for (const Outcome outcome : {Outcome::correct, Outcome::wrong, Outcome::no_answer}) {
    if (*found != name_of(outcome)) continue;
    verdict.outcome = outcome;
    return true;
  }
  return false;
}

std::optional<std::string> read_text(const json& answer, const char* name) {
  const auto found = answer.find(name);
  if (found == answer.end() || found->is_null()) return std::string();
  if (!found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

}  // namespace

bool read_scores(const json& answer, const NamedScores& named, std::vector<double>& scores) {
  scores.assign(named.scores.size(), std::numeric_limits<double>::quiet_NaN());
  const auto put = [&](std::size_t k, const json& value) {
    const std::optional<double> score = read_score(value);
    if (score) scores[k] = *score;
    return score.has_value();
  };
  const auto one = answer.find("score"), several = answer.find("scores");
  if (one != answer.end()) return several == answer.end() && named.scores.size() == 1 && put(0, *one);
  if (several == answer.end() || !several->is_object()) return false;
  for (const auto& [name, value] : several->items()) {
    const auto known = std::ranges::find(named.scores, name);
    if (known == named.scores.end()) return false;
    if (!put(static_cast<std::size_t>(known - named.scores.begin()), value)) return false;
  }
  return true;
}

Verdict failed_verdict(std::string_view reason, std::string detail) {
  Verdict verdict{Outcome::no_answer, reason, true};
  verdict.detail = std::move(detail);
  return verdict;
}

NamedScores read_named_scores(const ordered_json& ready, const std::string& key) {
  NamedScores out;
  const ordered_json scores = ready.value("scores", ordered_json());
  if (scores.is_array()) {
    for (const ordered_json& name : scores) {
      QRL_REQUIRE(name.is_string(), key, "names in scores of the ready line", name.dump());
      add_score(name.get<std::string>(), 1, key, out);
    }
  } else if (scores.is_object()) {
    for (const auto& [name, weight] : scores.items()) add_score(name, weight, key, out);
  }
  return out;
}

std::vector<double> chosen_weights(const NamedScores& named, const std::map<std::string, double>& given) {
  std::vector<double> all = named.weights;
  for (const auto& [name, weight] : given) {
    const auto known = std::ranges::find(named.scores, name);
    QRL_REQUIRE(known != named.scores.end(), "reward.weights",
                "names among the command's scores: " + base::joined(named.scores, ", "), name);
    all[static_cast<std::size_t>(known - named.scores.begin())] = weight;
  }
  QRL_REQUIRE(std::ranges::any_of(all, [](double weight) { return weight != 0; }), "reward.weights",
              "a score with a weight other than 0 (the command's scores: " + base::joined(named.scores, ", ") + ")",
              "only weights of 0", "every response would score 0");
  return all;
}

std::vector<std::string> read_notes(const ordered_json& ready, const std::string& key) {
  const ordered_json notes = ready.value("notes", ordered_json::array());
  QRL_REQUIRE(notes.is_array() && std::ranges::all_of(notes, [](const auto& note) { return note.is_string(); }), key,
              "a list of texts for notes in the ready line", notes.dump());
  std::vector<std::string> texts;
  for (const ordered_json& note : notes) texts.push_back(note.get<std::string>());
  return texts;
}

CommandReady read_ready(const std::string& text) {
  const ordered_json ready = state::parse_ordered_json(text, kCommandKey);
  CommandReady out;
  static_cast<NamedScores&>(out) = read_named_scores(ready, kCommandKey);
  QRL_REQUIRE(!out.scores.empty() && out.scores.size() <= kMaxScores, kCommandKey,
              "scores of the ready line: a list of 1 to 64 names, or an object of names and weights",
              base::quoted(ready.value("scores", ordered_json()).dump(), 200));
  const ordered_json fields = ready.value("fields", ordered_json::array());
  QRL_REQUIRE(fields.is_array(), kCommandKey, "a list for fields in the ready line", fields.dump());
  for (const ordered_json& field : fields) {
    const std::pair<const char*, bool*> known[] = {{"row", &out.wants_row},
                                                   {"tokens", &out.wants_tokens},
                                                   {"prompt_tokens", &out.wants_prompt_tokens},
                                                   {"index", &out.wants_index}};
    const auto* found = std::ranges::find_if(known, [&](const auto& one) { return field == one.first; });
    QRL_REQUIRE(found != std::end(known), kCommandKey,
                "row, tokens, prompt_tokens or index in fields of the ready line", fields.dump());
    *found->second = true;
  }
  out.checks_gold = read_flag(ready, "checks_gold");
  const ordered_json rows = ready.value("rows", ordered_json("sample"));
  QRL_REQUIRE(rows == "sample" || rows == "group", kCommandKey, "sample or group for rows in the ready line",
              rows.dump());
  out.takes_groups = rows == "group";
  const ordered_json reads = ready.value("reads", ordered_json::object());
  QRL_REQUIRE(reads.is_object(), kCommandKey, "an object for reads in the ready line", reads.dump());
  for (const auto& [name, words] : reads.items()) {
    QRL_REQUIRE(words.is_null() || words.is_string(), kCommandKey, "texts or null in reads of the ready line",
                words.dump());
    out.reads.emplace_back(name, words.is_null() ? std::nullopt : std::optional(words.get<std::string>()));
  }
  out.notes = read_notes(ready, kCommandKey);
  return out;
}

void append_text(std::string_view text, std::string& line) {
  line += json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string question_fields(const Question& question, bool with_row) {
  std::string line = "\"prompt\":";
  append_text(question.prompt, line);
  line += ",\"ground_truth\":";
  if (question.ground_truth_json.empty()) append_text(question.ground_truth, line);
  else line += question.ground_truth_json;
  line += ",\"data_source\":";
  append_text(question.data_source, line);
  if (with_row) line += ",\"row\":" + std::string(question.row.empty() ? "{}" : question.row);
  return line;
}

std::string hello_line(std::uint64_t seed, const std::string& run, const Question* first) {
  std::string line = R"({"hello":{"protocol":1,"task":"reward","seed":)" + std::to_string(seed) + ",\"run\":";
  append_text(run, line);
  line += ",\"first\":";
  line += first == nullptr ? "null" : "{" + question_fields(*first, true) + "}";
  return line + "}}\n";
}

void append_ids(std::span<const types::TokenId> ids, std::string& line) {
  line += "[";
  for (std::size_t i = 0; i < ids.size(); ++i) line += (i > 0 ? "," : "") + std::to_string(ids[i]);
  line += "]";
}

void append_response(const Sample& sample, const CommandReady& ready, const Verdict* before, std::string& line) {
  line += "\"response\":";
  append_text(sample.response, line);
  line += sample.stop == types::StopReason::eos ? R"(,"stop":"eos")" : R"(,"stop":"length")";
  line += ",\"response_tokens\":" + std::to_string(sample.tokens.size());
  if (ready.wants_tokens) append_ids(sample.tokens, line += ",\"tokens\":");
  if (ready.wants_index) line += ",\"index\":" + std::to_string(sample.index);
  if (before == nullptr) return;
  line += std::string(R"(,"verdict":{"score":)") + (before->outcome == Outcome::correct ? "1" : "0") +
          R"(,"outcome":")" + name_of(before->outcome) + R"(","reason":)";
  append_text(before->reason, line);
  line += ",\"extracted\":";
  append_text(before->extracted, line);
  line += "}";
}

std::optional<Verdict> verdict_of(const json& answer, const NamedScores& named, std::vector<double> scores,
                                  double correct_at) {
  Verdict verdict;
  verdict.scores = std::move(scores);
  const auto reason = read_text(answer, "reason"), extracted = read_text(answer, "extracted");
  if (!reason || !extracted || !read_outcome(answer, named, correct_at, verdict)) return std::nullopt;
  const bool applies = std::ranges::any_of(verdict.scores, [](double score) { return !std::isnan(score); });
  if (!applies) return failed_verdict("error", "no score applies: all are null or NaN");
  verdict.reason = name_of(verdict.outcome);
  verdict.detail = *reason;
  verdict.extracted = reward::shown(*extracted);
  return verdict;
}

std::optional<Verdict> read_answer(const json& answer, const CommandReady& ready, double correct_at) {
  if (!answer.is_object()) return std::nullopt;
  if (const auto error = answer.find("error"); error != answer.end())
    return error->is_string() ? std::optional(failed_verdict("error", error->get<std::string>())) : std::nullopt;
  std::vector<double> scores;
  if (!read_scores(answer, ready, scores)) return std::nullopt;
  return verdict_of(answer, ready, std::move(scores), correct_at);
}

}  // namespace qrl::tasks
