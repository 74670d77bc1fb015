#include "tasks/task.h"

#include "tasks/alternatives.h"
#include "tasks/math/verifier.h"

namespace qrl::tasks {

namespace {

using reward::math::Profile, reward::math::RequiredForm;

const config::WordParam<Profile> kProfile{"reward.profile",
                                          {{"auto", Profile::automatic},
                                           {"boxed", Profile::boxed},
                                           {"gsm8k", Profile::gsm8k},
                                           {"answer_is", Profile::answer_is},
                                           {"answer_tag", Profile::answer_tag},
                                           {"text", Profile::text},
                                           {"last_number", Profile::last_number}},
                                          "where a response has its answer; auto: the first found of \\boxed{}, ####, "
                                          "\"answer is\", <answer>, a short text, the last number"};
const config::WordParam<RequiredForm> kAnswerForm{
    "reward.answer_form",
    {{"any", RequiredForm::any}, {"value", RequiredForm::value}},
    "any accepts 25+60 for 85; value requires an answer with no operation left to do, or in the gold answer's form"};

std::unique_ptr<Verifier> make(const VerifierOptions& options) {
  return with_alternatives(std::make_unique<MathVerifier>(options.own.of(kProfile), options.own.of(kAnswerForm)));
}

}  // namespace

extern const Task math_task;
const Task math_task{{},
                     {{.word = "math", .what = "answers in mathematics", .params = {kProfile, kAnswerForm}},
                      make,
                      "answers in mathematics",
                      {}}};

}  // namespace qrl::tasks
