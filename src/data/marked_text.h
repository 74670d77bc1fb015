// Owns a text that knows who wrote each of its bytes. Knows nothing of templates and conversations.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qrl::data {

/// Names who wrote a byte: a number that the caller assigns; 0 is the template.
using Source = std::uint32_t;
/// Is set in the source of what the template marks as generated.
inline constexpr Source kGenerated = Source{1} << 31;
constexpr Source writer_of(Source source) noexcept { return source & ~kGenerated; }

/// Bytes of a text that have one source: [begin, end).
struct TextRun {
  std::size_t begin = 0, end = 0;
  Source source = 0;
};

/// Carries provenance through whatever is done with it: a byte that is copied keeps its source.
class Text {
 public:
  Text() = default;
  explicit Text(std::string bytes, Source source = 0) : bytes_(std::move(bytes)), source_(source) {}

  const std::string& bytes() const noexcept { return bytes_; }
  std::size_t size() const noexcept { return bytes_.size(); }
  bool empty() const noexcept { return bytes_.empty(); }
  /// Returns the memory that a copy takes.
  std::size_t cost_bytes() const noexcept { return bytes_.size() + before_.size() * sizeof(Before); }
  /// Returns the runs in their order: none is empty, and neighbors differ in their source.
  std::vector<TextRun> runs() const;
  std::string_view bytes(const TextRun& run) const {
    return std::string_view(bytes_).substr(run.begin, run.end - run.begin);
  }

  void add(std::string_view bytes, Source source);
  Text& operator+=(const Text& more);
  /// Copies up to `size` bytes from `begin` on, which is at most size().
  Text part(std::size_t begin, std::size_t size = std::string::npos) const;
  /// Removes all bytes from `size` on.
  void cut(std::size_t size);

 private:
  /// Says of a run before the last one where it ends.
  struct Before {
    std::size_t end;
    Source source;
  };
  template <class Visit>
  void visit(std::size_t begin, std::size_t end, const Visit& visit) const;

  std::string bytes_;
  std::vector<Before> before_;  ///< so that a text of one source needs no memory for it
  Source source_ = 0;           ///< of the last run
};

}  // namespace qrl::data
