#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qrl::data {

/// Identifies what wrote a byte: 0 is the template; the caller defines other numbers.
using Source = std::uint32_t;
/// Is set in the source of each byte inside {% generation %}.
inline constexpr Source kGenerated = Source{1} << 31;
constexpr Source writer_of(Source source) noexcept { return source & ~kGenerated; }

struct TextRun {
  std::size_t begin = 0, end = 0;
  Source source = 0;
};

/// Bytes and their sources; a copied byte keeps its source.
class Text {
 public:
  Text() = default;
  explicit Text(std::string bytes, Source source = 0) : bytes_(std::move(bytes)), source_(source) {}

  const std::string& bytes() const noexcept { return bytes_; }
  std::size_t size() const noexcept { return bytes_.size(); }
  bool empty() const noexcept { return bytes_.empty(); }
  std::size_t cost_bytes() const noexcept { return bytes_.size() + before_.size() * sizeof(Before); }
  /// Returns the runs in order: none is empty, and neighbors have different sources.
  std::vector<TextRun> runs() const;
  std::string_view bytes(const TextRun& run) const {
    return std::string_view(bytes_).substr(run.begin, run.end - run.begin);
  }

  void add(std::string_view bytes, Source source);
  /// Appends a text. Sets `flag` in the source of each appended byte.
  void append(const Text& more, Source flag = 0);
  /// Returns at most `size` bytes from `begin`, which is at most size().
  Text part(std::size_t begin, std::size_t size = std::string::npos) const;

 private:
  struct Before {
    std::size_t end;
    Source source;
  };
  template <class Visit>
  void visit(std::size_t begin, std::size_t end, const Visit& visit) const;

  std::string bytes_;
  std::vector<Before> before_;  ///< runs before the last
  Source source_ = 0;           ///< source of the last run
};

}  // namespace qrl::data
