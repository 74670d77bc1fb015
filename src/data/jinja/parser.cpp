#include <algorithm>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "data/jinja/jinja.h"

namespace qrl::data::jinja {

namespace {

constexpr int kMaxDepth = 30;  // of nested expressions and statements

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Node run() {
    Node all = statements();
    if (token().kind != TokenKind::end) throw Unsupported("a stray " + base::quoted(tag_name()));
    return all;
  }

 private:
  const Token& token(std::size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  bool is(TokenKind kind, std::string_view text, std::size_t ahead = 0) const {
    return token(ahead).kind == kind && token(ahead).text == text;
  }
  bool is_sign(std::string_view text, std::size_t ahead = 0) const { return is(TokenKind::sign, text, ahead); }
  bool is_word(std::string_view text, std::size_t ahead = 0) const { return is(TokenKind::name, text, ahead); }
  bool take_sign(std::string_view text) { return is_sign(text) ? (++at_, true) : false; }
  bool take_word(std::string_view text) { return is_word(text) ? (++at_, true) : false; }
  void expect_sign(std::string_view text) {
    if (!take_sign(text)) throw Unsupported("no " + base::quoted(std::string(text)) + " where one belongs");
  }
  std::string expect_name() {
    if (token().kind != TokenKind::name) throw Unsupported("no name where one belongs");
    return tokens_[at_++].text;
  }

  class Deeper {
   public:
    explicit Deeper(int& depth) : depth_(depth) {
      if (++depth_ > kMaxDepth) throw Unsupported("a template nested too deeply");
    }
    ~Deeper() { --depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    int& depth_;
  };

  /// The word that a tag begins with, where a tag begins; else "".
  std::string tag_name() const {
    return is_sign("{%") && token(1).kind == TokenKind::name ? token(1).text : std::string();
  }

  /// Up to a tag that ends or continues what is around them.
  Node statements() {
    const Deeper deeper(depth_);
    Node block{NodeKind::block};
    for (;;) {
      if (token().kind == TokenKind::text) {
        block.children.push_back({NodeKind::text, tokens_[at_++].text});
      } else if (take_sign("{{")) {
        Node output{NodeKind::output};
        output.children.push_back(expression());
        expect_sign("}}");
        block.children.push_back(std::move(output));
      } else if (is_sign("{%")) {
        const std::string name = tag_name();
        if (name == "else" || name == "elif" || name.starts_with("end")) return block;
        at_ += 2;
        block.children.push_back(statement(name));
      } else {
        return block;
      }
    }
  }

  void end_tag(const std::string& name) {
    if (tag_name() != name) throw Unsupported("no " + base::quoted(name) + " where one belongs");
    at_ += 2;
    expect_sign("%}");
  }

  Node statement(const std::string& name) {
    if (name == "if") return branch();
    if (name == "for") return loop();
    if (name == "set") return set();
    if (name == "generation") {  // marks the answer for training; writes nothing itself
      expect_sign("%}");
      return body_until("endgeneration");
    }
    if (name == "macro") {  // writes nothing until it is called, which is an error then
      while (!take_sign("%}")) {
        if (token().kind == TokenKind::end) throw Unsupported("a tag that does not end");
        ++at_;
      }
      (void)body_until("endmacro");
      return {NodeKind::block};
    }
    if ((name == "break" || name == "continue") && take_sign("%}")) return {NodeKind::unsupported, "`" + name + "`"};
    throw Unsupported("the tag " + base::quoted(name));
  }

  Node body_until(const std::string& end) {
    Node body = statements();
    end_tag(end);
    return body;
  }

  Node branch() {
    Node node{NodeKind::branch};
    for (bool has_condition = true; has_condition;) {
      node.children.push_back(expression());
      expect_sign("%}");
      node.children.push_back(statements());
      has_condition = tag_name() == "elif";
      if (has_condition) at_ += 2;
    }
    if (tag_name() == "else") {
      at_ += 2;
      expect_sign("%}");
      node.children.push_back(statements());
    }
    end_tag("endif");
    return node;
  }

  Node loop() {
    Node node{NodeKind::loop, expect_name()};
    bool is_known = true;
    while (take_sign(",")) {
      is_known = false;
      (void)expect_name();
    }
    if (!take_word("in")) throw Unsupported("a loop without `in`");
    node.children.push_back(disjunction());
    if (take_word("if")) {
      is_known = false;
      (void)disjunction();
    }
    expect_sign("%}");
    node.children.push_back(statements());
    if (tag_name() == "else") {
      is_known = false;
      at_ += 2;
      expect_sign("%}");
      (void)statements();
    }
    end_tag("endfor");
    return is_known ? std::move(node) : Node{NodeKind::unsupported, "a loop over pairs, with a condition or `else`"};
  }

  Node set() {
    Node node{NodeKind::set, expect_name()};
    if (take_sign(".")) node.attribute = expect_name();
    if (take_sign("%}")) {
      (void)body_until("endset");
      return {NodeKind::unsupported, "`set` of a block"};
    }
    expect_sign("=");
    node.children.push_back(expression());
    expect_sign("%}");
    return node;
  }

  Node expression() {
    const Deeper deeper(depth_);
    Node value = disjunction();
    while (take_word("if")) {
      Node node{NodeKind::conditional};
      node.children.push_back(disjunction());
      node.children.push_back(std::move(value));
      if (take_word("else")) node.children.push_back(expression());
      value = std::move(node);
    }
    return value;
  }

  static Node binary(std::string sign, Node left, Node right) {
    Node node{NodeKind::binary, std::move(sign)};
    node.children.push_back(std::move(left));
    node.children.push_back(std::move(right));
    return node;
  }

  Node disjunction() {
    Node left = conjunction();
    while (take_word("or")) left = binary("or", std::move(left), conjunction());
    return left;
  }
  Node conjunction() {
    Node left = negation();
    while (take_word("and")) left = binary("and", std::move(left), negation());
    return left;
  }
  Node negation() {
    const Deeper deeper(depth_);
    if (!take_word("not")) return comparison();
    Node node{NodeKind::negation};
    node.children.push_back(negation());
    return node;
  }
  Node comparison() {
    Node left = sum();
    const auto compares = [this] {
      for (const char* sign : {"==", "!=", "<", "<=", ">", ">="}) {
        if (is_sign(sign)) return true;
      }
      return is_word("in") || (is_word("not") && is_word("in", 1));
    };
    if (!compares()) return left;
    std::string sign = tokens_[at_++].text;
    if (sign == "not") {
      ++at_;
      sign = "not in";
    }
    left = binary(sign, std::move(left), sum());
    while (compares()) {
      at_ += is_word("not") ? 2 : 1;
      (void)sum();
      left = {NodeKind::unsupported, "a chain of comparisons"};
    }
    return left;
  }
  Node sum() {
    Node left = concatenation();
    while (is_sign("+") || is_sign("-")) {
      std::string sign = tokens_[at_++].text;
      left = binary(std::move(sign), std::move(left), concatenation());
    }
    return left;
  }
  Node concatenation() {
    Node left = product();
    while (take_sign("~")) left = binary("~", std::move(left), product());
    return left;
  }
  Node product() {
    Node left = unary(true);
    while (is_sign("*") || is_sign("/") || is_sign("//") || is_sign("%") || is_sign("**")) {
      std::string sign = tokens_[at_++].text;
      left = binary(std::move(sign), std::move(left), unary(true));
    }
    return left;
  }

  /// A minus binds tighter than a filter on what is behind it.
  Node unary(bool with_filters) {
    const Deeper deeper(depth_);
    if (take_sign("-")) {
      Node node{NodeKind::minus};
      node.children.push_back(unary(false));
      return with_filters ? filters(std::move(node)) : node;
    }
    Node value = postfix(primary());
    return with_filters ? filters(std::move(value)) : value;
  }

  Node primary() {
    const Token& now = token();
    if (now.kind == TokenKind::string) {
      Node node{NodeKind::literal};
      while (token().kind == TokenKind::string) node.text += tokens_[at_++].text;
      return node;
    }
    if (now.kind == TokenKind::number) {
      Node node{NodeKind::number};
      node.number = std::stoll(now.text);
      ++at_;
      return node;
    }
    if (now.kind == TokenKind::name) {
      const std::string name = expect_name();
      if (name == "none" || name == "None") return {NodeKind::none};
      const bool is_true = name == "true" || name == "True";
      if (is_true || name == "false" || name == "False") return {NodeKind::boolean, {}, {}, is_true ? 1 : 0};
      return {NodeKind::name, name};
    }
    if (take_sign("(")) {
      Node value = expression();
      while (take_sign(",")) {
        if (!is_sign(")")) (void)expression();
        value = {NodeKind::unsupported, "a tuple"};
      }
      expect_sign(")");
      return value;
    }
    if (take_sign("{")) {
      for (int open = 1; open > 0; ++at_) {  // the lexer ends no tag before they are closed
        if (token().kind == TokenKind::end) throw Unsupported("an object that does not end");
        open += is_sign("{") ? 1 : is_sign("}") ? -1 : 0;
      }
      return {NodeKind::unsupported, "an object"};
    }
    if (take_sign("[")) {
      Node node{NodeKind::list};
      while (!take_sign("]")) {
        node.children.push_back(expression());
        if (!is_sign("]")) expect_sign(",");
      }
      return node;
    }
    throw Unsupported("the sign " + base::quoted(now.text) + " where a value belongs");
  }

  Node postfix(Node value) {
    for (;;) {
      Node node;
      if (take_sign(".")) node = {NodeKind::attribute, expect_name()};
      else if (take_sign("[")) node = subscript();
      else if (is_sign("(")) node = {NodeKind::call};
      else return value;
      node.children.insert(node.children.begin(), std::move(value));
      if (node.kind == NodeKind::call) arguments(node);
      value = std::move(node);
    }
  }

  /// What stands in brackets behind a value: children are all but that value.
  Node subscript() {
    const Node absent{NodeKind::none, ":"};
    Node first = is_sign(":") ? absent : expression();
    if (take_sign("]")) {
      Node node{NodeKind::item};
      node.children.push_back(std::move(first));
      return node;
    }
    Node node{NodeKind::slice};
    node.children.push_back(std::move(first));
    for (int part = 1; part < 3; ++part) {
      const bool is_there = take_sign(":") && !is_sign(":") && !is_sign("]");
      node.children.push_back(is_there ? expression() : absent);
    }
    expect_sign("]");
    return node;
  }

  void arguments(Node& call) {
    expect_sign("(");
    while (!take_sign(")")) {
      if (token().kind == TokenKind::name && is_sign("=", 1)) {
        Node keyword{NodeKind::keyword, expect_name()};
        ++at_;
        keyword.children.push_back(expression());
        call.children.push_back(std::move(keyword));
      } else {
        call.children.push_back(expression());
      }
      if (!is_sign(")")) expect_sign(",");
    }
  }

  Node filters(Node value) {
    for (;;) {
      Node node;
      if (take_sign("|")) {
        node = {NodeKind::filter, expect_name()};
        node.children.push_back(std::move(value));
        if (is_sign("(")) arguments(node);
      } else if (take_word("is")) {
        const bool is_negated = take_word("not");
        node = {NodeKind::test, expect_name()};
        node.children.push_back(std::move(value));
        const bool has_argument = token().kind == TokenKind::string || token().kind == TokenKind::number;
        if (is_sign("(")) arguments(node);
        else if (has_argument) node.children.push_back(primary());
        if (is_negated) {
          Node negated{NodeKind::negation};
          negated.children.push_back(std::move(node));
          node = std::move(negated);
        }
      } else {
        return value;
      }
      value = std::move(node);
    }
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Node parse_statements(const std::string& text) { return Parser(words_of(text)).run(); }

}  // namespace qrl::data::jinja
