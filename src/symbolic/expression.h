// Expressions in full parentheses, as several families ask them: "((3*4)+5)*2", "~(101&011)|110".
// A value type; leaves are texts that the family reads as its own elements.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace retort::symbolic {

inline constexpr char kUnary = '~';  // the one prefix operator

struct Expression {
  struct Node {
    char op = 0;    // 0: a leaf
    int left = -1;  // index of an earlier node; the operand of a prefix operator
    int right = -1;
    std::string leaf;
  };
  std::vector<Node> nodes;  // operands before operators; the last one is the root

  int add_leaf(std::string leaf);
  int add(char op, int left, int right = -1);
  int root() const { return static_cast<int>(nodes.size()) - 1; }
  int operations() const;
};

/// ((a o b) o c) o d: each result is the first operand of the next operation.
Expression left_nested(std::span<const std::string> leaves, std::string_view ops);

/// Writes the expression; `op_text` turns an operator into what stands between its operands.
std::string infix(const Expression& expression, const std::function<std::string(char)>& op_text);
/// Without spaces, for the canonical form; parse_expression reads it back.
std::string compact(const Expression& expression);
/// One space on each side of the operators.
std::string spaced(const Expression& expression);

/// Reads a fully parenthesised expression over the operators in `ops`; leaves are runs of letters
/// and digits. nullopt if malformed or larger than any family makes (so that recursion is bounded).
std::optional<Expression> parse_expression(std::string_view text, std::string_view ops);

}  // namespace retort::symbolic
