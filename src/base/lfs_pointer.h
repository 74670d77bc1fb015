// Owns what Git LFS leaves in a file's place until the file itself is fetched.
#pragma once

#include <string_view>

namespace qrl::base {

/// What such a file is, and what to do about it, for errors.
inline constexpr const char* kLfsPointer = "a Git LFS pointer; fetch the file itself with git lfs pull";

/// Whether a file with this text, or beginning, is such a pointer.
constexpr bool is_lfs_pointer(std::string_view text) { return text.starts_with("version https://git-lfs"); }

}  // namespace qrl::base
