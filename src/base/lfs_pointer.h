// Recognizes Git LFS pointers, text files in place of files that were not fetched.
#pragma once

#include <string_view>

namespace qrl::base {

/// Names such a file in an error, with what to do.
inline constexpr const char* kLfsPointer = "a Git LFS pointer; fetch the file itself with git lfs pull";

constexpr bool is_lfs_pointer(std::string_view text) { return text.starts_with("version https://git-lfs"); }

}  // namespace qrl::base
