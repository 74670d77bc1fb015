// Tests options' params, whose values have types, and the selection of an option by its word.
#include "config/option.h"

#include "base/error.h"
#include "support/catch.h"

using namespace qrl::config;

namespace {

enum class Color { red, green };

const NumberParam kScale{"s.scale", kPositive, 2, ""};
const FlagParam kFlag{"s.flag", true, ""};
const IntegerParam kSize{"s.size", {1, 9}, 3, ""};
const WordParam<Color> kColor{"s.color", {{"g", Color::green}, {"r", Color::red}}, ""};

}  // namespace

TEST_CASE("params: read as their type, or the default if unset") {
  ParamValues values;
  CHECK(values.of(kScale) == 2.0);
  CHECK(values.of(kFlag));
  CHECK(values.of(kSize) == 3);
  CHECK(values.of(kColor) == Color::green);
  values.set(kScale, 0.5);
  values.set(kFlag, false);
  values.set(kSize, std::int64_t{7});
  values.set(kColor, "r");
  CHECK(values.of(kScale) == 0.5);
  CHECK_FALSE(values.of(kFlag));
  CHECK(values.of(kSize) == 7);
  CHECK(values.of(kColor) == Color::red);
}

TEST_CASE("params: setting the default leaves equal values") {
  ParamValues values;
  values.set(kColor, "r");
  CHECK(values != ParamValues{});
  values.set(kColor, "g");
  CHECK(values == ParamValues{});
}

TEST_CASE("params: a value of another type and an unknown word are refused") {
  ParamValues values;
  CHECK_THROWS_AS(values.set(kScale, true), qrl::base::Error);
  CHECK_THROWS_AS(values.set(kSize, 7.0), qrl::base::Error);
  CHECK_THROWS_AS(values.set(kColor, "blue"), qrl::base::Error);
  CHECK(values == ParamValues{});
}

TEST_CASE("options: a word selects its own option only") {
  const Option one{.word = "one", .what = "", .defaults = {{"k", "1"}}}, two{.word = "two", .what = ""};
  const Choices<Option> choices({&one, &two}, "two");
  const Selected<Option> selected = choices.select("one");
  CHECK(selected.word() == "one");
  CHECK(selected.get() == &one);
  CHECK(selected->default_of("k") == "1");
  CHECK(selected->default_of("other") == "null");
  CHECK(choices.default_option() == "two");
  CHECK(choices.select("three").empty());
  CHECK(choices.select("three") == Selected<Option>());
  CHECK(choices.select("three").word().empty());
}
