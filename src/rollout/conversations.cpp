#include "rollout/conversations.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "base/text.h"
#include "types/turns.h"

namespace qrl::rollout {

namespace {

using tasks::EnvironmentAnswer;
using tasks::EnvironmentRequest;
using tasks::SessionFault;

constexpr double kMostWait_s = 0.1;
constexpr std::int64_t kFirstConversations = 16;

const char* reason_of(SessionFault fault) {
  switch (fault) {
    case SessionFault::timeout:
      return "timeout";
    case SessionFault::crashed:
      return "crashed";
    case SessionFault::none:
    case SessionFault::protocol:
      break;
  }
  return "protocol";
}

/// Owns the state of a call of collect_conversations. Session i of the environment plays sample i.
class Conversations final : public types::TurnPartner {
 public:
  Conversations(std::span<const PromptRequest> prompts, std::int32_t n, const types::SamplingParams& params,
                types::SampleKey key, const ConversationSettings& settings, const tasks::JudgeContext& context)
      : params_(params), settings_(settings), context_(context), environment_(*settings.environment) {
    for (const auto& [prompt, first_sample] : prompts) {
      for (std::int32_t i = 0; i < n; ++i) {
        states_.emplace_back().prompt = prompt;
        const std::uint64_t seed = conversation_seed(key, prompt->id, first_sample + i);
        QRL_INVARIANT(prompt->start != nullptr, "environment", "prompts that were read for it", "another prompt");
        environment_.sessions().open(
            EnvironmentRequest::start,
            tasks::start_fields(prompt->start->fields, seed, context.step, context.is_evaluation));
        states_.back().waits_since_s = base::now_s();
      }
    }
  }

  void end_turn(std::size_t sample, const types::Completion& so_far) override;
  std::vector<types::TurnReply> take_replies(bool may_wait) override;
  /// Waits until the environment has answered all requests.
  void finish_open() {
    while (environment_.sessions().num_open() > 0) (void)take_replies(true);
  }
  /// Moves the conversations to the rollouts of all samples.
  void give_to(std::vector<Rollout>& rollouts);

 private:
  enum class Phase : std::uint8_t { starts, samples, waits, ends, over };
  struct State {
    const types::Prompt* prompt = nullptr;
    std::shared_ptr<types::Prompt> own_prompt;
    Conversation conversation;
    Phase phase = Phase::starts;
    double waits_since_s = 0;
    std::vector<double> scores;  ///< sums over steps; NaN: no step has the score
    std::size_t num_tokens = 0;  ///< of the completion at the end of its last turn
    std::size_t turn_begin = 0;  ///< first token of the turn that is sampled
    types::TokenId last_token = -1;
    bool is_last_turn = false;
    bool is_cut = false;  ///< an observation did not fit
  };

  std::int64_t turn_limit(std::size_t num_tokens) const;
  void take(std::size_t sample, const EnvironmentAnswer& answer);
  void start(std::size_t sample, const EnvironmentAnswer& answer);
  void go_on(std::size_t sample, const EnvironmentAnswer& answer);
  void stop_playing(std::size_t sample, std::string detail);
  void send_end(std::size_t sample, const char* why);
  void finish(std::size_t sample, const std::string& closing);
  void fail(std::size_t sample, const std::string& reason, std::string detail);
  void end_sample(std::size_t sample);
  void check_errors() const;
  void count_first(bool is_error);

  const types::SamplingParams& params_;
  const ConversationSettings& settings_;
  const tasks::JudgeContext& context_;
  tasks::Environment& environment_;
  std::vector<State> states_;
  std::vector<types::TurnReply> replies_;
  std::int64_t num_errors_ = 0, num_first_ = 0, num_first_errors_ = 0;
  std::string last_detail_;
};

std::int64_t Conversations::turn_limit(std::size_t num_tokens) const {
  const std::int64_t all = params_.max_new_tokens;
  if (!settings_.max_turn_tokens) return all;
  return std::min(all, static_cast<std::int64_t>(num_tokens) + *settings_.max_turn_tokens);
}

std::vector<types::TurnReply> Conversations::take_replies(bool may_wait) {
  const bool waits = may_wait && replies_.empty();
  for (const tasks::SessionEvent& event : environment_.sessions().take_events(waits ? kMostWait_s : 0)) {
    State& state = states_.at(event.session);
    if (state.phase == Phase::over && event.fault == SessionFault::none) continue;  // answers the end of a failed one
    if (state.phase != Phase::samples && state.phase != Phase::over)
      state.conversation.wait_s += base::now_s() - state.waits_since_s;
    if (event.fault != SessionFault::none) fail(event.session, reason_of(event.fault), event.detail);
    else if (event.answer.kind == EnvironmentAnswer::Kind::error) fail(event.session, "error", event.answer.text);
    else take(event.session, event.answer);
  }
  if (context_.pause) context_.pause();
  return std::exchange(replies_, {});
}

void Conversations::take(std::size_t sample, const EnvironmentAnswer& answer) {
  State& state = states_[sample];
  if (state.scores.empty()) state.scores.assign(answer.scores.size(), std::numeric_limits<double>::quiet_NaN());
  for (std::size_t k = 0; k < answer.scores.size(); ++k) {
    if (std::isnan(answer.scores[k])) continue;
    state.scores[k] = std::isnan(state.scores[k]) ? answer.scores[k] : state.scores[k] + answer.scores[k];
  }
  Conversation& conversation = state.conversation;
  conversation.num_calls += answer.num_calls;
  conversation.num_call_errors += answer.num_call_errors;
  if (!conversation.turns.empty() && !answer.calls.empty()) conversation.turns.back().calls = answer.calls;
  if (state.phase == Phase::starts) return start(sample, answer);
  if (answer.kind == EnvironmentAnswer::Kind::goes_on) return go_on(sample, answer);
  if (state.phase == Phase::waits) conversation.end = "done";
  finish(sample, answer.closing);
}

void Conversations::start(std::size_t sample, const EnvironmentAnswer& answer) {
  State& state = states_[sample];
  types::TurnReply reply{sample, false, {}, {}, turn_limit(0)};
  if (!answer.messages.empty() && !answer.messages.front().content.empty()) {
    state.own_prompt = std::make_shared<types::Prompt>(*state.prompt);
    const std::string& text = answer.messages.front().content;
    state.own_prompt->tokens = settings_.prompt_with(*state.prompt, text);
    state.own_prompt->text += text;
    state.prompt = state.own_prompt.get();
    const auto size = static_cast<std::int64_t>(state.prompt->tokens.size());
    if (size > settings_.max_prompt_tokens) {
      return stop_playing(sample, "the prompt with the environment's first observation has " + std::to_string(size) +
                                      " tokens; data.max_prompt_length is " +
                                      std::to_string(settings_.max_prompt_tokens));
    }
    reply.prompt = state.prompt->tokens;
  }
  state.phase = Phase::samples;
  replies_.push_back(std::move(reply));
}

void Conversations::end_turn(std::size_t sample, const types::Completion& so_far) {
  State& state = states_.at(sample);
  if (state.phase == Phase::over) return end_sample(sample);  // it failed during the turn
  Conversation& conversation = state.conversation;
  Turn& turn = conversation.turns.emplace_back();
  turn.end = so_far.tokens.size();
  turn.begin = state.turn_begin;
  state.num_tokens = turn.end;
  state.last_token = so_far.tokens.back();
  const bool has_end_token = std::ranges::find(params_.stop_tokens, state.last_token) != params_.stop_tokens.end();
  const bool is_cut = so_far.stop == types::StopReason::length;
  turn.stop = is_cut ? "length" : has_end_token ? "eos" : "stop";
  const auto tokens = std::span(so_far.tokens).subspan(turn.begin);
  turn.sampled = settings_.tokenizer.decode(has_end_token && !is_cut ? tokens.first(tokens.size() - 1) : tokens);
  const auto num_turns = std::ssize(conversation.turns);
  const bool is_full = std::cmp_greater_equal(turn.end + 1, params_.max_new_tokens);
  state.is_cut = is_cut;
  state.is_last_turn = is_cut || is_full || num_turns >= environment_.options().max_turns;
  environment_.sessions().send(sample, EnvironmentRequest::step,
                               tasks::step_fields(num_turns, turn.sampled, turn.stop, state.is_last_turn));
  state.phase = Phase::waits;
  state.waits_since_s = base::now_s();
}

void Conversations::go_on(std::size_t sample, const EnvironmentAnswer& answer) {
  State& state = states_[sample];
  const bool is_full = std::cmp_greater_equal(state.num_tokens + 1, params_.max_new_tokens);
  if (state.is_last_turn) return send_end(sample, state.is_cut || is_full ? "length" : "max_turns");
  std::vector<data::Observation> observations;
  std::string shown;
  for (const tasks::EnvironmentMessage& message : answer.messages) {
    data::Observation& one = observations.emplace_back(
        data::Observation{settings_.bridge->cut(message.content), message.role, message.name, nullptr});
    if (!message.call.empty()) one.call = nlohmann::ordered_json::parse(message.call);
    shown += (shown.empty() ? "" : "\n") + one.content;
  }
  std::vector<types::TokenId> tokens;
  try {
    tokens = settings_.bridge->encode(observations, state.last_token);
  } catch (const base::Error& error) {
    return stop_playing(sample, error.what());
  }
  if (std::cmp_greater_equal(state.num_tokens + tokens.size(), params_.max_new_tokens)) {
    state.is_cut = true;
    return send_end(sample, "length");
  }
  state.conversation.turns.back().observation = std::move(shown);
  state.phase = Phase::samples;
  state.turn_begin = state.num_tokens + tokens.size();
  const std::int64_t limit = turn_limit(state.turn_begin);
  replies_.push_back({sample, false, {}, std::move(tokens), limit});
}

/// Fails a conversation whose last answer cannot be used, and tells the environment that it is over.
void Conversations::stop_playing(std::size_t sample, std::string detail) {
  fail(sample, "error", std::move(detail));
  environment_.sessions().send(sample, EnvironmentRequest::end, tasks::end_fields("length"));
}

void Conversations::send_end(std::size_t sample, const char* why) {
  State& state = states_[sample];
  state.conversation.end = why;
  environment_.sessions().send(sample, EnvironmentRequest::end, tasks::end_fields(why));
  state.phase = Phase::ends;
  state.waits_since_s = base::now_s();
}

void Conversations::finish(std::size_t sample, const std::string& closing) {
  State& state = states_[sample];
  if (state.phase == Phase::over) return;
  if (environment_.judges()) state.conversation.verdict = environment_.verdict(state.scores, closing);
  const bool is_error = state.conversation.verdict && state.conversation.verdict->verifier_error;
  if (is_error) last_detail_ = state.conversation.verdict->detail;
  num_errors_ += is_error ? 1 : 0;
  count_first(is_error);
  check_errors();
  end_sample(sample);
}

void Conversations::fail(std::size_t sample, const std::string& reason, std::string detail) {
  State& state = states_[sample];
  const bool had_failed = state.conversation.verdict && state.conversation.verdict->verifier_error;
  if (had_failed) return;
  const char* const known[] = {"timeout", "crashed", "protocol", "error"};
  const char* word = *std::ranges::find(known, reason, [](const char* one) { return std::string_view(one); });
  last_detail_ = detail;
  state.conversation.end = reason;
  state.conversation.verdict = environment_.failed(word, std::move(detail), settings_.num_scores);
  ++num_errors_;
  if (state.phase != Phase::over) count_first(true);
  check_errors();
  const bool is_sampled = state.phase == Phase::samples;
  if (state.phase == Phase::over) return;
  state.phase = Phase::over;
  if (!is_sampled) end_sample(sample);
}

void Conversations::end_sample(std::size_t sample) {
  states_[sample].phase = Phase::over;
  replies_.push_back({sample, true, {}, {}, 0});
}

void Conversations::count_first(bool is_error) {
  if (num_first_ == kFirstConversations) return;
  ++num_first_;
  num_first_errors_ += is_error ? 1 : 0;
}

void Conversations::check_errors() const {
  if (!context_.max_errors || num_errors_ == 0) return;
  const bool none_played = num_first_ == kFirstConversations && num_first_errors_ == kFirstConversations;
  if (!none_played && num_errors_ <= *context_.max_errors) return;
  const std::string& errors = environment_.sessions().last_errors();
  throw base::Error(base::ErrorKind::guard, "environment",
                    none_played
                        ? "one or more of the first " + std::to_string(kFirstConversations) + " conversations played"
                        : "at most reward.max_error_fraction of the conversations with errors",
                    std::to_string(num_errors_) + " of " + std::to_string(states_.size()) + " so far" +
                        (last_detail_.empty() ? "" : "; the last: " + base::quoted(last_detail_, 200)),
                    "run qrl-train check env RECIPE to play one conversation" +
                        (errors.empty() ? "" : "; its last lines on standard error:" + errors));
}

void Conversations::give_to(std::vector<Rollout>& rollouts) {
  for (std::size_t i = 0; i < states_.size(); ++i) {
    State& state = states_[i];
    Rollout& rollout = rollouts[i];
    Conversation& conversation = state.conversation;
    if (state.is_cut) rollout.completion.stop = types::StopReason::length;
    if (state.own_prompt) {
      rollout.own_prompt = state.own_prompt;
      rollout.prompt = rollout.own_prompt.get();
    }
    if (settings_.judge == JudgedText::transcript) {
      conversation.judged = settings_.tokenizer.decode(rollout.completion.tokens);
    } else if (!conversation.turns.empty()) {
      conversation.judged = conversation.turns.back().sampled;
      conversation.judged_begin = conversation.turns.back().begin;
    }
    rollout.conversation = std::make_shared<const Conversation>(std::move(conversation));
  }
}

}  // namespace

std::uint64_t conversation_seed(types::SampleKey key, std::uint64_t prompt_id, std::int32_t sample) {
  const base::RandomField field(key.seed, base::RandomPurpose::environment);
  const double unit = field.uniform({static_cast<std::uint32_t>(prompt_id), static_cast<std::uint32_t>(sample),
                                     static_cast<std::uint32_t>(prompt_id >> 32), key.step});
  return static_cast<std::uint64_t>(std::ldexp(unit, 53));
}

std::vector<Rollout> collect_conversations(types::TextSource& source, std::span<const PromptRequest> prompts,
                                           std::int32_t n, const types::SamplingParams& params, types::SampleKey key,
                                           const ConversationSettings& settings, const tasks::JudgeContext& context) {
  tasks::Sessions& sessions = settings.environment->sessions();
  try {
    Conversations conversations(prompts, n, params, key, settings, context);
    std::vector<Rollout> rollouts =
        rollouts_of(prompts, n, source.converse(requests_of(prompts, n), params, key, conversations));
    conversations.finish_open();
    conversations.give_to(rollouts);
    sessions.clear();
    return rollouts;
  } catch (...) {
    sessions.clear();
    throw;
  }
}

}  // namespace qrl::rollout
