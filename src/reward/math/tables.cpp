// The vocabulary, a row per meaning: the meaning, then the names that share it.
#include "reward/math/answer.h"
#include "reward/math/parser.h"
#include "reward/math/vocabulary.h"

namespace qrl::reward::math {

namespace {

using T = TokenType;
using W = WordClass;

constexpr Row function(Law law, std::string_view names) {
  return {W::name, T::function, names, static_cast<char>(law)};
}
constexpr Row unit(char dimension, long double factor, std::string_view names) {
  return {W::unit, T::word, names, dimension, factor};
}
constexpr Row numbers(char kind, long double first, long double step, std::string_view names) {
  return {W::number, T::word, names, kind, first, step};
}
constexpr Row words(W of, std::string_view names) { return {of, T::word, names}; }

// clang-format off
constexpr Row kRows[] = {
    {W::command, T::relation, "@t Longrightarrow Rightarrow gets implies mapsto rightarrow to @c Leftrightarrow cong equiv iff simeq @a approx @g "
                              "ge geq geqslant @l le leq leqslant @> gt @< lt @n ne neq @e in @A subset subsetneq @B subseteq @C supset @D "
                              "supseteq @E notin @F nmid @G parallel @H perp @I propto @J sim @K triangleleft"},
    {W::command, T::op, "@* ast bullet cdot star times @/ div @D backslash setminus smallsetminus @m bmod @p pmod @U bigcup cup @N cap bigcap @h "
                        "choose @d circ degree @: colon @M mp @P pm @o over @' prime @w wedge @v vee @x otimes @O oplus @r rtimes"},
    {W::name, T::op, "@p mod modulo"}, {W::plain, T::op, "@: to @U union @- minus negative Minus Negative @% percent percentage pct"},
    {W::command, T::begin, "begin"}, {W::command, T::finish, "end"}, {W::command, T::newline, "cr"},
    {W::command, T::fraction, "@/ frac cfrac dfrac tfrac sfrac nicefrac @b binom dbinom tbinom"}, {W::name, T::root, "sqrt"},
    {W::command, T::dots, "cdots dots dotsb dotsc ldots vdots"}, {W::command, T::constant, "@0 emptyset varnothing @o infin infty"},
    {W::plain, T::constant, "@o infinity oo infty inf"}, {W::name, T::constant, "@p pi"},
    {W::command, T::open, "@( langle lparen @S lbrace @[ lbrack @C lceil @F lfloor"},
    {W::command, T::close, "@) rangle rparen @S rbrace @] rbrack @C rceil @F rfloor"},
    {W::command, T::bar, "lvert rvert Vert vert lVert rVert @m mid"}, {W::command, T::separator, "@& land @| lor"},
    {W::plain, T::separator, "@& and And @| or Or"},
    {W::command, T::money, "@$=dollar textdollar @$=euro euro texteuro @$=pound pounds @$=yen yen @$=rupee rupee"},
    {W::plain, T::money, "@$=dollar USD @$=euro EUR @$=pound GBP @$=rupee INR Rs"},
    {W::command, T::layout, "displaystyle textstyle limits nolimits hfill thinspace enspace negthinspace scriptstyle par noindent newline nobreak "
                            "mathbf mathsf mathit boldsymbol bm vec overrightarrow boxed fbox underline mathnormal pmb ensuremath "
                            "overleftrightarrow displaylines bold framebox tt bf it sf centerdot medspace thickspace allowbreak because therefore strut hline large Large small normalsize left "
                            "right middle big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr bigm @n quad qquad"},
    // Codes of wrappers: t text, r upright, n a symbol's name, o a function's name, d a command whose argument is
    // ignored.
    {W::command, T::wrapper, "@t text textbf textit textrm textnormal mbox textsf texttt hbox emph textsc textup @r mathrm rm mathtt @n mathbb "
                             "mathcal mathfrak mathscr Bbb @o operatorname @d textcolor colorbox phantom label tag hspace vspace color hphantom "
                             "vphantom"},
    {W::name, T::symbol, "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi omicron rho varrho sigma "
                         "varsigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega ell hbar angle "
                         "aleph nabla partial wp mho Re Im imath jmath dagger bot forall lnot neg Box heartsuit spadesuit clubsuit diamondsuit "
                         "measuredangle beth checkmark blacksquare bigcirc odot perthousand"},
    {W::command, T::symbol, "triangle square top exists diamond complement S"}, {W::sign, T::dots, "..."}, {W::sign, T::cell, "&"},
    {W::sign, T::separator, "@& \\& @, , @; ;"}, {W::sign, T::money, "@$=dollar \\$"},
    {W::sign, T::relation, "@n != @= = == @t => -> @l <= @g >= @< < @> >"}, {W::sign, T::open, "@( ( @[ [ @{ { @S \\{"},
    {W::sign, T::close, "@) ) @] ] @} } @S \\}"}, {W::sign, T::bar, "| \\|"},
    {W::sign, T::op, "@^ ^ ** @/ / @+ + @- - @_ _ \\_ @' ' @% % \\% @: : @! ! @* *"},
    {W::sign, T::layout, ".\t~\t`\t\"\t\\(\t\\)\t\\[\t\\]\t\\,\t\\;\t\\:\t\\!\t\\>\t\\/\t\\ \t\\\n"},
    function(Law::sin, "sin"), function(Law::cos, "cos"), function(Law::tan, "tan"), function(Law::cot, "cot"), function(Law::sec, "sec"),
    function(Law::csc, "csc"), function(Law::arcsin, "arcsin asin"), function(Law::arccos, "arccos acos"), function(Law::arctan, "arctan atan"),
    function(Law::sinh, "sinh"), function(Law::cosh, "cosh"), function(Law::tanh, "tanh"),
    function(Law::exp, "exp"), function(Law::cbrt, "cbrt"), function(Law::abs, "abs"),
    function(Law::floor, "floor"), function(Law::ceil, "ceil"), function(Law::ln, "ln log Log"), function(Law::lg, "lg"),
    function(Law::divisor, "gcd gcf hcf"), function(Law::multiple, "lcm lcd"), function(Law::max, "max"), function(Law::min, "min"),
    function(Law::big, "sum prod lim limsup liminf coprod int iint iiint oint"),
    function(Law::none, "overset underset stackrel coth sech csch cis det arccot arcsec arccsc arcsinh arccosh arctanh arsinh arcosh artanh sup inf arg sgn dim ker deg Pr hom argmax argmin Var "
                        "Cov Res Li erf overline widehat tilde widetilde ddot underbrace overbrace Aut Gal Hom Ext Tor diag trace conj Arg "
                        "widebar overarc wideparen GL SL mathop bigoplus bigotimes"),
    {W::command, T::function, "sign tr rank hat bar dot span char"},

    // Dimensions: l length, m mass, t time, a angle, A current, M amount, and those that Measure::number_of composes; k, f
    // and n temperature, compared as written; c, e, y and r money. Other codes: x a number, / "per", ^ "square", ? a unit
    // without a factor. Factors convert to meter, gram, second, ampere, mole and degree.
    unit('l', 1e-3L, "mm millimeter millimetre"), unit('l', 1e-2L, "cm centimeter centimetre"), unit('l', 0.1L, "dm"), unit('l', 1, "m meter metre"),
    unit('l', 1000, "km kilometer kilometre"), unit('l', 0.0254L, "inch inche in"), unit('l', 0.3048L, "ft foot feet"), unit('l', 0.9144L, "yd yard"),
    unit('l', 1609.344L, "mi mile"), unit('m', 1e-3L, "mg"), unit('m', 1, "g gram"), unit('m', 1000, "kg kilogram"),
    unit('m', 453.59237L, "lb pound gbp"), unit('m', 28.349523125L, "oz ounce"), unit('m', 1e6L, "ton"), unit('t', 1, "s sec second"),
    unit('t', 60, "min minute"), unit('t', 3600, "h hr hour"), unit('t', 86400, "day"), unit('t', 604800, "week"), unit('t', 2629746, "month"),
    unit('t', 31556952, "year"), unit('v', 1e-6L, "ml milliliter cc"), unit('v', 1e-3L, "l liter litre L"), unit('v', 3.785411784e-3L, "gallon"),
    unit('a', 1, "degree deg"), unit('a', 57.2957795130823L, "radian rad"), unit('c', 0.01L, "cent"), unit('c', 1, "dollar usd"), unit('e', 1, "euro eur"),
    unit('y', 1, "yen jpy yuan rmb"), unit('r', 1, "rupee inr"), unit('k', 1, "celsius centigrade"), unit('f', 1, "fahrenheit"), unit('n', 1, "kelvin"),
    unit('s', 1609.344L / 3600, "mph"), unit('s', 1000.0L / 3600, "kph kmh"), unit('p', 1, "pm noon"), unit('d', 1, "am midnight"), unit('x', 12, "dozen"), unit('x', 100, "hundred"), unit('x', 1e3L, "thousand"),
    unit('x', 1e5L, "lakh lakhs"), unit('x', 1e6L, "million"), unit('x', 1e7L, "crore crores"), unit('x', 1e9L, "billion"), unit('x', 1e12L, "trillion"),
    unit('/', 1, "per"), unit('^', 2, "square sq"), unit('^', 3, "cubic"),
    unit('N', 1e3L, "N newton"), unit('N', 1e6L, "kN"), unit('J', 1e3L, "J joule"), unit('J', 1e6L, "kJ"), unit('J', 4184, "cal"),
    unit('J', 4.184e6L, "kcal"), unit('J', 3.6e6L, "Wh"), unit('J', 3.6e9L, "kWh"), unit('J', 1.602176634e-16L, "eV"), unit('W', 1, "mW"),
    unit('W', 1e3L, "W watt"), unit('W', 1e6L, "kW"), unit('W', 1e9L, "MW"), unit('P', 1e3L, "Pa pascal"), unit('P', 1e6L, "kPa"), unit('P', 1e9L, "MPa"),
    unit('P', 1e8L, "bar"), unit('P', 101'325'000, "atm"), unit('V', 1, "mV"), unit('V', 1e3L, "V volt"), unit('V', 1e6L, "kV"), unit('A', 1e-3L, "mA"),
    unit('A', 1, "A ampere"), unit('R', 1e3L, "Omega ohm"), unit('H', 1, "Hz hertz"), unit('H', 1e3L, "kHz"), unit('H', 1e6L, "MHz"), unit('H', 1e9L, "GHz"),
    unit('M', 1, "mol mole"), unit('l', 1e-9L, "nm"), unit('?', 1, "unit cup K C F T cd rpm mu"),

    numbers('n', 0, 1, "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"),
    numbers('n', 20, 10, "twenty thirty forty fifty sixty seventy eighty ninety"), numbers('h', 100, 0, "hundred"), numbers('p', 1000, 0, "thousand"),
    numbers('p', 1'000'000, 0, "million"), numbers('p', 1'000'000'000, 0, "billion"), numbers('/', 2, 0, "half @s halves"), numbers('/', 3, 1, "third fourth fifth sixth seventh eighth ninth tenth"),
    numbers('s', 3, 1, "thirds fourths fifths sixths sevenths eighths ninths tenths"), numbers('/', 4, 0, "quarter @s quarters"),
    numbers('/', 12, 0, "twelfth @s twelfths"), numbers('/', 16, 0, "sixteenth @s sixteenths"), numbers('/', 20, 0, "twentieth @s twentieths"),
    numbers('/', 100, 0, "hundredth @s hundredths"), numbers('/', 1000, 0, "thousandth @s thousandths"), numbers('a', 0, 0, "a an"), numbers('&', 0, 0, "and"), numbers('o', 0, 0, "of"),

    words(W::thousands, ",\t{,}\t\\,\t\\;\t\\!\t\\:\t\\ \t~\t \t,\\!\t{,}\\!\t\\!,\\!\t,\\! \t, \\!\t, \\! \t{,} \t {,}\t {,} \t{,}\\! \t{,} \\!\t{,} \\! \t\\!,\\! \t\\! ,\\! "),
    words(W::dots, "...\t\\dots\t\\ldots"),
    words(W::period, "\\overline{\t\\bar{\t\\dot{\t("),
    words(W::shown, "yes no odd all not dne one two six ten the for any has are was her his its red sun mon up out tue wed thu fri sat none is it "
                       "of to if with per so in day pm am we get got an by as at"),
    words(W::leading, "a an the total of value found to be maximum minimum probability given by equal evaluates nothing but about number integer "
                         "area score price exactly simply therefore thus then hence so just indeed now clearly actually finally also still definitely "
                         "precisely obviously option choice is are equals going approximately approx around roughly answer sum"),
    words(W::temperature, "@k=celsius C @k=fahrenheit F"),
    words(W::verb, "is are equals"),
    words(W::hedge, "approximately approx about around roughly"),
    words(W::closing, "because since as so when for from therefore where which that thus hence we this these whose"),
    words(W::refusal, "absolute large out not never cannot neither nor doubt wrong incorrect false untrue than double triple twice thrice quadruple half near nearly "
                         "almost beyond above below under exceeding exceeds like unlike except excluding without besides until till choose plus times "
                         "before after rejected rejecting reject discarded discarding discard excluded eliminated extraneous ignored ignoring invalid step "
                         "theorem lemma corollary proposition definition equation equations eq figure fig section chapter exercise problem question example "
                         "identity axiom footnote method approach attempt page room january february march april june july august september october november "
                         "december third quarter reciprocal opposite negation inverse square cube root logarithm log ln factorial conjugate multiple divisor "
                         "divisible multiplied divided up close different far such anything everything anyone every between either least most unknown undefined "
                         "impossible isn wasn doesn couldn shouldn won isnt can may might could maybe perhaps possibly successor predecessor percent percentage "
                         "digit digits remainder instead short shy prime if unless guess minus negative product difference bound"),
    words(W::changing, "squared cubed factorial doubled tripled halved halves thirds fifths sixths eighths tenths hundredths thousandths fourths quadrupled "
                          "negated inverted reversed raised rejected discarded minus plus divided multiplied half not wrong incorrect false fails guess bound extraneous "
                          "impossible invalid excluded isn isnt wasn cannot can could might may doesn does base mod modulo remainder choose over power "
                          "sign off or nd rd st th but maybe as perhaps possibly itself if than reciprocal no wait hundredth then else everything"),
    words(W::turning, "isn not never no none false wrong incorrect reciprocal opposite extraneous rejected twice half double triple unlikely impossible "
                         "unknown cube than plus minus times without except factorial logarithm if unless all any guess bound third quarter"),
    words(W::saying, "if unless when wins loses converges diverges profit loss gain above below maximum minimum odd even increasing decreasing increase "
                        "decrease prime composite true false rational irrational positive negative north south east west left right up down before after ago "
                        "later earlier convergent divergent continuous more fewer gained lost older younger ahead behind higher lower clockwise "
                        "counterclockwise discontinuous"),
    words(W::reals, "allrealnumbers allrealvaluesof allrealvalues allreal anyrealnumber anyreal everyrealnumber thesetofallrealnumbers setofallrealnumbers "
                       "realnumbers allreals allofthereals anyrealvalueof"),
    words(W::nothing, "nosolution nosolutions norealsolution norealsolutions emptyset"),
    words(W::condition, "if for when where If For"),
    words(W::shortened, "mr mrs ms dr st rs approx"),
    words(W::concluding, "therefore thus hence so"),
    words(W::denial, "not t doubt false impossible never untrue"),
    words(W::claim, "that think believe say claim mean suppose if"),
    words(W::counting, "factorial factorials permutation permutations permute arrangement arrangements arrange arranged ways order orders ordered"),
    words(W::verdict, "yes no true false"),
    words(W::calling, "f g h F G H O Gamma zeta phi varphi Re Im"),
    words(W::may_call, "A B C D E F G H I J K L M N O P Q R S T U V W X Y Z p q u v w y"),
    words(W::denied, " not\t*not\tn't\tn’t\t not equal to\t cannot be\t\\ne\t\\neq"),
    words(W::joining, ",\t;\tand\tor\t&"),
    words(W::silent, "\\textrm\t\\mathbf\t\\left\t\\right\t\\:\t~\t\\text\t\\textbf\t\\mathrm\t\\quad\t\\qquad\t\\[\t\\]\t\\(\t\\)\t\\ \t\\,\t\\;\t$\t{\t}\t \t\n\t\r"),
    words(W::about, "to\tfor\tof"),
    words(W::says, "is\tare\twas\twould be\tmust be\tshould be\twill be\thas to be\tequals\tbecomes\t是\t为\t:\t=\t："),
    words(W::dash, "- \t– \t— "),
    words(W::tag, "<answer>\t<b>\t<strong>"),
    words(W::choice, "option \tchoice "),
    words(W::article, "a\tan\tthe"),
    words(W::label, "answer:\tanswer :\tans:\tfinal answer:\tthe answer:\tthe final answer:\tanswer is:\t答案:\t答案："),
    words(W::turn, "<|im_end|> <|im_start|> <|eot_id|> <|eom_id|> <|end_of_text|> <|endoftext|> <|end|> <|user|> <|assistant|> <|start_header_id|> "
                      "<|eot|> <|return|> <|eos|> <|EOT|> <end_of_turn> <start_of_turn> <eos> </s> <｜end▁of▁sentence｜> <｜User｜>"),
    words(W::operand, " or\t and\tone in\tover\tover the number\t,\t-\t+\t−\t–\t—\t±\t/\t^\t_\t<\t>\t\\"),
    words(W::noun, "answers\tanswer choice\tanswer option\tanswer\tans.\tans\tcorrect option\tcorrect choice\t答案"),
};

constexpr std::pair<std::string_view, std::string_view> kCharacters[] = {
    {"×", "\\times "}, {"÷", "\\div "}, {"·⋅∙", "\\cdot "}, {"−–—‒‐‑﹣－", "-"}, {"≤⩽", "\\le "}, {"≥⩾", "\\ge "}, {"≠", "\\ne "}, {"≈", "\\approx "},
    {"≡", "\\equiv "}, {"→", "\\to "}, {"⇒", "\\implies "}, {"∈", "\\in "}, {"∪", "\\cup "}, {"∩", "\\cap "}, {"∖", "\\setminus "},
    {"∅", "\\emptyset "}, {"∞", "\\infty "}, {"π", "\\pi "}, {"θ", "\\theta "}, {"α", "\\alpha "}, {"β", "\\beta "}, {"γ", "\\gamma "},
    {"δ", "\\delta "}, {"ε", "\\epsilon "}, {"λ", "\\lambda "}, {"μµ", "\\mu "}, {"ρ", "\\rho "}, {"σ", "\\sigma "}, {"τ", "\\tau "},
    {"φϕ", "\\phi "}, {"ωΩΩ", "\\omega "}, {"Δ", "\\Delta "}, {"Σ", "\\Sigma "}, {"√", "\\sqrt "}, {"∛", "\\sqrt[3]"}, {"∜", "\\sqrt[4]"},
    {"±", "\\pm "}, {"∓", "\\mp "}, {"°º", "\\degree "}, {"⁄∕", "/"}, {"∶", ":"}, {"、，", ","}, {"。", "."}, {"∣", "|"}, {"′’‘", "'"},
    {"…⋯", "\\dots "}, {"ℝ", "\\mathbb{R}"}, {"ℤ", "\\mathbb{Z}"}, {"ℕ", "\\mathbb{N}"}, {"ℚ", "\\mathbb{Q}"}, {"ℂ", "\\mathbb{C}"},
    {"⌊", "\\lfloor "}, {"⌋", "\\rfloor "}, {"⌈", "\\lceil "}, {"⌉", "\\rceil "}, {"⟨", "("}, {"⟩", ")"}, {"∧", ","}, {"∨", ","},
    {"△", "\\triangle "}, {"∠", "\\angle "}, {"⊂", "\\subset "}, {"⊆", "\\subseteq "}, {"∑", "\\sum "}, {"∏", "\\prod "}, {"∫", "\\int "},
    {"€", "\\euro "}, {"£", "\\pounds "}, {"¥￥", "\\yen "}, {"₹", "\\rupee "}, {"¢", "\\text{ cents}"}, {"‖", "\\Vert "}, {"！", " "},
    {"\u200b\ufeff\u200e\u2060", "\\!"}, {"\u00a0\u202f\u2009", "\\,"}};

// Operators in order of priority, with left and right binding powers.
constexpr Operator kOperators[] = {
    {Joint::none, T::separator, ";", 1, 2, Kind::list},
    {Joint::none, T::separator, ",&|", 3, 4, Kind::list},
    {Joint::none, T::relation, "", 10, 11, Kind::relation},
    {Joint::none, T::op, "UND", 20, 21, Kind::set_operation},
    {Joint::none, T::op, ":", 30, 31, Kind::ratio},
    {Joint::none, T::op, "oh", 35, 36, Kind::binomial},  // apply to all that precedes: a \over b, n + 1 \choose k
    {Joint::none, T::op, "+-PM", 40, 41, Kind::sum},
    {Joint::none, T::op, "*/mwvxOr", 50, 51, Kind::product},
    {Joint::none, T::op, "^", 60, 59, Kind::power},
    {Joint::none, T::op, "!%d'_", 70, 71, Kind::factorial},
    {Joint::verb, T::word, "=", 10, 11, Kind::relation},  // "The sum is 5"
    {Joint::divides, T::bar, "F", 10, 11, Kind::relation},
    {Joint::modulo, T::op, "m", 15, 51, Kind::product},
    {Joint::unit, T::word, "", 25, 26, Kind::quantity},
    {Joint::united, T::symbol, "U", 20, 21, Kind::set_operation},   // [1, 2] U [3, 4]
    {Joint::times, T::symbol, "*", 50, 51, Kind::product},          // 6.02 x 10^23
    {Joint::beside, T::end, "*", 50, 60, Kind::product},
    {Joint::equation, T::end, ",", 3, 4, Kind::list},
};

constexpr Rule kRules[] = {
    {"combination", Kind::power, combination, "C_{10}^3"},
    {"combination, scripts in front", Kind::product, combination, "{}_{10}C_3"},
    {"named point", Kind::product, named_point, "A(1,2)"},
    {"words for the reals", Kind::words, named_reals, "\\text{all real numbers}"},
    {"unit", Kind::quantity, with_unit, "5\\text{ cm}"},
    {"capitals in a row", Kind::product, run_of_capitals, "HTH"},
    {"membership", Kind::relation, membership, "x \\in \\{1,2\\}"},
    {"domain", Kind::list, usual_domain, "x^2, x \\in \\mathbb{R}"},
    {"domain within braces", Kind::set, usual_domain, "\\{2k\\pi, k \\in \\mathbb{Z}\\}"},
};

constexpr std::pair<std::string_view, std::string_view> kShells[] = {
    {"$$", "$$"}, {"$", "$"}, {"\\(", "\\)"}, {"\\[", "\\]"}, {"```", "```"}, {"`", "`"}, {"**", "**"}, {"__", "__"},
    {"_", "_"}, {"\"", "\""}, {"<b>", "</b>"}, {"<strong>", "</strong>"}, {"", "**"}, {"", "__"}, {"", "_"}};
// clang-format on

}  // namespace

const std::string_view Fault::kOpenBracket = "an unclosed bracket, bar or environment";
const std::string_view Fault::kUnfitWords = "words that are not part of a formula";
const std::string_view Fault::kNoOperationBetween = "two operands without an operation between them";
const std::string_view Fault::kOperandMissing = "a missing operand, or one nested too deep";
const std::string_view Fault::kUnlikeRows = "rows of different lengths, or an entry with unread text";

std::span<const Row> default_rows() noexcept { return kRows; }
std::span<const std::pair<std::string_view, std::string_view>> shells() noexcept { return kShells; }
std::span<const std::pair<std::string_view, std::string_view>> characters() noexcept { return kCharacters; }
std::span<const Operator> operators() noexcept { return kOperators; }
std::span<const Rule> default_rules() noexcept { return kRules; }

}  // namespace qrl::reward::math
