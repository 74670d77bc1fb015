// Reads files for tests.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace qrl::test {

/// Returns the bytes of a file. Throws, and so fails the case, if it cannot be opened.
inline std::string read_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in.is_open()) throw std::runtime_error(file.string() + " cannot be opened");
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace qrl::test
