// Directed graphs: name a cycle, or a topological order if there is none.
//
// One procedure for both cases, each step a look-up in the line before it. A table lists the
// successors of every node. While some nodes have none, they go to the front of the order and the
// table is copied without them. Once every node has a successor, walking along first successors
// must meet a node again. Sinks go first, not sources: a table of successors is read forwards like
// the edges, and the walk gives the cycle in its direction. Asking a small student to find a node
// without edges in a bare edge list hides a search in one step; "none" in the table is seen at
// once.
#include <algorithm>
#include <array>
#include <bit>

#include "base/check.h"
#include "symbolic/text.h"

namespace retort::symbolic {
namespace {

constexpr int kNodesMax = 12;

// {0}: the nodes, {1}: the edges.
constexpr std::array<std::string_view, 12> kPhrasings = {
    "Nodes {0}. Edges {1}. Give a cycle, or a topological order if there is none.",
    "A directed graph has nodes {0} and edges {1}. Find a cycle or a topological order.",
    "Graph on {0}: {1}. Name a cycle; if it is acyclic, sort it topologically.",
    "Does the graph with nodes {0} and arrows {1} have a cycle? Show one, or a topological order.",
    "Vertices: {0}. Arcs: {1}. Output a directed cycle if one exists, else a topological order.",
    "Sort the nodes {0} topologically, given {1}. If that is impossible, show a cycle.",
    "Given the nodes {0} and the directed edges {1}, find a cycle or else a topological order.",
    "Here are nodes {0} with links {1}. Is there a loop? Write it, or order the nodes.",
    "Digraph {0}, edges {1}. Acyclic? Then give a topological order. Otherwise give a cycle.",
    "Order {0} so that all arrows {1} point forwards, or show a cycle that prevents it.",
    "The points {0} are joined by {1}. Present a cycle, or line them up along the arrows.",
    "Among {0} we have the arrows {1}. Exhibit a closed walk or a valid linear order.",
};
constexpr std::string_view kFormat = "\nEnd with \"Answer: cycle ...\" or \"Answer: order ...\".";

/// Bit j of successors[i]: there is an edge from i to j.
struct Graph {
  int nodes = 0;
  std::array<uint32_t, kNodesMax> successors{};

  bool has_edge(int from, int to) const { return successors[from] >> to & 1; }
  void add_edge(int from, int to) { successors[from] |= uint32_t{1} << to; }
  int edges() const {
    int count = 0;
    for (uint32_t set : successors) count += std::popcount(set);
    return count;
  }
};

char letter(int node) { return static_cast<char>('A' + node); }

std::string spelled(std::span<const int> nodes) {
  std::string text;
  for (int node : nodes) {
    if (!text.empty()) text += ' ';
    text += letter(node);
  }
  return text;
}

std::vector<int> members(uint32_t set) {
  std::vector<int> nodes;
  for (int node = 0; node < kNodesMax; ++node) {
    if (set >> node & 1) nodes.push_back(node);
  }
  return nodes;
}

/// "Table A: B D, B: none" of the nodes in `left` alone.
std::string table(const Graph& graph, uint32_t left) {
  std::vector<std::string> rows;
  for (int node : members(left)) {
    const uint32_t set = graph.successors[node] & left;
    rows.push_back(fmt::format("{}: {}", letter(node), set ? spelled(members(set)) : "none"));
  }
  return "Table " + join(rows, ", ");
}

/// Nodes of `left` without a successor there.
uint32_t sinks(const Graph& graph, uint32_t left) {
  uint32_t found = 0;
  for (int node : members(left)) {
    if ((graph.successors[node] & left) == 0) found |= uint32_t{1} << node;
  }
  return found;
}

/// From the first node along first successors until a node comes again; every node left has one.
std::vector<int> walk(const Graph& graph, uint32_t left) {
  std::vector<int> path;
  int node = std::countr_zero(left);
  while (std::ranges::find(path, node) == path.end()) {
    path.push_back(node);
    node = std::countr_zero(graph.successors[node] & left);
  }
  path.push_back(node);
  return path;
}

struct Solution {
  std::string chain;
  std::string answer;
  bool is_cyclic = false;
};

Solution solve(const Graph& graph) {
  uint32_t left = (uint32_t{1} << graph.nodes) - 1;
  std::vector<int> order;
  std::vector<std::string> chain;
  while (left != 0) {
    chain.push_back(table(graph, left));
    const uint32_t ends = sinks(graph, left);
    if (ends == 0) {
      const std::vector<int> path = walk(graph, left);
      chain.push_back("Walk " + spelled(path));
      const auto start = std::ranges::find(path, path.back());
      const std::vector<int> cycle(start, path.end() - 1);
      return {lines(chain), "cycle " + spelled(cycle), true};
    }
    const std::vector<int> next = members(ends);
    order.insert(order.begin(), next.begin(), next.end());
    chain.push_back("Order " + spelled(order));
    left &= ~ends;
  }
  return {lines(chain), "order " + spelled(order), false};
}

/// Edges as pairs of letters, in the order of the nodes.
std::vector<std::string> edge_list(const Graph& graph) {
  std::vector<std::string> edges;
  for (int from = 0; from < graph.nodes; ++from) {
    for (int to : members(graph.successors[from])) edges.push_back({letter(from), letter(to)});
  }
  return edges;
}

std::string canonical_text(const Graph& graph) {
  return fmt::format("cycles {} {}", graph.nodes, join(edge_list(graph), " "));
}

/// No two edges join the same two nodes: a cycle of two is seen without thinking, and with few
/// nodes "cycle A B" would be right too often.
Graph draw_graph(base::Rng& rng, int nodes, int edges) {
  Graph graph{.nodes = nodes};
  while (graph.edges() < edges) {
    const int from = static_cast<int>(rng.below(nodes));
    const int to = static_cast<int>(rng.below(nodes));
    if (from != to && !graph.has_edge(to, from)) graph.add_edge(from, to);
  }
  return graph;
}

bool has_isolated_node(const Graph& graph) {
  uint32_t touched = 0;
  for (int node = 0; node < graph.nodes; ++node) {
    touched |= graph.successors[node];
    if (graph.successors[node]) touched |= uint32_t{1} << node;
  }
  return std::popcount(touched) != graph.nodes;
}

struct Level {
  int nodes;
  int edges_min;
  int edges_max;
};

constexpr std::array<Level, 3> kTraining = {{{4, 4, 5}, {5, 5, 7}, {6, 6, 7}}};
constexpr std::array<Level, 2> kExtrapolation = {{{7, 8, 9}, {8, 9, 10}}};

std::span<const Level> levels_of(Split split) {
  if (split == Split::kExtrapolation) return kExtrapolation;
  return kTraining;
}

/// Half of the graphs have a cycle, at every level.
Graph draw(base::Rng& rng, const Level& level) {
  const bool cyclic = rng.below(2) == 1;
  while (true) {
    const int edges = static_cast<int>(rng.between(level.edges_min, level.edges_max));
    const Graph graph = draw_graph(rng, level.nodes, edges);
    if (!has_isolated_node(graph) && solve(graph).is_cyclic == cyclic) return graph;
  }
}

std::optional<Graph> parse(std::string_view canonical) {
  Scanner scanner(canonical);
  if (!scanner.eat("cycles ")) return std::nullopt;
  Graph graph;
  graph.nodes = scanner.integer().value_or(0);
  if (graph.nodes < 1 || graph.nodes > kNodesMax) return std::nullopt;
  while (!scanner.done()) {
    const auto edge = scanner.letters();
    if (!edge || edge->size() != 2) return std::nullopt;
    const int from = (*edge)[0] - 'A';
    const int to = (*edge)[1] - 'A';
    if (from < 0 || to < 0 || from >= graph.nodes || to >= graph.nodes) return std::nullopt;
    graph.add_edge(from, to);
  }
  return graph;
}

/// Nodes of an answer: single letters with spaces, commas or arrows between them.
std::optional<std::vector<int>> parse_nodes(Scanner scanner, const Graph& graph) {
  std::vector<int> nodes;
  scanner.eat(":");
  while (!scanner.done()) {
    if (!nodes.empty()) scanner.eat(",") || scanner.eat("->");
    const auto name = scanner.letters();
    if (!name || name->size() != 1) return std::nullopt;
    const int node = (*name)[0] - 'a';  // answers arrive in lower case
    if (node < 0 || node >= graph.nodes) return std::nullopt;
    nodes.push_back(node);
  }
  return nodes;
}

bool has_repeats(std::vector<int> nodes) {
  std::ranges::sort(nodes);
  return std::ranges::adjacent_find(nodes) != nodes.end();
}

Check judge_cycle(const Graph& graph, std::vector<int> nodes) {
  // "A B C A" names the cycle A B C.
  if (nodes.size() > 1 && nodes.front() == nodes.back()) nodes.pop_back();
  if (nodes.empty()) return wrong("an empty cycle");
  if (has_repeats(nodes)) return wrong("the cycle visits a node twice");
  for (size_t i = 0; i < nodes.size(); ++i) {
    const int from = nodes[i];
    const int to = nodes[(i + 1) % nodes.size()];
    if (!graph.has_edge(from, to)) return wrong("no edge {} -> {}", letter(from), letter(to));
  }
  return right();
}

Check judge_order(const Graph& graph, const std::vector<int>& nodes) {
  if (has_repeats(nodes)) return wrong("the order names a node twice");
  if (static_cast<int>(nodes.size()) != graph.nodes) {
    return wrong("the order has {} nodes of {}", nodes.size(), graph.nodes);
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (!graph.has_edge(nodes[i], nodes[j])) continue;
      return wrong("the edge {} -> {} points backwards", letter(nodes[i]), letter(nodes[j]));
    }
  }
  return right();
}

std::vector<std::string> prompts_of(const Graph& graph) {
  std::vector<std::string> edges;
  for (const std::string& edge : edge_list(graph)) {
    edges.push_back(fmt::format("{} -> {}", edge[0], edge[1]));
  }
  return fill_all(kPhrasings, kFormat, spelled(members((uint32_t{1} << graph.nodes) - 1)),
                  join(edges, ", "));
}

class Cycles final : public Family {
 public:
  std::string_view name() const override { return "cycles"; }
  std::string_view description() const override {
    return "a cycle of a directed graph, or a topological order";
  }
  int levels() const override { return static_cast<int>(kTraining.size()); }

  Problem sample(base::Rng& rng, Split split) const override {
    const auto choices = levels_of(split);
    const int level = static_cast<int>(rng.below(choices.size()));
    const Graph graph = draw(rng, choices[level]);
    const Solution solution = solve(graph);
    Problem problem;
    choose_prompt(problem, rng, split, prompts_of(graph));
    problem.chain = solution.chain;
    problem.answer = solution.answer;
    problem.canonical = canonical_text(graph);
    problem.level = level + (split == Split::kExtrapolation ? levels() : 0);
    return problem;
  }

  std::vector<std::string> prompts(std::string_view canonical) const override {
    const std::optional<Graph> graph = parse(canonical);
    return graph ? prompts_of(*graph) : std::vector<std::string>();
  }

  base::Result<Check> check(std::string_view canonical, std::string_view text) const override {
    const std::optional<Graph> graph = parse(canonical);
    if (!graph) return foreign(name(), canonical);
    return judge_answer(text, [&](std::string_view answer) {
      Scanner scanner(answer);
      const bool is_cycle = scanner.eat("cycle");
      if (!is_cycle && !scanner.eat("order")) return wrong("neither a cycle nor an order");
      const auto nodes = parse_nodes(scanner, *graph);
      if (!nodes) return wrong("not a list of the graph's nodes: '{}'", answer);
      return is_cycle ? judge_cycle(*graph, *nodes) : judge_order(*graph, *nodes);
    });
  }
};

}  // namespace

const Family& cycles() {
  static const Cycles family;
  return family;
}

}  // namespace retort::symbolic
