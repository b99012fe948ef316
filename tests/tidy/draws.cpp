#include <regex>
#include <set>
#include <string_view>

#include "rules.h"

namespace muster::tidy {
namespace {

// How what stands before a block, and not before a list of initial values, ends: `)`, `]`, `const`, `mutable`, `else`.
constexpr std::string_view kBeforeBlocks = ")];te";

// Walks through the code of a file, and knows in each bracket what of it was drawn already.
class Scan {
 public:
  explicit Scan(std::string code) : code_(std::move(code)) {
    static const std::regex kDraw(R"(\b(Below|Draw|Jitter|OneIn)\((?!\))|\bAny[A-Z]\w*\(|\*rc::gen\b)");
    for (std::sregex_iterator it(code_.begin(), code_.end(), kDraw), end; it != end; ++it) {
      draws_.insert(static_cast<size_t>(it->position()));
    }
  }

  // RETURNS: the lines, from 0, of draws that stand in one expression with another, in no order.
  std::set<size_t> Find() {
    for (size_t i = 0; i < code_.size(); ++i) Step(i);
    return found_;
  }

 private:
  struct Bracket {
    char open = '{';
    bool barrier = true;  // of a function or block: what is in it is no part of the expression around it
    bool in_argument = false;
    bool in_earlier_arguments = false;
    bool in_operand = false;
    bool in_earlier_operands = false;
  };

  void Step(size_t i) {
    if (draws_.contains(i)) Draw();
    Bracket& inner = brackets_.back();
    switch (code_[i]) {
      case '\n':
        ++line_;
        return;
      case '(':
      case '[':
        brackets_.push_back({code_[i], false});
        break;
      case '{':
        brackets_.push_back({'{', kBeforeBlocks.find(last_) != std::string_view::npos});
        break;
      case ')':
      case ']':
      case '}':
        if (brackets_.size() > 1) brackets_.pop_back();
        break;
      case ',':
        // What is in braces is evaluated as it stands.
        inner.in_earlier_arguments = inner.open != '{' && (inner.in_earlier_arguments || inner.in_argument);
        inner.in_argument = inner.in_operand = inner.in_earlier_operands = false;
        break;
      case ';':
        inner = {inner.open, inner.barrier};
        break;
      default:
        Operator(i, &inner);
        break;
    }
    if (!isspace(static_cast<unsigned char>(code_[i]))) last_ = code_[i];
  }

  void Operator(size_t i, Bracket* inner) {
    const char before = i == 0 ? ' ' : code_[i - 1];
    const char after = i + 1 < code_.size() ? code_[i + 1] : ' ';
    const bool alone = before == ' ' && after == ' ';
    switch (code_[i]) {
      case '?':
      case ':':
        if (alone) EndOrdered(inner);
        break;
      case '&':
      case '|':
        if (after == code_[i]) EndOrdered(inner);
        break;
      case '+':
      case '-':
      case '*':
      case '/':
      case '%':
        if (alone) EndOperand(inner);
        break;
      case '=':
        if (after == '=' || before == '!' || before == '<' || before == '>') EndOperand(inner);
        // The right side of an assignment comes before the left.
        if (alone) EndOrdered(inner);
        break;
      default:
        break;
    }
  }

  static void EndOrdered(Bracket* bracket) { bracket->in_operand = bracket->in_earlier_operands = false; }

  static void EndOperand(Bracket* bracket) {
    bracket->in_earlier_operands = bracket->in_earlier_operands || bracket->in_operand;
    bracket->in_operand = false;
  }

  void Draw() {
    for (auto bracket = brackets_.rbegin(); bracket != brackets_.rend(); ++bracket) {
      if (bracket->in_earlier_arguments || bracket->in_earlier_operands) found_.insert(line_);
      bracket->in_argument = bracket->in_operand = true;
      if (bracket->barrier) return;
    }
  }

  const std::string code_;
  std::set<size_t> draws_;
  std::vector<Bracket> brackets_{1};
  char last_ = ';';
  size_t line_ = 0;
  std::set<size_t> found_;
};

}  // namespace

// In which order arguments and operands are evaluated is the compiler's choice. With two draws among them a seed would
// play one run with one compiler and another with the next.
Findings DrawsAreInOrder(const SourceFile& file) {
  if (!(HasExtension(file, ".h") || HasExtension(file, ".cpp")) || !IsUnder(file, {"sim", "tests"})) return {};
  std::string code;
  for (const std::string& line : file.code) code += line + "\n";
  Findings findings;
  for (const size_t line : Scan(std::move(code)).Find()) {
    findings.push_back(file.path + ":" + std::to_string(line + 1) + ": two draws in one expression, in no order");
  }
  return findings;
}

}  // namespace muster::tidy
