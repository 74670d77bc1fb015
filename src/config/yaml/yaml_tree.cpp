#include "config/yaml/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "base/text.h"
#include "config/words.h"

namespace qrl::config {

namespace {

constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kMaxAliasNodes = 10'000;
constexpr std::size_t kLongestShownName = 60;

struct Stop {};

/// Builds the tree from events, because the parser's own nodes lose repeated keys and the tags of nulls.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view text, const YamlSource& source, Errors& errors)
      : text_(text), source_(source), errors_(errors) {}

  YamlPtr root() const { return root_; }
  std::size_t num_documents() const { return num_documents_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++num_documents_ == 1) return;
    const bool is_jsonl = source_.has_lines && text_.starts_with('{') && text_.find("\n---") == std::string_view::npos;
    errors_.add(
        source_.at(mark.line + 1), "one document", is_jsonl ? "JSON lines" : "a second document",
        is_jsonl && !source_.if_json_lines.empty() ? source_.if_json_lines : "delete it or move it to its own file");
    throw Stop{};
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_tag(mark, "?");
    finish(make(YamlNode::Kind::null, mark), anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_tag(mark, tag);
    auto node = make(YamlNode::Kind::scalar, mark);
    node->text = value;
    node->quoted = tag != "?";
    finish(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const int line = mark.line + 1;
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end())
      stop(line, "an alias of a value that ends before it", "an alias inside its own anchor");
    const YamlNode& target = *found->second;
    num_alias_nodes_ += target.num_nodes;
    if (num_alias_nodes_ > kMaxAliasNodes) {
      stop(line, "aliases for at most " + std::to_string(kMaxAliasNodes) + " values", "aliases for more values");
    }
    if (stack_.size() + target.height > kMaxDepth) stop_deep(line);
    auto node = std::make_shared<YamlNode>(target);
    node->line = line;
    place(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::sequence, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::map, mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    std::shared_ptr<YamlNode> node;
    YAML::anchor_t anchor = YAML::NullAnchor;
    std::map<std::string, int> lines;  ///< names read in a map, with lines
    std::optional<YamlMember> member;  ///< member whose value comes next; line 0: the value is dropped
  };

  std::shared_ptr<YamlNode> make(YamlNode::Kind kind, const YAML::Mark& mark) const {
    auto node = std::make_shared<YamlNode>();
    node->kind = kind;
    node->line = mark.line + 1;
    return node;
  }

  [[noreturn]] void stop(int line, const std::string& expected, const std::string& got) {
    errors_.add(source_.at(line), expected, got);
    throw Stop{};
  }
  [[noreturn]] void stop_deep(int line) {
    stop(line, "at most " + std::to_string(kMaxDepth) + " levels of nesting", "deeper nesting");
  }

  /// Reads the source where the node begins, because the parser reports neither a bare "!" nor the tags of nulls.
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    auto pos = static_cast<std::size_t>(std::max(mark.pos, 0));
    constexpr std::string_view kBlank = " \t\r\n";
    if (pos < text_.size() && text_[pos] == '&') {
      pos = std::min(text_.find_first_of(kBlank, pos), text_.size());
      pos = std::min(text_.find_first_not_of(kBlank, pos), text_.size());
    }
    const bool in_source = pos < text_.size() && text_[pos] == '!';
    if (!in_source && (tag.empty() || tag == "?" || tag == "!")) return;
    errors_.add(source_.at(mark.line + 1), "a value without a tag", "a tag (!…)", "delete the tag");
  }

  void open(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    refuse_tag(mark, tag);
    if (stack_.size() >= kMaxDepth) stop_deep(mark.line + 1);
    stack_.push_back(Frame{make(kind, mark), anchor, {}, std::nullopt});
  }

  void close() {
    Frame frame = std::move(stack_.back());
    stack_.pop_back();
    finish(std::move(frame.node), frame.anchor);
  }

  void finish(std::shared_ptr<YamlNode> node, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) anchors_[anchor] = node;
    place(std::move(node));
  }

  void place(std::shared_ptr<YamlNode> node) {
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& frame = stack_.back();
    YamlNode& parent = *frame.node;
    if (parent.kind == YamlNode::Kind::map && !frame.member) {
      frame.member = read_name(frame, *node);
      return;
    }
    parent.num_nodes += node->num_nodes;
    parent.height = std::max(parent.height, node->height + 1);
    if (parent.kind == YamlNode::Kind::sequence) {
      parent.items.push_back(std::move(node));
      return;
    }
    YamlMember member = *std::exchange(frame.member, std::nullopt);
    if (member.line == 0) return;
    // For a missing value, the parser gives the next token's position instead of the name's.
    if (node->kind == YamlNode::Kind::null) node->line = member.line;
    member.value = std::move(node);
    parent.members.push_back(std::move(member));
  }

  /// Returns a member with line 0 if the name is refused. The value of such a member is dropped.
  YamlMember read_name(Frame& frame, const YamlNode& node) {
    const std::string where = source_.at(node.line);
    if (node.kind != YamlNode::Kind::scalar) {
      errors_.add(where, "a name before the colon",
                  node.kind == YamlNode::Kind::null ? "nothing (null)" : "a list or map");
      return {};
    }
    if (node.text == "<<" && !node.quoted) {
      errors_.add(where, "keys of this section", "the merge key <<", "write the keys out, or use include: FILE");
      return {};
    }
    const auto [first, fresh] = frame.lines.emplace(node.text, node.line);
    if (!fresh) {
      errors_.add(where + ": " + shown_name(path() + node.text), "each key once in its section",
                  "a repeated key (first on line " + std::to_string(first->second) + ")", "delete one of the two");
      return {};
    }
    return {node.text, node.line, nullptr};
  }

  std::string path() const {
    std::string dotted;
    for (const Frame& frame : stack_) {
      if (frame.member) dotted += frame.member->name.substr(0, kLongestShownName) + ".";
    }
    return dotted;
  }

  std::string_view text_;
  const YamlSource& source_;
  Errors& errors_;
  std::vector<Frame> stack_;
  std::map<YAML::anchor_t, std::shared_ptr<const YamlNode>> anchors_;
  std::size_t num_alias_nodes_ = 0;
  std::size_t num_documents_ = 0;
  YamlPtr root_;
};

/// Returns false and adds an error for bytes that the parser would misread or drop.
bool check_bytes(std::string_view text, const YamlSource& source, Errors& errors) {
  int line = 1;
  const auto refuse = [&](const std::string& expected, const std::string& got, const std::string& advice) {
    errors.add(source.at(line), expected, got, advice);
    return false;
  };
  if (text.size() > kMaxYamlBytes)
    return refuse("at most 1 MB", std::to_string(text.size()) + " bytes", "is this a recipe?");
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
    return refuse("UTF-8 text", "UTF-16", "save the file as UTF-8");
  if (!base::is_utf8(text)) return refuse("UTF-8 text", "bytes that are not UTF-8", "save the file as UTF-8");
  for (std::string_view content : split(text, "\n")) {
    if (content.ends_with('\r')) content.remove_suffix(1);
    for (const char c : content) {
      if (c == 0)
        return refuse("UTF-8 text", "a NUL byte", "UTF-16, UTF-32 and binary files are not read: save as UTF-8");
      if ((static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f) {
        return refuse("printable text", "a control character (" + base::quoted({&c, 1}) + ")",
                      c == '\r' ? "end lines with LF or CRLF" : "delete it, or write it as an escape in double quotes");
      }
    }
    const std::size_t first = std::min(content.find_first_not_of(" \t"), content.size());
    if (content.substr(0, first).find('\t') != std::string_view::npos && first < content.size() &&
        content[first] != '#')
      return refuse("spaces for indentation", "a tab", "replace it with spaces");
    ++line;
  }
  return true;
}

}  // namespace

YamlPtr parse_yaml(std::string_view text, const YamlSource& source, Errors& errors) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  if (!check_bytes(text, source, errors)) return nullptr;
  std::istringstream stream{std::string(text)};
  TreeBuilder builder(text, source, errors);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) continue;
  } catch (const Stop&) {
    return nullptr;
  } catch (const YAML::Exception& error) {
    errors.add(source.at(std::max(error.mark.line, 0) + 1), "well-formed YAML",
               "a parser error (" + base::quoted(error.msg) + ")", "look at this line and the one above it");
    return nullptr;
  }
  return builder.num_documents() == 0 ? std::make_shared<const YamlNode>() : builder.root();
}

YamlPtr parse_own_yaml(std::string_view text, const std::string& name) {
  Errors errors;
  YamlPtr root = parse_yaml(text, {name}, errors);
  errors.raise();
  return root;
}

}  // namespace qrl::config
