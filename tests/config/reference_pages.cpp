#include "reference_pages.h"

#include <string_view>

#include "base/text.h"
#include "config/keys/other_trainers.h"
#include "config/printer.h"

namespace qrl::test {

using namespace config;

namespace {

const char* mark_of(OnResume on_resume) {
  return on_resume == OnResume::free ? " †" : on_resume == OnResume::allow_change ? " ‡" : "";
}

/// Escapes a table cell: a bar would end it, angle brackets may be HTML.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '<' || c == '*') out += '\\';
    out += c;
  }
  return out;
}

std::string words_table(const AnyChoices& choices) {
  std::string table = "| value | meaning | key | its default | applies with |\n|---|---|---|---|---|\n";
  for (const Option* one : choices.all()) {
    std::string first =
        "| `" + one->word + "` | " + cell(one->what) + (one->paper.empty() ? "" : " (" + cell(one->paper) + ")");
    const auto add = [&](const std::string& key, const std::string& value, const std::string& with) {
      table += first + " | `" + key + "` | " + cell(value) + " | " + (with.empty() ? "" : "`" + with + "`") + " |\n";
      first = "|  | ";
    };
    for (const KeyDefault& value : one->defaults) add(value.key, value.value, value.with);
    for (const Constraint& limit : one->constraints) {
      const std::string values = base::joined(limit.values, " or ");
      add(limit.key, "only " + values, "");
    }
    if (one->defaults.empty() && one->constraints.empty()) table += first + " |  |  |  |\n";
  }
  return table;
}

std::string choices_markdown(const train::Catalog& catalog) {
  return "\n## Losses\n\nMeaning of null with each value of `algorithm.name`; \"only\": no other value is allowed with "
         "it.\n\n" +
         words_table(catalog.losses) + "\n## Advantage estimators\n\nThe same for `algorithm.adv_estimator`.\n\n" +
         words_table(catalog.estimators) + "\n## Corrections\n\nThe same for `rollout_correction.method`.\n\n" +
         words_table(catalog.corrections) +
         "\n## What a mode sets\n\nA mode sets defaults: a recipe may set any of them to another value. A default in a "
         "row with a last column applies only while that key has the mode's value.\n\n" +
         words_table(catalog.modes);
}

constexpr std::string_view kReferenceIntro = R"(# Recipe keys

`keys_markdown` in `tests/config/reference_pages.cpp` makes this page from the list behind `qrl-train --help-all`. A test compares the two.
To write it again: `QRL_WRITE_REFERENCE=1 build/tests/test_config 'the committed reference page*'`.

A recipe is a YAML file of sections and keys. All faults of a recipe are reported at once, as
`file:line: key: expected …, got …; what to do`. Nothing in it is ignored: an unknown key is a fault.

- `include: base.yaml` at the root reads another recipe first, relative to the including file. Later keys win. `include: recipes:NAME` reads
  a recipe that comes with the program.
- If the including recipe, or `--set`, changes a key (`reward: {verifier: math}`), keys of the included recipe that need the
  old value (`reward.command`) are dropped. In the same file, or in an including one, they are refused.
- `mode: qurl` at the root sets defaults, below every file and argument.
- `--set optim.lr=2e-6` sets a key from the command line, after all files. The value is YAML: `--set optim.betas=[0.9,0.95]`.
- `--print-config` and a run's `config.yaml` say where each value comes from: the default, the mode, file:line, or the
  command line.
- `null` is a value only where the default is `null`. The text in brackets says what it means.
- Integers are decimal, at most 1000000000 unless another limit is given. `010`, `1_000`, `0x10` and `12:30:45` are
  refused, since YAML 1.1 and 1.2 disagree on them.
- `1e-6` is a number, although YAML 1.1 takes it for a text. NaN, infinities and what fp32 cannot hold are refused.
- Booleans are `true` and `false`. `yes`, `no`, `on`, `off` are refused, also as bare words in a text or a list of
  files: write `"no"` in quotes for a file of that name. Quotes always make a text.
- Anchors and aliases are read. These are refused: tags, merge keys (`<<`), a key twice, a second document, tabs as
  indentation, more than 1 MB, 64 levels, anything but UTF-8.
- A path of a file to read is relative to the folder of the recipe that names it. On the command line it is relative to
  the working directory. So are the run folder and `trainer.resume_mode`, wherever they stand. `recipes:PATH` is a
  file in the program's recipe folder.

Keys marked † may change when a run is resumed. Keys marked ‡ may change with `--allow-change`. A change of any other
key is refused.
)";

constexpr std::string_view kOtherTrainersIntro = R"(# Names of other trainers

For readers who come from veRL, TRL or OpenRLHF. No name in the left column is accepted. A recipe or argument that uses one
gets the advice on the right. Our keys are in [recipe keys](recipe-keys.md). `qrl-train port` translates a
[whole script](../howto/port.md) by these tables.

`other_trainers_markdown` in `tests/config/reference_pages.cpp` makes this page from `src/config/keys/other_trainers.yaml`, `other_values.yaml` and the
names listed with each loss, correction and task. A test compares the two. To write it again: `QRL_WRITE_REFERENCE=1
build/tests/test_config 'the committed reference page*'`.

| there | here |
|---|---|
)";

}  // namespace

std::string keys_markdown(const train::Keys& keys) {
  std::string page(kReferenceIntro);
  std::string_view section;
  for (const Key& key : keys.all()) {
    const std::string_view root = split(key.name, ".").front();
    if (root != section) {
      section = root;
      page += "\n## " + std::string(root) + "\n\n| key | value | default | meaning |\n|---|---|---|---|\n";
    }
    page += "| `" + key.name + "`" + mark_of(key.on_resume) + " | " + cell(key.type) + " | " +
            cell(default_text(keys, key)) + " | " + cell(meaning_text(key)) + " |\n";
  }
  return page + choices_markdown(keys.catalog());
}

std::string other_trainers_markdown(const train::Keys& keys) {
  std::string page(kOtherTrainersIntro);
  for (const Alias& one : aliases(keys)) {
    page += "| `" + one.name + "` | " +
            cell(one.key.empty() ? "none: " + one.note : one.key + (one.note.empty() ? "" : " (" + one.note + ")")) +
            " |\n";
  }
  page +=
      "\n## Values\n\nValues of such a name, or of a key here. Several settings replace a value that has no word of "
      "its own.\n\n| name or key | there | here |\n|---|---|---|\n";
  for (const ForeignValue& row : foreign_values()) {
    const std::string here = !row.has_counterpart   ? "none: " + row.note
                             : row.settings.empty() ? "nothing to set: " + row.note
                                                    : row.settings + (row.note.empty() ? "" : " (" + row.note + ")");
    page += "| `" + row.name + "` | `" + row.value + "` | " + cell(here) + " |\n";
  }
  return page;
}

}  // namespace qrl::test
