#include "yaml_document.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <optional>
#include <sstream>
#include <utility>

namespace muster::cli {
namespace {

constexpr size_t kBytesMax = size_t{1} << 20;
constexpr size_t kDepthMax = 32;
constexpr size_t kNodesMax = 100'000;

// Builds the tree from the parser's events. The first problem is kept; what follows it is ignored.
class Builder final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 2) Fail(mark, "a second document; the file must have exactly one");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { Add(mark, anchor, YamlNode::Kind::kNull); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override { Fail(mark, "aliases are not allowed"); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (tag != "?" && tag != "!" && !tag.empty()) return Fail(mark, "tags are not allowed");
    YamlNode* node = Add(mark, anchor, YamlNode::Kind::kScalar, &value);
    if (node == nullptr) return;
    node->text = value;
    node->plain = tag != "!";
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    Open(mark, anchor, YamlNode::Kind::kSequence);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    Open(mark, anchor, YamlNode::Kind::kMap);
  }
  void OnMapEnd() override { Close(); }

  std::variant<YamlNode, YamlProblem> Take() && {
    if (problem_) return *std::move(problem_);
    if (documents_ == 0 || root_.kind == YamlNode::Kind::kNull) return YamlProblem{0, "the document is empty"};
    return std::move(root_);
  }

 private:
  // One open map or sequence. The tree moves while it grows, so an open node is built beside it.
  struct OpenNode {
    YamlNode node;
    std::optional<std::pair<std::string, int>> key;
  };

  void Fail(const YAML::Mark& mark, std::string message) {
    if (!problem_) problem_ = YamlProblem{mark.line + 1, std::move(message)};
  }

  // A node that is not a key. `text`: of a scalar, which in a map may be the next key; then null is returned.
  YamlNode* Add(const YAML::Mark& mark, YAML::anchor_t anchor, YamlNode::Kind kind, const std::string* text = nullptr) {
    if (anchor != 0) Fail(mark, "anchors are not allowed");
    if (++nodes_ > kNodesMax) Fail(mark, "too many values");
    if (problem_) return nullptr;
    YamlNode node;
    node.kind = kind;
    node.line = mark.line + 1;
    if (stack_.empty()) {
      root_ = std::move(node);
      return &root_;
    }
    OpenNode& parent = stack_.back();
    if (parent.node.kind == YamlNode::Kind::kSequence) return &parent.node.items.emplace_back(std::move(node));
    if (!parent.key) {
      if (text == nullptr) {
        Fail(mark, "a key must be text");
      } else {
        parent.key.emplace(*text, mark.line + 1);
      }
      return nullptr;
    }
    auto [key, line] = *std::exchange(parent.key, std::nullopt);
    return &parent.node.entries.emplace_back(YamlNode::Entry{std::move(key), line, std::move(node)}).value;
  }

  void Open(const YAML::Mark& mark, YAML::anchor_t anchor, YamlNode::Kind kind) {
    if (anchor != 0) Fail(mark, "anchors are not allowed");
    if (stack_.size() >= kDepthMax) Fail(mark, "nested too deeply");
    if (!stack_.empty() && stack_.back().node.kind == YamlNode::Kind::kMap && !stack_.back().key) {
      Fail(mark, "a key must be text");
    }
    if (problem_) return;
    stack_.emplace_back();
    stack_.back().node.kind = kind;
    stack_.back().node.line = mark.line + 1;
  }

  void Close() {
    if (problem_) return;
    YamlNode done = std::move(stack_.back().node);
    stack_.pop_back();
    const YAML::Mark mark;
    YamlNode* slot = Add(mark, 0, done.kind);
    if (slot != nullptr) *slot = std::move(done);
  }

  std::vector<OpenNode> stack_;
  YamlNode root_;
  std::optional<YamlProblem> problem_;
  int documents_ = 0;
  size_t nodes_ = 0;
};

}  // namespace

std::variant<YamlNode, YamlProblem> ParseYaml(std::string_view text) {
  if (text.size() > kBytesMax) return YamlProblem{0, "the file is larger than 1 MiB"};
  Builder builder;
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    // A second document is an error, so there is no need to go on; on some malformed texts yaml-cpp would find
    // empty documents for ever.
    if (parser.HandleNextDocument(builder)) parser.HandleNextDocument(builder);
  } catch (const YAML::Exception& e) {
    return YamlProblem{e.mark.line + 1, "not valid YAML: " + e.msg};  // a mark of -1 is "no mark"
  } catch (const std::exception& e) {
    return YamlProblem{0, std::string("not valid YAML: ") + e.what()};
  }
  return std::move(builder).Take();
}

}  // namespace muster::cli
