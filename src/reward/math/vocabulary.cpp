#include "reward/math/vocabulary.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>

#include "reward/math/name_table.h"

namespace qrl::reward::math {

namespace {

using T = TokenType;

struct Command {
  std::string_view name;
  Meaning meaning;
};

constexpr Meaning kNothing{T::end, 0, ""};

constexpr Command kCommands[] = {
    {"Longrightarrow", {T::relation, 't', ""}},
    {"cr", {T::newline, 0, ""}},
    {"Leftrightarrow", {T::relation, 'c', ""}},
    {"Rightarrow", {T::relation, 't', ""}},
    {"approx", {T::relation, 'a', ""}},
    {"ast", {T::op, '*', ""}},
    {"backslash", {T::op, 'D', ""}},
    {"begin", {T::begin, 0, ""}},
    {"binom", {T::fraction, 'b', ""}},
    {"bmod", {T::op, 'm', ""}},
    {"bullet", {T::op, '*', ""}},
    {"cap", {T::op, 'N', ""}},
    {"cdot", {T::op, '*', ""}},
    {"cdots", {T::dots, 0, ""}},
    {"cfrac", {T::fraction, '/', ""}},
    {"choose", {T::op, 'h', ""}},
    {"circ", {T::op, 'd', ""}},
    {"colon", {T::op, ':', ""}},
    {"cong", {T::relation, 'c', ""}},
    {"cup", {T::op, 'U', ""}},
    {"dbinom", {T::fraction, 'b', ""}},
    {"degree", {T::op, 'd', ""}},
    {"dfrac", {T::fraction, '/', ""}},
    {"div", {T::op, '/', ""}},
    {"dots", {T::dots, 0, ""}},
    {"dotsb", {T::dots, 0, ""}},
    {"dotsc", {T::dots, 0, ""}},
    {"emptyset", {T::constant, 0, "empty"}},
    {"end", {T::finish, 0, ""}},
    {"equiv", {T::relation, 'c', ""}},
    {"frac", {T::fraction, '/', ""}},
    {"ge", {T::relation, 'g', ""}},
    {"geq", {T::relation, 'g', ""}},
    {"geqslant", {T::relation, 'g', ""}},
    {"gets", {T::relation, 't', ""}},
    {"gt", {T::relation, '>', ""}},
    {"iff", {T::relation, 'c', ""}},
    {"implies", {T::relation, 't', ""}},
    {"in", {T::relation, 'e', ""}},
    {"infin", {T::constant, 0, "infinity"}},
    {"infty", {T::constant, 0, "infinity"}},
    {"langle", {T::open, '(', ""}},
    {"lbrace", {T::open, 'S', ""}},
    {"lbrack", {T::open, '[', ""}},
    {"lceil", {T::open, 'C', ""}},
    {"ldots", {T::dots, 0, ""}},
    {"le", {T::relation, 'l', ""}},
    {"leq", {T::relation, 'l', ""}},
    {"leqslant", {T::relation, 'l', ""}},
    {"lfloor", {T::open, 'F', ""}},
    {"lt", {T::relation, '<', ""}},
    {"lvert", {T::bar, 0, ""}},
    {"mapsto", {T::relation, 't', ""}},
    {"mid", {T::bar, 'm', ""}},
    {"mod", {T::op, 'p', ""}},
    {"mp", {T::op, 'M', ""}},
    {"ne", {T::relation, 'n', ""}},
    {"neq", {T::relation, 'n', ""}},
    {"notin", {T::relation, 's', "notin"}},
    {"nmid", {T::relation, 's', "nmid"}},
    {"over", {T::op, 'o', ""}},
    {"parallel", {T::relation, 's', "parallel"}},
    {"perp", {T::relation, 's', "perp"}},
    {"pm", {T::op, 'P', ""}},
    {"pmod", {T::op, 'p', ""}},
    {"prime", {T::op, '\'', ""}},
    {"propto", {T::relation, 's', "propto"}},
    {"rangle", {T::close, ')', ""}},
    {"rbrace", {T::close, 'S', ""}},
    {"rbrack", {T::close, ']', ""}},
    {"rceil", {T::close, 'C', ""}},
    {"rfloor", {T::close, 'F', ""}},
    {"rightarrow", {T::relation, 't', ""}},
    {"rvert", {T::bar, 0, ""}},
    {"setminus", {T::op, 'D', ""}},
    {"sim", {T::relation, 's', "sim"}},
    {"simeq", {T::relation, 'c', ""}},
    {"smallsetminus", {T::op, 'D', ""}},
    {"sqrt", {T::root, 0, ""}},
    {"star", {T::op, '*', ""}},
    {"subset", {T::relation, 's', "subset"}},
    {"subseteq", {T::relation, 's', "subseteq"}},
    {"subsetneq", {T::relation, 's', "subset"}},
    {"supset", {T::relation, 's', "supset"}},
    {"supseteq", {T::relation, 's', "supseteq"}},
    {"sfrac", {T::fraction, '/', ""}},
    {"nicefrac", {T::fraction, '/', ""}},
    {"tfrac", {T::fraction, '/', ""}},
    {"tbinom", {T::fraction, 'b', ""}},
    {"times", {T::op, '*', ""}},
    {"to", {T::relation, 't', ""}},
    {"triangleleft", {T::relation, 's', "normal"}},
    {"varnothing", {T::constant, 0, "empty"}},
    {"vdots", {T::dots, 0, ""}},
    {"Vert", {T::bar, 0, ""}},
    {"vert", {T::bar, 0, ""}},
    {"wedge", {T::op, 'w', ""}},
    {"land", {T::separator, '&', ""}},
    {"lor", {T::separator, '|', ""}},
    {"vee", {T::op, 'v', ""}},
    {"otimes", {T::op, 'x', ""}},
    {"oplus", {T::op, 'O', ""}},
    {"rtimes", {T::op, 'r', ""}},
    {"bigcup", {T::op, 'U', ""}},
    {"bigcap", {T::op, 'N', ""}},
};

/// Commands that change how a formula looks, not what it says.
constexpr std::string_view kLayout[] = {
    "left",      "right",     "middle",       "big",         "Big",       "bigg",     "Bigg",       "bigl",
    "bigr",      "Bigl",      "Bigr",         "biggl",       "biggr",     "Biggl",    "Biggr",      "bigm",
    "quad",      "qquad",     "displaystyle", "textstyle",   "limits",    "nolimits", "hfill",      "hspace",
    "thinspace", "enspace",   "negthinspace", "scriptstyle", "par",       "noindent", "newline",    "nobreak",
    "bf",        "rm",        "it",           "sf",          "centerdot", "medspace", "thickspace", "allowbreak",
    "because",   "therefore", "strut",        "hline",       "large",     "Large",    "small",      "normalsize",
};

constexpr std::string_view kSymbols[] = {
    "alpha",       "beta",     "gamma",       "delta",         "epsilon", "varepsilon", "zeta",
    "eta",         "theta",    "vartheta",    "iota",          "kappa",   "lambda",     "mu",
    "nu",          "xi",       "omicron",     "rho",           "varrho",  "sigma",      "varsigma",
    "tau",         "upsilon",  "phi",         "varphi",        "chi",     "psi",        "omega",
    "Gamma",       "Delta",    "Theta",       "Lambda",        "Xi",      "Pi",         "Sigma",
    "Upsilon",     "Phi",      "Psi",         "Omega",         "ell",     "hbar",       "triangle",
    "angle",       "aleph",    "nabla",       "partial",       "square",  "wp",         "mho",
    "Re",          "Im",       "imath",       "jmath",         "dagger",  "top",        "bot",
    "forall",      "exists",   "lnot",        "neg",           "diamond", "Box",        "heartsuit",
    "spadesuit",   "clubsuit", "diamondsuit", "measuredangle", "beth",    "complement", "checkmark",
    "blacksquare", "bigcirc",  "odot",        "perthousand",   "S",
};

constexpr std::string_view kFunctions[] = {
    "sin",    "cos",       "tan",     "cot",      "sec",      "csc",        "arcsin",    "arccos", "arctan",
    "arccot", "arcsec",    "arccsc",  "asin",     "acos",     "atan",       "sinh",      "cosh",   "tanh",
    "coth",   "sech",      "csch",    "arcsinh",  "arccosh",  "arctanh",    "arsinh",    "arcosh", "artanh",
    "ln",     "log",       "lg",      "exp",      "gcd",      "lcm",        "max",       "min",    "sup",
    "inf",    "det",       "arg",     "sgn",      "sign",     "dim",        "ker",       "deg",    "tr",
    "rank",   "Pr",        "lim",     "sum",      "prod",     "int",        "iint",      "iiint",  "oint",
    "limsup", "liminf",    "coprod",  "hom",      "abs",      "floor",      "ceil",      "cbrt",   "argmax",
    "argmin", "Var",       "Cov",     "Res",      "Li",       "erf",        "overline",  "hat",    "widehat",
    "tilde",  "widetilde", "bar",     "dot",      "ddot",     "underbrace", "overbrace", "Aut",    "Gal",
    "Hom",    "Ext",       "Tor",     "span",     "diag",     "trace",      "conj",      "Arg",    "Log",
    "cis",    "widebar",   "overset", "underset", "overarc",  "wideparen",  "GL",        "SL",     "lcd",
    "gcf",    "hcf",       "mathop",  "stackrel", "bigoplus", "bigotimes",  "char",
};

template <std::size_t N>
constexpr const std::string_view* find_name(const std::string_view (&names)[N], std::string_view name) noexcept {
  const auto* at = std::find(std::begin(names), std::end(names), name);
  return at == std::end(names) ? nullptr : at;
}

constexpr std::string_view kShortWords[] = {
    "yes", "no",  "odd", "all",  "not", "dne", "one", "two", "six", "ten", "the", "for", "any",  "has", "are",
    "was", "her", "his", "its",  "red", "sun", "mon", "tue", "wed", "thu", "fri", "sat", "none", "is",  "it",
    "of",  "to",  "if",  "with", "per", "so",  "in",  "day", "pm",  "am",  "we",  "get", "got"};

struct NamedUnit {
  std::string_view name;
  Unit unit;
};

// Dimensions: l length, m mass, t time, v volume, a angle, k f n temperature (compared as written), c e y r money.
// Factors to metre, gram, second, litre, degree. £ is a pound, and so a mass: 5 pounds may be either.
constexpr NamedUnit kUnits[] = {
    {"mm", {'l', 1e-3L}},
    {"millimeter", {'l', 1e-3L}},
    {"millimetre", {'l', 1e-3L}},
    {"cm", {'l', 1e-2L}},
    {"centimeter", {'l', 1e-2L}},
    {"centimetre", {'l', 1e-2L}},
    {"dm", {'l', 0.1L}},
    {"m", {'l', 1}},
    {"meter", {'l', 1}},
    {"metre", {'l', 1}},
    {"km", {'l', 1000}},
    {"kilometer", {'l', 1000}},
    {"kilometre", {'l', 1000}},
    {"inch", {'l', 0.0254L}},
    {"inche", {'l', 0.0254L}},
    {"in", {'l', 0.0254L}},
    {"ft", {'l', 0.3048L}},
    {"foot", {'l', 0.3048L}},
    {"feet", {'l', 0.3048L}},
    {"yd", {'l', 0.9144L}},
    {"yard", {'l', 0.9144L}},
    {"mi", {'l', 1609.344L}},
    {"mile", {'l', 1609.344L}},
    {"mg", {'m', 1e-3L}},
    {"g", {'m', 1}},
    {"gram", {'m', 1}},
    {"kg", {'m', 1000}},
    {"kilogram", {'m', 1000}},
    {"lb", {'m', 453.59237L}},
    {"pound", {'m', 453.59237L}},
    {"oz", {'m', 28.349523125L}},
    {"ounce", {'m', 28.349523125L}},
    {"ton", {'m', 1e6L}},
    {"s", {'t', 1}},
    {"sec", {'t', 1}},
    {"second", {'t', 1}},
    {"min", {'t', 60}},
    {"minute", {'t', 60}},
    {"h", {'t', 3600}},
    {"hr", {'t', 3600}},
    {"hour", {'t', 3600}},
    {"day", {'t', 86400}},
    {"week", {'t', 604800}},
    {"month", {'t', 2629746}},
    {"year", {'t', 31556952}},
    {"ml", {'v', 1e-3L}},
    {"milliliter", {'v', 1e-3L}},
    {"l", {'v', 1}},
    {"liter", {'v', 1}},
    {"litre", {'v', 1}},
    {"gallon", {'v', 3.785411784L}},
    {"degree", {'a', 1}},
    {"deg", {'a', 1}},
    {"radian", {'a', 57.2957795130823L}},
    {"rad", {'a', 57.2957795130823L}},
    {"cent", {'c', 0.01L}},
    {"dollar", {'c', 1}},
    {"usd", {'c', 1}},
    {"euro", {'e', 1}},
    {"eur", {'e', 1}},
    {"yen", {'y', 1}},
    {"jpy", {'y', 1}},
    {"yuan", {'y', 1}},
    {"rmb", {'y', 1}},
    {"rupee", {'r', 1}},
    {"inr", {'r', 1}},
    {"gbp", {'m', 453.59237L}},
    {"celsius", {'k', 1}},
    {"centigrade", {'k', 1}},
    {"fahrenheit", {'f', 1}},
    {"kelvin", {'n', 1}},
    {"unit", {'u', 1}},
    {"cc", {'v', 1e-3L}},
    {"sq", {'q', 1}},
};

}  // namespace

std::optional<Meaning> command_meaning(std::string_view name) noexcept {
  static constexpr auto kTable = [] {
    NameTable<Meaning, std::size(kCommands) + std::size(kLayout) + 1 + std::size(kSymbols) + std::size(kFunctions)> all;
    for (const Command& command : kCommands) all.add(command.name, command.meaning);
    for (const std::string_view layout : kLayout) all.add(layout, kNothing);
    all.add("pi", {T::constant, 0, "pi"});
    for (const std::string_view symbol : kSymbols) all.add(symbol, {T::symbol, 0, symbol});
    for (const std::string_view function : kFunctions) all.add(function, {T::function, 0, function});
    return all;
  }();
  const Meaning* meaning = kTable.find(name);
  return meaning != nullptr ? std::optional(*meaning) : std::nullopt;
}

Wrapper wrapper_of(std::string_view command) noexcept {
  constexpr std::string_view kText[] = {"text",   "textbf", "textit", "textrm", "textnormal", "mbox",
                                        "textsf", "texttt", "hbox",   "emph",   "textsc",     "textup"};
  constexpr std::string_view kPlain[] = {
      "mathbf",       "mathsf", "mathit",    "boldsymbol", "bm",  "vec",        "overrightarrow",
      "boxed",        "fbox",   "underline", "mathnormal", "pmb", "ensuremath", "overleftrightarrow",
      "displaylines", "bold",   "framebox",  "tt"};
  constexpr std::string_view kNamed[] = {"mathbb", "mathcal", "mathfrak", "mathscr", "Bbb"};
  if (find_name(kText, command) != nullptr) return Wrapper::text;
  if (command == "mathrm" || command == "rm" || command == "mathtt") return Wrapper::roman;
  if (find_name(kPlain, command) != nullptr) return Wrapper::plain;
  if (find_name(kNamed, command) != nullptr) return Wrapper::named;
  if (command == "textcolor" || command == "colorbox") return Wrapper::colored;
  if (command == "operatorname") return Wrapper::operation;
  if (command == "phantom" || command == "label" || command == "tag" || command == "hspace" || command == "vspace" ||
      command == "color" || command == "hphantom" || command == "vphantom") {
    return Wrapper::dropped;
  }
  return Wrapper::none;
}

std::optional<Meaning> word_meaning(std::string_view word) noexcept {
  static constexpr Command kWords[] = {{"pi", {T::constant, 0, "pi"}},
                                       {"infinity", {T::constant, 0, "infinity"}},
                                       {"oo", {T::constant, 0, "infinity"}},
                                       {"infty", {T::constant, 0, "infinity"}},
                                       {"inf", {T::constant, 0, "infinity"}},
                                       {"sqrt", {T::root, 0, ""}},
                                       {"and", {T::separator, '&', ""}},
                                       {"And", {T::separator, '&', ""}},
                                       {"or", {T::separator, '|', ""}},
                                       {"Or", {T::separator, '|', ""}},
                                       {"cup", {T::op, 'U', ""}},
                                       {"union", {T::op, 'U', ""}},
                                       {"percent", {T::op, '%', ""}},
                                       {"percentage", {T::op, '%', ""}},
                                       {"pct", {T::op, '%', ""}},
                                       {"mod", {T::op, 'p', ""}},
                                       {"modulo", {T::op, 'p', ""}}};
  // Without a backslash these are words of prose, or nothing.
  static constexpr std::string_view kProse[] = {"span", "char",   "bar",      "hat",        "dot",    "tr",      "sign",
                                                "rank", "square", "triangle", "complement", "exists", "diamond", "top"};
  static constexpr auto kTable = [] {
    NameTable<Meaning, std::size(kWords) + std::size(kFunctions) + std::size(kSymbols)> all;
    for (const Command& each : kWords) all.add(each.name, each.meaning);
    for (const std::string_view function : kFunctions) {
      if (find_name(kProse, function) == nullptr) all.add(function, {T::function, 0, function});
    }
    for (const std::string_view symbol : kSymbols) {
      if (symbol.size() > 1 && find_name(kProse, symbol) == nullptr) all.add(symbol, {T::symbol, 0, symbol});
    }
    return all;
  }();
  const Meaning* meaning = kTable.find(word);
  return meaning != nullptr ? std::optional(*meaning) : std::nullopt;
}

bool is_word(std::string_view word) noexcept {
  const bool capitals = std::all_of(word.begin(), word.end(), [](char c) { return c <= 'Z'; });
  if (word.size() >= (capitals ? 5u : 4u)) return true;
  if (word.size() < 2) return false;
  std::array<char, 4> lower{};
  std::transform(word.begin(), word.end(), lower.begin(), [](char c) { return static_cast<char>(c | 32); });
  return find_name(kShortWords, std::string_view(lower.data(), word.size())) != nullptr;
}

Unit unit_of(std::string_view word) noexcept {
  static constexpr auto kTable = [] {
    NameTable<Unit, std::size(kUnits)> all;
    for (const NamedUnit& each : kUnits) all.add(each.name, each.unit);
    return all;
  }();
  const auto find = [](std::string_view name) {
    const Unit* unit = kTable.find(name);
    return unit != nullptr ? *unit : Unit{};
  };
  const Unit unit = find(word);
  if (unit.dimension != 0 || word.size() < 3 || word.back() != 's') return unit;
  return find(word.substr(0, word.size() - 1));
}

bool is_unit_symbol(std::string_view word) noexcept {
  constexpr std::string_view kBases[] = {"N",  "J",  "W",   "V",  "A",   "K",   "C",   "F",  "T",  "L",
                                         "Pa", "Hz", "mol", "eV", "bar", "atm", "cal", "Wh", "cd", "rpm"};
  if (find_name(kBases, word) != nullptr) return true;
  constexpr std::string_view kPrefixes = "kMGmnp";
  return word.size() > 1 && kPrefixes.find(word[0]) != std::string_view::npos &&
         find_name(kBases, word.substr(1)) != nullptr;
}

std::string_view currency_of(std::string_view name) noexcept {
  struct Currency {
    std::string_view name, unit;
  };
  constexpr Currency kCurrencies[] = {{"$", "dollar"},     {"textdollar", "dollar"}, {"USD", "dollar"},
                                      {"euro", "euro"},    {"texteuro", "euro"},     {"EUR", "euro"},
                                      {"pounds", "pound"}, {"GBP", "pound"},         {"yen", "yen"},
                                      {"rupee", "rupee"},  {"INR", "rupee"},         {"Rs", "rupee"}};
  const auto* at = std::find_if(std::begin(kCurrencies), std::end(kCurrencies),
                                [name](const Currency& currency) { return currency.name == name; });
  return at == std::end(kCurrencies) ? std::string_view() : at->unit;
}

long double magnitude_of(std::string_view word) noexcept {
  struct Magnitude {
    std::string_view word;
    long double value;
  };
  constexpr Magnitude kMagnitudes[] = {{"dozen", 12},     {"hundred", 100},   {"thousand", 1e3L}, {"lakh", 1e5L},
                                       {"lakhs", 1e5L},   {"million", 1e6L},  {"crore", 1e7L},    {"crores", 1e7L},
                                       {"billion", 1e9L}, {"trillion", 1e12L}};
  const auto* at = std::find_if(std::begin(kMagnitudes), std::end(kMagnitudes),
                                [word](const Magnitude& magnitude) { return magnitude.word == word; });
  return at == std::end(kMagnitudes) ? 1 : at->value;
}

}  // namespace qrl::reward::math
