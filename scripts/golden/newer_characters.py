#!/usr/bin/env python3
"""Writes src/data/tokenizer/newer_characters.h: the characters whose general category Oniguruma in the tokenizers
wheel knows and Unicode 14 does not assign.

    python3.11 scripts/golden/newer_characters.py    # whose unicodedata is that of 14.0.0; tokenizers installed
"""

import unicodedata
from pathlib import Path

import tokenizers
from tokenizers import Regex, pre_tokenizers

OUT = Path(__file__).resolve().parents[2] / "src" / "data" / "tokenizer" / "newer_characters.h"
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf".split()
HEAD = """#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace qrl::data {

struct NewerCharacters {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  std::string_view category;  ///< two letters
};

/// Characters of Unicode 15, 15.1 and 16 that Unicode 14 (PCRE2 10.40 to 10.42) did not assign, with their general
/// categories.
// clang-format off"""


def ranges():
    young = [code for code in range(0x110000) if unicodedata.category(chr(code)) == "Cn"]
    for category in CATEGORIES:
        cut = pre_tokenizers.Split(Regex(r"\p{%s}" % category), "removed")
        current = None
        for code in young:
            if cut.pre_tokenize_str(chr(code)):
                continue
            if current and current[1] == code - 1:
                current[1] = code
            else:
                if current:
                    yield *current, category
                current = [code, code]
        if current:
            yield *current, category


def main():
    assert unicodedata.unidata_version == "14.0.0", unicodedata.unidata_version
    rows = sorted(ranges())
    lines = ["// Written by scripts/golden/newer_characters.py with tokenizers %s: not for editing." % tokenizers.__version__,
             *HEAD.splitlines(),
             "inline constexpr std::array<NewerCharacters, %d> kNewerCharacters = {{" % len(rows)]
    for start in range(0, len(rows), 4):
        lines.append("  " + " ".join('{0x%x, 0x%x, "%s"},' % row for row in rows[start:start + 4]))
    lines += ["}};", "// clang-format on", "", "}  // namespace qrl::data"]
    OUT.write_text("\n".join(lines) + "\n")


main()
