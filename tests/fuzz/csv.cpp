// Fuzzes CSV: every record has all columns and the number of the line where it begins.
#include "data/csv.h"

#include <sstream>

#include "target.h"

using namespace qrl;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t num_bytes) {
  std::istringstream in{std::string(fuzz::text_of(data, num_bytes))};
  fuzz::accepts([&] {
    std::size_t num_columns = 0;
    std::int64_t last_line = 1;
    data::read_csv(in, "x.csv", [&](const nlohmann::json& record, std::int64_t line) {
      if (num_columns == 0) num_columns = record.size();
      fuzz::require(record.size() == num_columns && num_columns > 0, "a record has all columns");
      fuzz::require(line > last_line, "lines ascend");
      last_line = line;
    });
  });
  return 0;
}
