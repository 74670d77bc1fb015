#include "decoder/kv/route_pages.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace qrl::decoder {

RoutePages::RoutePages(const model::ModelConfig& config, std::int64_t num_pages, std::int64_t page_size)
    : num_pages_(num_pages), page_size_(page_size), per_token_(config.num_experts_per_tok) {
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    sparse_idx_.push_back(config.is_sparse(layer) ? num_sparse_++ : -1);
}

void RoutePages::allocate() {
  if (num_sparse_ > 0 && experts_.empty())
    experts_ = base::Buffer(base::DType::u8, {num_pages_, page_size_, num_sparse_, per_token_});
}

std::uint8_t* RoutePages::slot(PageId page, std::int64_t slot_idx) const {
  return experts_.as<std::uint8_t>() + (page * page_size_ + slot_idx) * num_sparse_ * per_token_;
}

void RoutePages::store(const PageId* page_table, std::int64_t position, std::int64_t layer_idx,
                       const std::uint8_t* experts) const {
  std::copy_n(experts, per_token_,
              slot(page_table[position / page_size_], position % page_size_) +
                  sparse_idx_[static_cast<std::size_t>(layer_idx)] * per_token_);
}

void RoutePages::copy(const PageCopy& copy) const {
  if (!experts_.empty()) std::copy_n(slot(copy.from, 0), copy.num_slots * num_sparse_ * per_token_, slot(copy.to, 0));
}

types::Routes RoutePages::read(std::span<const PageId> pages, std::int64_t num_tokens) const {
  if (experts_.empty()) return {};
  QRL_INVARIANT(num_tokens <= std::ssize(pages) * page_size_, "routes",
                "pages of " + std::to_string(num_tokens) + " tokens", std::to_string(pages.size()) + " pages");
  types::Routes routes{static_cast<std::int32_t>(num_sparse_), static_cast<std::int32_t>(per_token_), {}};
  routes.experts.reserve(static_cast<std::size_t>(num_tokens) * routes.token_bytes());
  for (std::int64_t first = 0; first < num_tokens; first += page_size_) {
    const std::uint8_t* from = slot(pages[static_cast<std::size_t>(first / page_size_)], 0);
    const std::int64_t count = std::min(page_size_, num_tokens - first);
    routes.experts.insert(routes.experts.end(), from, from + count * num_sparse_ * per_token_);
  }
  return routes;
}

}  // namespace qrl::decoder
