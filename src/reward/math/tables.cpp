// The rows of the vocabulary. A line a row: what its names mean, then the names.
#include "reward/math/answer.h"
#include "reward/math/extract.h"
#include "reward/math/parser.h"
#include "reward/math/vocabulary.h"

namespace qrl::reward::math {

namespace {

using T = TokenType;
using P = config::MathProfile;
using End = Marker::End;

constexpr NameRow function(Law law, std::string_view names) {
  return {'b', T::function, static_cast<char>(law), "", names};
}

// clang-format off
constexpr NameRow kNames[] = {
    {'c', T::relation, 't', "", "Longrightarrow Rightarrow gets implies mapsto rightarrow to"},
    {'c', T::relation, 'c', "", "Leftrightarrow cong equiv iff simeq"},
    {'c', T::relation, 'a', "", "approx"},
    {'c', T::relation, 'g', "", "ge geq geqslant"},
    {'c', T::relation, 'l', "", "le leq leqslant"},
    {'c', T::relation, '>', "", "gt"},
    {'c', T::relation, '<', "", "lt"},
    {'c', T::relation, 'n', "", "ne neq"},
    {'c', T::relation, 'e', "", "in"},
    {'c', T::relation, 'A', "", "subset subsetneq"},
    {'c', T::relation, 'B', "", "subseteq"},
    {'c', T::relation, 'C', "", "supset"},
    {'c', T::relation, 'D', "", "supseteq"},
    {'c', T::relation, 'E', "", "notin"},
    {'c', T::relation, 'F', "", "nmid"},
    {'c', T::relation, 'G', "", "parallel"},
    {'c', T::relation, 'H', "", "perp"},
    {'c', T::relation, 'I', "", "propto"},
    {'c', T::relation, 'J', "", "sim"},
    {'c', T::relation, 'K', "", "triangleleft"},
    {'c', T::op, '*', "", "ast bullet cdot star times"},
    {'c', T::op, '/', "", "div"},
    {'c', T::op, 'D', "", "backslash setminus smallsetminus"},
    {'c', T::op, 'm', "", "bmod"},
    {'b', T::op, 'p', "", "mod modulo"},
    {'c', T::op, 'p', "", "pmod"},
    {'b', T::op, 'U', "", "cup"},
    {'c', T::op, 'U', "", "bigcup"},
    {'w', T::op, 'U', "", "union"},
    {'c', T::op, 'N', "", "cap bigcap"},
    {'c', T::op, 'h', "", "choose"},
    {'c', T::op, 'd', "", "circ degree"},
    {'c', T::op, ':', "", "colon"},
    {'c', T::op, 'M', "", "mp"},
    {'c', T::op, 'P', "", "pm"},
    {'c', T::op, 'o', "", "over"},
    {'c', T::op, '\'', "", "prime"},
    {'c', T::op, 'w', "", "wedge"},
    {'c', T::op, 'v', "", "vee"},
    {'c', T::op, 'x', "", "otimes"},
    {'c', T::op, 'O', "", "oplus"},
    {'c', T::op, 'r', "", "rtimes"},
    {'w', T::op, '%', "", "percent percentage pct"},
    {'c', T::begin, 0, "", "begin"},
    {'c', T::finish, 0, "", "end"},
    {'c', T::newline, 0, "", "cr"},
    {'c', T::fraction, '/', "", "frac cfrac dfrac tfrac sfrac nicefrac"},
    {'c', T::fraction, 'b', "", "binom dbinom tbinom"},
    {'b', T::root, 0, "", "sqrt"},
    {'c', T::dots, 0, "", "cdots dots dotsb dotsc ldots vdots"},
    {'c', T::constant, '0', "empty", "emptyset varnothing"},
    {'c', T::constant, 'o', "infinity", "infin infty"},
    {'w', T::constant, 'o', "infinity", "infinity oo infty inf"},
    {'b', T::constant, 'p', "pi", "pi"},
    {'c', T::open, '(', "", "langle lparen"},
    {'c', T::close, ')', "", "rangle rparen"},
    {'c', T::open, 'S', "", "lbrace"},
    {'c', T::close, 'S', "", "rbrace"},
    {'c', T::open, '[', "", "lbrack"},
    {'c', T::close, ']', "", "rbrack"},
    {'c', T::open, 'C', "", "lceil"},
    {'c', T::close, 'C', "", "rceil"},
    {'c', T::open, 'F', "", "lfloor"},
    {'c', T::close, 'F', "", "rfloor"},
    {'c', T::bar, 0, "", "lvert rvert Vert vert lVert rVert"},
    {'c', T::bar, 'm', "", "mid"},
    {'c', T::separator, '&', "", "land"},
    {'c', T::separator, '|', "", "lor"},
    {'w', T::separator, '&', "", "and And"},
    {'w', T::separator, '|', "", "or Or"},
    {'c', T::money, 0, "dollar", "textdollar"},
    {'c', T::money, 0, "euro", "euro texteuro"},
    {'c', T::money, 0, "pound", "pounds"},
    {'c', T::money, 0, "yen", "yen"},
    {'c', T::money, 0, "rupee", "rupee"},
    {'w', T::money, 0, "dollar", "USD"},
    {'w', T::money, 0, "euro", "EUR"},
    {'w', T::money, 0, "pound", "GBP"},
    {'w', T::money, 0, "rupee", "INR Rs"},
    {'c', T::layout, '.', "", "left right middle big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr bigm"},
    {'c', T::layout, 'n', "", "quad qquad"},
    {'c', T::layout, 0, "", "displaystyle textstyle limits nolimits hfill thinspace enspace negthinspace scriptstyle par noindent newline "
                            "nobreak bf it sf centerdot medspace thickspace allowbreak because therefore strut hline large Large small normalsize"},
    // of a wrapper: t text, r upright, p plain, n a name of its own, o a function's name, c its second argument, d nothing
    {'c', T::wrapper, 't', "", "text textbf textit textrm textnormal mbox textsf texttt hbox emph textsc textup"},
    {'c', T::wrapper, 'r', "", "mathrm rm mathtt"},
    {'c', T::wrapper, 'p', "", "mathbf mathsf mathit boldsymbol bm vec overrightarrow boxed fbox underline mathnormal pmb ensuremath "
                               "overleftrightarrow displaylines bold framebox tt"},
    {'c', T::wrapper, 'n', "", "mathbb mathcal mathfrak mathscr Bbb"},
    {'c', T::wrapper, 'o', "", "operatorname"},
    {'c', T::wrapper, 'c', "", "textcolor colorbox"},
    {'c', T::wrapper, 'd', "", "phantom label tag hspace vspace color hphantom vphantom"},
    {'b', T::symbol, 0, "", "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi omicron rho "
                            "varrho sigma varsigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon "
                            "Phi Psi Omega ell hbar angle aleph nabla partial wp mho Re Im imath jmath dagger bot forall lnot neg Box "
                            "heartsuit spadesuit clubsuit diamondsuit measuredangle beth checkmark blacksquare bigcirc odot perthousand"},
    {'c', T::symbol, 0, "", "triangle square top exists diamond complement S"},
    {'s', T::dots, 0, "", "..."}, {'s', T::cell, 0, "", "&"}, {'s', T::separator, '&', "", "\\&"}, {'s', T::money, 0, "dollar", "\\$"},
    {'s', T::relation, 'n', "", "!="}, {'s', T::relation, '=', "", "= =="}, {'s', T::relation, 't', "", "=> ->"}, {'s', T::relation, 'l', "", "<="},
    {'s', T::relation, 'g', "", ">="}, {'s', T::relation, '<', "", "<"}, {'s', T::relation, '>', "", ">"}, {'s', T::open, '(', "", "("},
    {'s', T::close, ')', "", ")"}, {'s', T::open, '[', "", "["}, {'s', T::close, ']', "", "]"}, {'s', T::open, 'S', "", "\\{"},
    {'s', T::close, 'S', "", "\\}"}, {'s', T::bar, 0, "", "| \\|"}, {'s', T::separator, ',', "", ","}, {'s', T::separator, ';', "", ";"},
    {'s', T::op, '^', "", "^ **"}, {'s', T::op, '/', "", "/"}, {'s', T::op, '+', "", "+"}, {'s', T::op, '-', "", "-"}, {'s', T::op, '_', "", "_ \\_"},
    {'s', T::op, '\'', "", "'"}, {'s', T::op, '%', "", "% \\%"}, {'s', T::op, ':', "", ":"}, {'s', T::op, '!', "", "!"}, {'s', T::op, '*', "", "*"},
    {'s', T::layout, 0, "", ". ~ ` \" \\( \\) \\[ \\] \\, \\; \\: \\! \\> \\/"},
    function(Law::sin, "sin"), function(Law::cos, "cos"), function(Law::tan, "tan"), function(Law::cot, "cot"), function(Law::sec, "sec"),
    function(Law::csc, "csc"), function(Law::arcsin, "arcsin asin"), function(Law::arccos, "arccos acos"), function(Law::arctan, "arctan atan"),
    function(Law::sinh, "sinh"), function(Law::cosh, "cosh"), function(Law::tanh, "tanh"),
    function(Law::exp, "exp"), function(Law::cbrt, "cbrt"), function(Law::abs, "abs"),
    function(Law::floor, "floor"), function(Law::ceil, "ceil"), function(Law::ln, "ln log Log"), function(Law::lg, "lg"),
    function(Law::divisor, "gcd gcf hcf"), function(Law::multiple, "lcm lcd"), function(Law::max, "max"), function(Law::min, "min"),
    function(Law::big, "sum prod lim limsup liminf coprod int iint iiint oint"), function(Law::stack, "overset underset stackrel"),
    function(Law::none, "coth sech csch cis det arccot arcsec arccsc arcsinh arccosh arctanh arsinh arcosh artanh sup inf arg sgn dim ker deg Pr hom argmax argmin Var "
                        "Cov Res Li erf overline widehat tilde widetilde ddot underbrace overbrace Aut Gal Hom Ext Tor diag trace conj Arg "
                        "widebar overarc wideparen GL SL mathop bigoplus bigotimes"),
    {'c', T::function, 0, "", "sign tr rank hat bar dot span char"},
};

// Dimensions: l length, m mass, t time, v volume, a angle, k f n temperature (compared as written), c e y r money, * a
// magnitude, / and ^ of "per" and "square", ? a unit without a factor here. Factors to meter, gram, second, liter, degree. £ is a pound, and so a mass.
constexpr UnitRow kUnits[] = {
    {'l', 1e-3L, "mm millimeter millimetre"}, {'l', 1e-2L, "cm centimeter centimetre"}, {'l', 0.1L, "dm"}, {'l', 1, "m meter metre"},
    {'l', 1000, "km kilometer kilometre"}, {'l', 0.0254L, "inch inche in"}, {'l', 0.3048L, "ft foot feet"}, {'l', 0.9144L, "yd yard"},
    {'l', 1609.344L, "mi mile"}, {'m', 1e-3L, "mg"}, {'m', 1, "g gram"}, {'m', 1000, "kg kilogram"},
    {'m', 453.59237L, "lb pound gbp"}, {'m', 28.349523125L, "oz ounce"}, {'m', 1e6L, "ton"}, {'t', 1, "s sec second"},
    {'t', 60, "min minute"}, {'t', 3600, "h hr hour"}, {'t', 86400, "day"}, {'t', 604800, "week"}, {'t', 2629746, "month"},
    {'t', 31556952, "year"}, {'v', 1e-3L, "ml milliliter cc"}, {'v', 1, "l liter litre"}, {'v', 3.785411784L, "gallon"},
    {'a', 1, "degree deg"}, {'a', 57.2957795130823L, "radian rad"}, {'c', 0.01L, "cent"}, {'c', 1, "dollar usd"}, {'e', 1, "euro eur"},
    {'y', 1, "yen jpy yuan rmb"}, {'r', 1, "rupee inr"}, {'k', 1, "celsius centigrade"}, {'f', 1, "fahrenheit"}, {'n', 1, "kelvin"},
    {'s', 1609.344L / 3600, "mph"}, {'s', 1000.0L / 3600, "kph kmh"}, {'p', 1, "pm noon"}, {'d', 1, "am midnight"}, {'*', 12, "dozen"}, {'*', 100, "hundred"}, {'*', 1e3L, "thousand"},
    {'*', 1e5L, "lakh lakhs"}, {'*', 1e6L, "million"}, {'*', 1e7L, "crore crores"}, {'*', 1e9L, "billion"}, {'*', 1e12L, "trillion"},
    {'/', 1, "per"}, {'^', 2, "square sq"}, {'^', 3, "cubic"},
    {'?', 1, "unit N J W V A K C F T L Pa Hz mol eV bar atm cal Wh cd rpm kN kJ kW kV mA kPa MPa kHz MHz GHz mol kcal kWh mV mW MW nm Omega mu"},
};

constexpr NumberRow kNumbers[] = {
    {'n', 0, 1, "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"},
    {'n', 20, 10, "twenty thirty forty fifty sixty seventy eighty ninety"}, {'h', 100, 0, "hundred"}, {'p', 1000, 0, "thousand"},
    {'p', 1'000'000, 0, "million"}, {'p', 1'000'000'000, 0, "billion"}, {'/', 2, 0, "half halve"},
    {'/', 3, 1, "third fourth fifth sixth seventh eighth ninth tenth"}, {'/', 4, 0, "quarter"}, {'/', 12, 0, "twelfth"}, {'/', 16, 0, "sixteenth"},
    {'/', 20, 0, "twentieth"}, {'/', 100, 0, "hundredth"}, {'/', 1000, 0, "thousandth"}, {'a', 0, 0, "a an"}, {'&', 0, 0, "and"}, {'o', 0, 0, "of"},
};

constexpr WordRow kWords[] = {
    {WordClass::shown, "yes no odd all not dne one two six ten the for any has are was her his its red sun mon up out tue wed thu fri sat none is it "
                       "of to if with per so in day pm am we get got an by as at"},
    {WordClass::leading, "a an the total of value found to be maximum minimum probability given by equal evaluates nothing but about number integer "
                         "area score price exactly simply therefore thus then hence so just indeed now clearly actually finally also still definitely "
                         "precisely obviously option choice is are equals going approximately approx around roughly answer sum"},
    {WordClass::verb, "is are equals"},
    {WordClass::hedge, "approximately approx about around roughly"},
    {WordClass::closing, "because since as so when for from therefore where which that thus hence we this these whose"},
    {WordClass::refusal, "absolute large out not never cannot neither nor doubt wrong incorrect false untrue than double triple twice thrice quadruple half near nearly "
                         "almost beyond above below under exceeding exceeds like unlike except excluding without besides until till choose plus times "
                         "before after rejected rejecting reject discarded discarding discard excluded eliminated extraneous ignored ignoring invalid step "
                         "theorem lemma corollary proposition definition equation equations eq figure fig section chapter exercise problem question example "
                         "identity axiom footnote method approach attempt page room january february march april june july august september october november "
                         "december third quarter reciprocal opposite negation inverse square cube root logarithm log ln factorial conjugate multiple divisor "
                         "divisible multiplied divided up close different far such anything everything anyone every between either least most unknown undefined "
                         "impossible isn wasn doesn couldn shouldn won isnt can may might could maybe perhaps possibly successor predecessor percent percentage "
                         "digit digits remainder instead short shy prime if unless guess minus negative product difference bound"},
    {WordClass::changing, "squared cubed factorial doubled tripled halved halves thirds fifths sixths eighths tenths hundredths thousandths fourths quadrupled "
                          "negated inverted reversed raised rejected discarded minus plus divided multiplied half not wrong incorrect false fails guess bound extraneous "
                          "impossible invalid excluded isn isnt wasn cannot can could might may doesn does base mod modulo remainder choose over power "
                          "sign off or nd rd st th but maybe as perhaps possibly itself if than reciprocal no wait hundredth then else everything"},
    {WordClass::turning, "isn not never no none false wrong incorrect reciprocal opposite extraneous rejected twice half double triple unlikely impossible "
                         "unknown cube than plus minus times without except factorial logarithm if unless all any guess bound third quarter"},
    {WordClass::saying, "if unless when wins loses converges diverges profit loss gain above below maximum minimum odd even increasing decreasing increase "
                        "decrease prime composite true false rational irrational positive negative north south east west left right up down before after ago "
                        "later earlier convergent divergent continuous more fewer gained lost older younger ahead behind higher lower clockwise "
                        "counterclockwise discontinuous"},
    {WordClass::reals, "allrealnumbers allrealvaluesof allrealvalues allreal anyrealnumber anyreal everyrealnumber thesetofallrealnumbers setofallrealnumbers "
                       "realnumbers allreals allofthereals anyrealvalueof"},
    {WordClass::nothing, "nosolution nosolutions norealsolution norealsolutions emptyset"},
    {WordClass::condition, "if for when where If For"},
    {WordClass::shortened, "mr mrs ms dr st rs approx"},
    {WordClass::concluding, "therefore thus hence so"},
    {WordClass::denial, "not t doubt false impossible never untrue"},
    {WordClass::claim, "that think believe say claim mean suppose if"},
    {WordClass::over, "over"},
    {WordClass::joint, "in of or and to"},
    {WordClass::counting, "factorial factorials permutation permutations permute arrangement arrangements arrange arranged ways order orders ordered"},
    {WordClass::verdict, "yes no true false"},
    {WordClass::ranging, "to"},
    {WordClass::calling, "f g h F G H O Gamma zeta phi varphi Re Im"},
    {WordClass::may_call, "A B C D E F G H I J K L M N O P Q R S T U V W X Y Z p q u v w y"},
    {WordClass::operation, "of by times plus minus over and or"},
};

constexpr PhraseRow kPhrases[] = {
    {Phrase::denied, " not\t*not\tn't\tn’t\t not equal to\t cannot be\t\\ne\t\\neq"},
    {Phrase::joining, ",\t;\tand\tor\t&"},
    {Phrase::silent, "\\textrm\t\\mathbf\t\\left\t\\right\t\\:\t~\t\\text\t\\textbf\t\\mathrm\t\\quad\t\\qquad\t\\[\t\\]\t\\(\t\\)\t\\ \t\\,\t\\;\t$\t{\t}\t \t\n\t\r"},
    {Phrase::about, "to\tfor\tof"},
    {Phrase::verb, "is\tare\twas\twould be\tmust be\tshould be\twill be\thas to be\tequals\tbecomes\t是\t为"},
    {Phrase::sign, ":\t=\t："},
    {Phrase::dash, "- \t– \t— "},
    {Phrase::tag, "<answer>\t<b>\t<strong>"},
    {Phrase::choice, "option \tchoice "},
    {Phrase::article, "a\tan\tthe"},
    {Phrase::negation, "\\lnot\t\\neg\t\\overline\t\\bar"},
    {Phrase::operand, " or\t and\t,\t-\t+\t−\t–\t—\t±"},
};

constexpr std::string_view kCharacters =
    "×\\times\n ÷\\div\n ·⋅∙\\cdot\n −–—‒‐‑﹣－- ≤⩽\\le\n ≥⩾\\ge\n ≠\\ne\n ≈\\approx\n ≡\\equiv\n →\\to\n ⇒\\implies\n "
    "∈\\in\n ∪\\cup\n ∩\\cap\n ∖\\setminus\n ∅\\emptyset\n ∞\\infty\n π\\pi\n θ\\theta\n α\\alpha\n β\\beta\n "
    "γ\\gamma\n "
    "δ\\delta\n ε\\epsilon\n λ\\lambda\n μµ\\mu\n ρ\\rho\n σ\\sigma\n τ\\tau\n φϕ\\phi\n ωΩΩ\\omega\n Δ\\Delta\n "
    "Σ\\Sigma\n √\\sqrt\n ∛\\sqrt[3] ∜\\sqrt[4] ±\\pm\n ∓\\mp\n °º\\degree\n ⁄∕/ ∶: 、，, 。. ∣| ′’‘' …⋯\\dots\n "
    "ℝ\\mathbb{R} ℤ\\mathbb{Z} ℕ\\mathbb{N} ℚ\\mathbb{Q} ℂ\\mathbb{C} ⌊\\lfloor\n ⌋\\rfloor\n ⌈\\lceil\n ⌉\\rceil\n "
    "⟨( ⟩) ∧, ∨, △\\triangle\n ∠\\angle\n ⊂\\subset\n ⊆\\subseteq\n ∑\\sum\n ∏\\prod\n ∫\\int\n €\\euro\n £\\pounds\n "
    "¥￥\\yen\n ₹\\rupee\n ¢\\text{\ncents} ‖\\Vert\n ！\n \u200b\ufeff\u200e\u2060\\! \u00a0\u202f\u2009\\, ";

constexpr Marker kMarkers[] = {
    {P::boxed, "\\boxed", End::brace},
    {P::gsm8k, "####", End::line},
    {P::answer_is, "answers", End::clause},
    {P::answer_is, "answer choice", End::clause},
    {P::answer_is, "answer option", End::clause},
    {P::answer_is, "answer", End::clause},
    {P::answer_is, "ans.", End::clause},
    {P::answer_is, "ans", End::clause},
    {P::answer_is, "correct option", End::clause},
    {P::answer_is, "correct choice", End::clause},
    {P::answer_is, "答案", End::clause},
    {P::answer_tag, "<answer>", End::tag},
};

// In the order of Fault.
constexpr std::string_view kFaults[] = {
    "nested too deep",
    "a bracket, a bar or an environment that is not closed by its like",
    "words that are no part of a formula",
    "two things without an operation between them",
    "an operand is missing, or nested too deep",
    "rows of different lengths, or an entry with something left over",
    "not written in LaTeX or plain mathematics",
};

// In order: binding powers to the left and to the right.
constexpr Operator kOperators[] = {
    {Joint::none, T::relation, "", 10, 11, Kind::relation},
    {Joint::none, T::op, "UND", 20, 21, Kind::set_operation},
    {Joint::none, T::op, ":", 30, 31, Kind::ratio},
    {Joint::none, T::op, "oh", 35, 36, Kind::binomial},  // a \over b, n + 1 \choose k: of all before it
    {Joint::none, T::op, "+-PM", 40, 41, Kind::sum},
    {Joint::none, T::op, "*/mwvxOr", 50, 51, Kind::product},
    {Joint::none, T::op, "^", 60, 59, Kind::power},
    {Joint::none, T::op, "!%d'_", 70, 71, Kind::factorial},
    {Joint::verb, T::word, "=", 10, 11, Kind::relation},  // "The sum is" 5
    {Joint::divides, T::bar, "F", 10, 11, Kind::relation},
    {Joint::modulo, T::op, "m", 15, 51, Kind::product},
    {Joint::unit, T::word, "", 25, 26, Kind::quantity},
    {Joint::ratio, T::word, ":", 30, 31, Kind::ratio},              // 2 to 3
    {Joint::united, T::symbol, "U", 20, 21, Kind::set_operation},   // [1, 2] U [3, 4]
    {Joint::times, T::symbol, "*", 50, 51, Kind::product},          // 6.02 x 10^23
    {Joint::beside, T::end, "*", 50, 60, Kind::product},
};

constexpr Rule kRules[] = {
    {"combination", Kind::power, combination, "C_{10}^3"},
    {"combination, scripts in front", Kind::product, combination, "{}_{10}C_3"},
    {"named point", Kind::product, named_point, "A(1,2)"},
    {"words for the reals", Kind::words, named_reals, "\\text{all real numbers}"},
    {"unit", Kind::quantity, with_unit, "5\\text{ cm}"},
    {"capitals in a row", Kind::product, run_of_capitals, "HTH"},
    {"membership", Kind::relation, membership, "x \\in \\{1,2\\}"},
};

constexpr Shell kShells[] = {{"$$", "$$"}, {"$", "$"}, {"\\(", "\\)"}, {"\\[", "\\]"}, {"```", "```"}, {"`", "`"}, {"**", "**"}, {"__", "__"},
                             {"_", "_"}, {"\"", "\""}, {"<b>", "</b>"}, {"<strong>", "</strong>"}, {"", "**"}, {"", "__"}, {"", "_"}};
// clang-format on

}  // namespace

const Rows& default_rows() noexcept {
  static const Rows rows{kNames, kUnits, kWords, kPhrases, kNumbers};
  return rows;
}

std::span<const Shell> shells() noexcept { return kShells; }
std::string_view characters() noexcept { return kCharacters; }
std::span<const Marker> default_markers() noexcept { return kMarkers; }
std::span<const Operator> operators() noexcept { return kOperators; }
std::span<const Rule> default_rules() noexcept { return kRules; }
std::string_view degrees(std::string_view letter) noexcept {
  return letter == "C" ? "celsius" : letter == "F" ? "fahrenheit" : "";
}
std::string_view text_of(Fault fault) noexcept { return kFaults[static_cast<std::size_t>(fault)]; }

}  // namespace qrl::reward::math
