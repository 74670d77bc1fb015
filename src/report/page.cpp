#include "report/page.h"

#include <algorithm>

#include "base/error.h"

namespace qrl::report {

std::string_view page_file(std::string_view name) {
  const auto files = page_files();
  const auto found = std::ranges::find_if(files, [&](const base::EmbeddedFile& file) { return file.name == name; });
  QRL_INVARIANT(found != files.end(), "report", "a part of the page by that name", std::string(name));
  return found->text;
}

std::string make_page(std::string_view data_json, bool live) {
  std::string page;
  std::string_view rest = page_file("page.html");
  for (std::size_t open = 0; (open = rest.find("{{")) != std::string_view::npos;) {
    const std::size_t close = rest.find("}}", open);
    const std::string_view name = rest.substr(open + 2, close - open - 2);
    page += rest.substr(0, open);
    rest.remove_prefix(close + 2);
    if (name == "data") page += data_json;
    else if (name == "policy")
      page += std::string("default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:") +
              (live ? "; connect-src 'self'" : "");
    else page += page_file(name);
  }
  return page + std::string(rest);
}

}  // namespace qrl::report
