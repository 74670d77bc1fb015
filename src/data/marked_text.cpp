#include "data/marked_text.h"

#include <algorithm>

namespace qrl::data {

template <class Visit>
void Text::visit(std::size_t begin, std::size_t end, const Visit& visit) const {
  auto run = std::ranges::upper_bound(before_, begin, {}, &Before::end);
  for (; run != before_.end() && begin < end; ++run) {
    const std::size_t stop = std::min(run->end, end);
    visit(begin, stop, run->source);
    begin = stop;
  }
  if (begin < end) visit(begin, end, source_);
}

std::vector<TextRun> Text::runs() const {
  std::vector<TextRun> runs;
  visit(0, size(), [&](std::size_t begin, std::size_t end, Source source) { runs.push_back({begin, end, source}); });
  return runs;
}

void Text::add(std::string_view bytes, Source source) {
  if (bytes.empty()) return;
  if (!bytes_.empty() && source != source_) before_.push_back({bytes_.size(), source_});
  source_ = source;
  if (bytes_.capacity() - bytes_.size() < bytes.size()) bytes_.reserve(2 * bytes_.size() + bytes.size() + 64);
  bytes_ += bytes;
}

void Text::append(const Text& more, Source flag) {
  if (this == &more) return append(Text(more), flag);
  more.visit(0, more.size(), [&](std::size_t begin, std::size_t end, Source source) {
    add(std::string_view(more.bytes_).substr(begin, end - begin), source | flag);
  });
}

Text Text::part(std::size_t begin, std::size_t size) const {
  Text part;
  visit(begin, begin + std::min(size, bytes_.size() - begin), [&](std::size_t from, std::size_t end, Source source) {
    part.add(std::string_view(bytes_).substr(from, end - from), source);
  });
  return part;
}

}  // namespace qrl::data
