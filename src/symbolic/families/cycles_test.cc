// Oracle: exhaustive search. A graph has a cycle if and only if none of the orders of its nodes is
// topological; the right answers are found by trying all permutations and all node sequences.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "symbolic/family.h"

namespace retort::symbolic {
namespace {

struct Graph {
  std::string nodes;
  std::set<std::string> edges;
};

Graph read(const std::string& canonical) {
  std::istringstream words(canonical);
  std::string mark;
  int count = 0;
  words >> mark >> count;
  Graph graph;
  for (int i = 0; i < count; ++i) graph.nodes += static_cast<char>('A' + i);
  for (std::string edge; words >> edge;) graph.edges.insert(edge);
  return graph;
}

bool is_topological(const Graph& graph, const std::string& order) {
  return std::ranges::all_of(graph.edges, [&](const std::string& edge) {
    return order.find(edge[0]) < order.find(edge[1]);
  });
}

bool is_cycle(const Graph& graph, const std::string& nodes) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!graph.edges.contains({nodes[i], nodes[(i + 1) % nodes.size()]})) return false;
  }
  return true;
}

bool is_acyclic(const Graph& graph) {
  std::string order = graph.nodes;
  do {
    if (is_topological(graph, order)) return true;
  } while (std::ranges::next_permutation(order).found);
  return false;
}

std::string without_spaces(std::string text) {
  std::erase(text, ' ');
  return text;
}

std::string with_spaces(const std::string& letters) {
  std::string text;
  for (char c : letters) text += std::string(" ") + c;
  return text;
}

TEST(Cycles, AnswersAreRightByExhaustiveSearch) {
  const Family& family = *find_family("cycles");
  int cyclic = 0;
  for (Split split : {Split::kTrain, Split::kExtrapolation}) {
    for (int i = 0; i < 400; ++i) {
      base::Rng rng(5, i);
      const Problem problem = family.sample(rng, split);
      const Graph graph = read(problem.canonical);
      const std::string nodes = without_spaces(problem.answer.substr(6));
      EXPECT_EQ(graph.nodes.size() <= 6, split == Split::kTrain);
      cyclic += problem.answer.starts_with("cycle");
      if (problem.answer.starts_with("cycle")) {
        EXPECT_FALSE(is_acyclic(graph)) << problem.canonical;
        EXPECT_TRUE(is_cycle(graph, nodes)) << problem.completion();
        EXPECT_EQ(std::set(nodes.begin(), nodes.end()).size(), nodes.size());
      } else {
        EXPECT_EQ(problem.answer.substr(0, 6), "order ");
        EXPECT_TRUE(is_topological(graph, nodes)) << problem.completion();
        EXPECT_EQ(nodes.size(), graph.nodes.size());
      }
    }
  }
  EXPECT_NEAR(cyclic, 400, 60);
}

TEST(Cycles, JudgesEveryPermutationAsTheOracleDoes) {
  const Family& family = *find_family("cycles");
  for (int i = 0; i < 60; ++i) {
    base::Rng rng(6, i);
    const Problem problem = family.sample(rng, Split::kTrain);
    const Graph graph = read(problem.canonical);
    if (graph.nodes.size() > 5) continue;
    std::string order = graph.nodes;
    do {
      const auto as_order = family.check(problem.canonical, "Answer: order" + with_spaces(order));
      EXPECT_EQ(as_order->correct, is_topological(graph, order)) << problem.canonical << order;
      for (size_t length = 1; length <= order.size(); ++length) {
        const std::string nodes = order.substr(0, length);
        const auto as_cycle = family.check(problem.canonical, "Answer: cycle" + with_spaces(nodes));
        EXPECT_EQ(as_cycle->correct, is_cycle(graph, nodes)) << problem.canonical << nodes;
      }
    } while (std::ranges::next_permutation(order).found);
  }
}

/// Each table must be the graph without the nodes ordered so far, the order must grow by the
/// nodes that the table calls "none", and the walk must follow edges.
TEST(Cycles, EveryLineOfTheChainIsTrue) {
  const Family& family = *find_family("cycles");
  for (int i = 0; i < 1000; ++i) {
    base::Rng rng(7, i);
    const Problem problem = family.sample(rng, i % 4 ? Split::kTrain : Split::kExtrapolation);
    const Graph graph = read(problem.canonical);
    std::istringstream chain(problem.chain);
    std::string ordered, table;
    for (std::string line; std::getline(chain, line);) {
      if (line.starts_with("Table ")) {
        table = "Table";
        for (char from : graph.nodes) {
          if (ordered.find(from) != std::string::npos) continue;
          std::string successors;
          for (char to : graph.nodes) {
            if (ordered.find(to) != std::string::npos) continue;
            if (graph.edges.contains({from, to})) successors += to;
          }
          table += table == "Table" ? " " : ", ";
          table += std::string(1, from) + ":";
          table += successors.empty() ? " none" : with_spaces(successors);
        }
        EXPECT_EQ(line, table);
      } else if (line.starts_with("Order ")) {
        const std::string order = without_spaces(line.substr(6));
        std::string ends;
        for (size_t at = 0; (at = table.find(": none", at)) != std::string::npos; ++at) {
          ends += table[at - 1];
        }
        EXPECT_FALSE(ends.empty()) << table;
        EXPECT_EQ(order, ends + ordered);
        ordered = order;
      } else {
        ASSERT_TRUE(line.starts_with("Walk ")) << line;
        const std::string path = without_spaces(line.substr(5));
        EXPECT_EQ(table.find("none"), std::string::npos);
        for (size_t k = 1; k < path.size(); ++k) {
          EXPECT_TRUE(graph.edges.contains({path[k - 1], path[k]})) << path;
        }
        EXPECT_LT(path.find(path.back()), path.size() - 1);
      }
    }
  }
}

TEST(Cycles, ToleratesSeparatorsAndAClosingNode) {
  const Family& family = *find_family("cycles");
  const std::string cyclic = "cycles 4 AB BC CA CD";
  for (const char* answer : {"cycle A B C", "Cycle: A -> B -> C -> A", "cycle b, c, a"}) {
    EXPECT_TRUE(family.check(cyclic, fmt::format("Answer: {}", answer))->correct) << answer;
  }
  for (const char* answer : {"cycle A C B", "cycle", "cycle A", "cycle A B C A B C",
                             "order A B C D", "cycle A B C D", "A B C", "cycle A B C E"}) {
    EXPECT_FALSE(family.check(cyclic, fmt::format("Answer: {}", answer))->correct) << answer;
  }
  EXPECT_TRUE(family.check("cycles 3 AB BC", "Answer: order: A, B, C.")->correct);
  EXPECT_FALSE(family.check("cycles 3 AB BC", "Answer: order A B")->correct);
  EXPECT_FALSE(family.check("cycles 3 AB BC", "Answer: order A B C C")->correct);
  EXPECT_FALSE(family.check("cycles 3 AB BD", "Answer: order A B C"));
}

}  // namespace
}  // namespace retort::symbolic
