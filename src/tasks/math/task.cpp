#include "tasks/task.h"

#include "tasks/alternatives.h"
#include "tasks/math/verifier.h"

namespace qrl::tasks {

namespace {

/// In the order of reward::math::Profile.
const config::OwnKey kProfile{
    "reward.profile", config::OwnKey::Words{"auto", "boxed", "gsm8k", "answer_is", "answer_tag", "text", "last_number"},
    0,
    "where in a response its answer is; auto: \\boxed{}, ####, \"answer is\", <answer>, a short text, the last number, "
    "whichever there is first"};
/// In the order of reward::math::RequiredForm.
const config::OwnKey kAnswerForm{"reward.answer_form", config::OwnKey::Words{"any", "value"}, 0,
                                 "any takes 25+60 for 85, value does not: an answer must have no operation left to do, "
                                 "or the gold answer's"};

std::unique_ptr<Verifier> make(const VerifierOptions& options) {
  return with_alternatives(
      std::make_unique<MathVerifier>(static_cast<reward::math::Profile>(options.own.integer_of(kProfile)),
                                     static_cast<reward::math::RequiredForm>(options.own.integer_of(kAnswerForm))));
}

}  // namespace

extern const Task math_task;
const Task math_task{{},
                     {{.word = "math", .what = "answers in mathematics", .keys = {kProfile, kAnswerForm}},
                      make,
                      "answers in mathematics",
                      {}}};

}  // namespace qrl::tasks
