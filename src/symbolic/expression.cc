#include "symbolic/expression.h"

#include <fmt/format.h>

#include "base/check.h"
#include "symbolic/text.h"

namespace retort::symbolic {
namespace {

constexpr int kDepthMax = 16;
constexpr size_t kNodesMax = 64;

class Parser {
 public:
  Parser(std::string_view text, std::string_view ops) : scanner_(text), ops_(ops) {}

  std::optional<Expression> parse() {
    if (!binary(0) || !scanner_.done()) return std::nullopt;
    return std::move(expression_);
  }

 private:
  /// An operand, or two with an operator between them.
  std::optional<int> binary(int depth) {
    const std::optional<int> left = operand(depth);
    if (!left) return std::nullopt;
    for (char op : ops_) {
      if (op == kUnary || !scanner_.eat(std::string_view(&op, 1))) continue;
      const std::optional<int> right = operand(depth);
      if (!right) return std::nullopt;
      return expression_.add(op, *left, *right);
    }
    return left;
  }

  std::optional<int> operand(int depth) {
    if (depth >= kDepthMax || expression_.nodes.size() >= kNodesMax) return std::nullopt;
    if (scanner_.eat("(")) {
      const std::optional<int> inside = binary(depth + 1);
      return inside && scanner_.eat(")") ? inside : std::nullopt;
    }
    if (ops_.find(kUnary) != std::string_view::npos && scanner_.eat("~")) {
      const std::optional<int> inside = operand(depth + 1);
      return inside ? std::optional(expression_.add(kUnary, *inside)) : std::nullopt;
    }
    const auto leaf = scanner_.word();
    return leaf ? std::optional(expression_.add_leaf(std::string(*leaf))) : std::nullopt;
  }

  Scanner scanner_;
  std::string_view ops_;
  Expression expression_;
};

std::string write(const Expression& expression, int index, bool outermost,
                  const std::function<std::string(char)>& op_text) {
  const Expression::Node& node = expression.nodes[index];
  if (node.op == 0) return node.leaf;
  const std::string left = write(expression, node.left, false, op_text);
  if (node.op == kUnary) return op_text(kUnary) + left;
  const std::string right = write(expression, node.right, false, op_text);
  return fmt::format("{}{}{}{}{}", outermost ? "" : "(", left, op_text(node.op), right,
                     outermost ? "" : ")");
}

}  // namespace

int Expression::add_leaf(std::string leaf) {
  nodes.push_back({.leaf = std::move(leaf)});
  return root();
}

int Expression::add(char op, int left, int right) {
  CHECK(left < static_cast<int>(nodes.size()) && right < static_cast<int>(nodes.size()));
  nodes.push_back({.op = op, .left = left, .right = right, .leaf = ""});
  return root();
}

int Expression::operations() const {
  int count = 0;
  for (const Node& node : nodes) count += node.op != 0 && node.op != kUnary;
  return count;
}

Expression left_nested(std::span<const std::string> leaves, std::string_view ops) {
  CHECK(leaves.size() == ops.size() + 1, "leaves={} ops={}", leaves.size(), ops.size());
  Expression expression;
  int left = expression.add_leaf(leaves[0]);
  for (size_t i = 0; i < ops.size(); ++i) {
    left = expression.add(ops[i], left, expression.add_leaf(leaves[i + 1]));
  }
  return expression;
}

std::string infix(const Expression& expression, const std::function<std::string(char)>& op_text) {
  return write(expression, expression.root(), true, op_text);
}

std::string compact(const Expression& expression) {
  return infix(expression, [](char op) { return std::string(1, op); });
}

std::string spaced(const Expression& expression) {
  return infix(expression,
               [](char op) { return op == kUnary ? std::string("~") : fmt::format(" {} ", op); });
}

std::optional<Expression> parse_expression(std::string_view text, std::string_view ops) {
  return Parser(text, ops).parse();
}

}  // namespace retort::symbolic
