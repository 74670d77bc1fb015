#include "reward/math/clock.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "reward/math/texts.h"

namespace qrl::reward::math {

namespace {

/// A number of one or two digits; −1 of anything else.
int two_digits(const Node& node) noexcept {
  const std::string_view text = node.text;
  const bool digits = std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (node.kind != Kind::number || text.empty() || text.size() > 2 || !digits) return -1;
  return text.size() == 1 ? text[0] - '0' : (text[0] - '0') * 10 + text[1] - '0';
}

/// Reads what stands behind the digits; false where it is nothing of times.
bool read_mark(std::string_view words, Clock& clock) {
  const std::string key = text_key(words);
  const bool morning = key == "am" || key == "midnight" || key == "inthemorning";
  const bool evening = key == "pm" || key == "noon" || key == "intheafternoon" || key == "intheevening";
  if (!morning && !evening && key != "oclock") return false;
  if (morning) clock.half = Clock::Half::morning;
  if (evening) clock.half = Clock::Half::evening;
  clock.marked = true;
  return true;
}

/// Seconds since midnight, of a time whose half is known.
int seconds_of_day(const Clock& clock) noexcept {
  int hour = clock.hour;
  if (clock.half == Clock::Half::morning && hour == 12) hour = 0;
  if (clock.half == Clock::Half::evening && hour < 12) hour += 12;
  return (hour * 60 + clock.minute) * 60 + clock.second;
}

bool half_known(const Clock& clock) noexcept {
  return clock.half != Clock::Half::unknown || clock.hour > 12 || clock.hour == 0;
}

}  // namespace

std::optional<Clock> clock_of(const Tree& tree, NodeIdx idx) {
  const Node* node = &tree.at(idx);
  Clock clock;
  if (node->kind == Kind::quantity) {
    if (!read_mark(tree.child_at(*node, 1).text, clock)) return std::nullopt;
    node = &tree.child_at(*node, 0);
  }
  if (node->kind == Kind::number && clock.marked) {
    clock.hour = two_digits(*node);
  } else if (node->kind == Kind::ratio && node->count <= 3) {
    clock.hour = two_digits(tree.child_at(*node, 0));
    for (std::int32_t k = 1; k < node->count; ++k) {
      const Node& part = tree.child_at(*node, k);
      const int value = two_digits(part);
      if (part.text.size() != 2 || value < 0 || value > 59) return std::nullopt;
      (k == 1 ? clock.minute : clock.second) = value;
    }
  } else {
    return std::nullopt;
  }
  if (clock.hour < 0 || clock.hour > 24) return std::nullopt;
  return clock;
}

bool same_time(const Clock& a, const Clock& b) noexcept {
  if (half_known(a) && half_known(b)) return seconds_of_day(a) == seconds_of_day(b);
  const int modulus = a.marked || b.marked ? 12 : 24;  // unmarked ones are both of the same kind
  return a.hour % modulus == b.hour % modulus && a.minute == b.minute && a.second == b.second;
}

bool is_surely_time(const Clock& clock) noexcept {
  return clock.marked || clock.hour == 0 || std::gcd(clock.hour, clock.minute) != 1;
}

}  // namespace qrl::reward::math
