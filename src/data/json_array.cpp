#include "data/json_array.h"

#include <istream>

#include "base/error.h"
#include "base/text.h"
#include "data/row.h"

namespace qrl::data {

namespace {

constexpr int kEnd = std::char_traits<char>::eof();

class ArrayReader {
 public:
  ArrayReader(std::istream& in, const std::string& name) : buffer_(*in.rdbuf()), name_(name) {}

  std::string where() const { return name_ + ":" + std::to_string(line_); }
  std::int64_t line() const { return line_; }

  /// Skips a byte order mark and white space. Returns the next character, or kEnd.
  int next() {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    for (; is_at_start_ && at_ < kByteOrderMark.size() &&
           buffer_.sgetc() == static_cast<unsigned char>(kByteOrderMark[at_]);
         ++at_)
      buffer_.sbumpc();
    is_at_start_ = false;
    while (buffer_.sgetc() == ' ' || buffer_.sgetc() == '\t' || buffer_.sgetc() == '\r' || buffer_.sgetc() == '\n')
      take();
    return buffer_.sgetc();
  }
  bool take_sign(char sign) {
    const bool is_there = next() == sign;
    if (is_there) take();
    return is_there;
  }
  /// Reads a value up to the comma or bracket after it. Brackets and quotation marks within it are balanced.
  const std::string& value() {
    text_.clear();
    int depth = 0;
    for (int c = buffer_.sgetc(); c != kEnd; c = buffer_.sgetc()) {
      if (depth == 0 && (c == ',' || c == ']')) return text_;
      QRL_REQUIRE(text_.size() < kMaxRow_bytes, where(), "objects up to 64 MiB", "a larger one");
      text_ += take();
      if (c == '"') string();
      depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
      if (depth == 0 && (c == '}' || c == ']')) return text_;
    }
    return text_;
  }
  [[noreturn]] void fail(const std::string& expected) {
    const int c = next();
    base::fail_input(where(), expected,
                     c == kEnd ? "the end of the file" : base::quoted(std::string(1, static_cast<char>(c))),
                     c == kEnd ? "is the file whole?" : "");
  }

 private:
  char take() {
    const int c = buffer_.sbumpc();
    line_ += c == '\n' ? 1 : 0;
    return static_cast<char>(c);
  }
  void string() {
    for (int c = buffer_.sgetc(); c != kEnd && text_.size() < kMaxRow_bytes; c = buffer_.sgetc()) {
      text_ += take();
      if (c == '"') return;
      if (c == '\\' && buffer_.sgetc() != kEnd) text_ += take();
    }
  }

  std::streambuf& buffer_;
  const std::string& name_;
  std::string text_;
  std::int64_t line_ = 1;
  std::size_t at_ = 0;
  bool is_at_start_ = true;
};

}  // namespace

bool begins_array(std::istream& in) {
  const auto begin = in.tellg();
  const bool is_array = ArrayReader(in, {}).next() == '[';
  in.clear();
  in.seekg(begin);
  return is_array;
}

void read_json_array(std::istream& in, const std::string& name,
                     const std::function<void(std::string_view text, std::int64_t line)>& take) {
  ArrayReader reader(in, name);
  if (!reader.take_sign('[')) reader.fail("an array of objects");
  bool is_first = true;
  while (!reader.take_sign(']')) {
    if (!is_first && !reader.take_sign(',')) reader.fail("a comma or ] after an object");
    is_first = false;
    const int c = reader.next();
    if (c == kEnd || c == ',' || c == ']') reader.fail("an object");
    const std::int64_t line = reader.line();
    take(reader.value(), line);
  }
  if (reader.next() != kEnd) reader.fail("nothing after the array");
}

}  // namespace qrl::data
