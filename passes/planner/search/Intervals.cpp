// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tables of pieces and their products.

#include "passes/planner/search/Intervals.h"

#include "passes/planner/search/Recomputing.h"
#include "passes/planner/solver/MinSum.h"

namespace cleave::search {

void IntervalSums::addPiece(const Sums &piece, double entryBytes) {
  checkpoints += entryBytes;
  largestPiece = std::max(largestPiece, piece.saved);
  largestRest = std::max(largestRest, piece.saved - piece.savedProducts);
}

/// Of a path of pieces from the beginning of an interval: by state of the tensor at its end, the least cost.
struct Intervals::Products {
  llvm::MutableArrayRef<double> values; ///< In `productMemory`.
  unsigned best = none; ///< The state at the end with which a stage takes least that ends there, `least` seconds.
  double least = solver::forbidden;
  /// What it amounts to, by state at the end, where somebody asked: paths that go on from here ask for few. For `none`,
  /// that of such a stage.
  std::map<unsigned, IntervalSums> sums;
};

/// A path of pieces: one more piece behind a shorter path.
struct Intervals::Node {
  unsigned parent = none, piece = none;
  std::map<unsigned, unsigned> longer;
  llvm::DenseMap<unsigned, Products *> products; ///< By objective.
};

Intervals::Intervals(const SearchGraph &graph, FixedFactors fixed)
    : graph(graph), fixed(std::move(fixed)), nodeByLayers(2 * graph.boundaries.size() * graph.boundaries.size(), none) {
  nodes.emplace_back();
}
Intervals::~Intervals() = default;

unsigned Intervals::addSetting(Setting setting) {
  settings.push_back(std::move(setting));
  tables.emplace_back();
  objectivesOf.emplace_back();
  return settings.size() - 1;
}

unsigned Intervals::objectiveOf(unsigned setting, const Weights &weights) {
  for (unsigned known : objectivesOf[setting])
    if (objectives[known].weights == weights)
      return known;
  objectives.push_back({setting, weights});
  objectivesOf[setting].push_back(objectives.size() - 1);
  return objectives.size() - 1;
}

void Intervals::forget() {
  for (auto &ofSetting : tables)
    ofSetting.clear();
  for (Node &node : nodes)
    node.products.clear();
  allProducts.clear();
  productMemory.Reset();
  bundles.clear();
}

static std::string typeOf(const SearchGraph &graph, unsigned tensor) {
  if (tensor == none)
    return "-";
  std::string text;
  llvm::raw_string_ostream out(text);
  const Tensor &known = graph.tensors[tensor];
  out << known.value.getType() << known.batched << known.learns;
  return text;
}

/// How many operands of operators [first, last) are summed earlier in a stage that begins with operator `stageStart`.
static unsigned countSummedEarlier(const SearchGraph &graph, unsigned first, unsigned last, unsigned stageStart) {
  unsigned count = 0;
  for (const SharedParameter &shared : graph.shared) {
    auto inStage = llvm::ArrayRef(shared.holders).drop_while([&](unsigned holder) { return holder < stageStart; });
    if (!inStage.empty())
      count += llvm::count_if(inStage.drop_front(), [&](unsigned holder) { return holder >= first && holder < last; });
  }
  return count;
}

unsigned Intervals::pieceOf(unsigned first, unsigned last, unsigned stageStart) {
  const Boundary &from = graph.boundaries[first], &to = graph.boundaries[last], &start = graph.boundaries[stageStart];
  auto [entry, isNew] =
      pieceByLayers.try_emplace({first, last, countSummedEarlier(graph, from.at, to.at, start.at)}, 0);
  if (!isNew)
    return entry->second;
  std::string key = graph.structureOf(from.at, to.at, start.at) + typeOf(graph, from.single) + typeOf(graph, to.single);
  for (unsigned index = from.at; index != to.at; ++index)
    if (auto known = fixed.find(index); known != fixed.end())
      key += "f" + std::to_string(index);
  auto [structure, isNewStructure] = pieceByStructure.try_emplace(std::move(key), pieces.size());
  if (isNewStructure)
    pieces.push_back({first, last, stageStart});
  return entry->second = structure->second;
}

llvm::SmallVector<unsigned> Intervals::cutsOf(unsigned first, unsigned last) const {
  llvm::SmallVector<unsigned> cuts = {first};
  for (unsigned layer = first + 1; layer < last; ++layer)
    if (unsigned at = layer % numLayers(); at == 0 || graph.boundaries[at].single != none)
      cuts.push_back(layer);
  cuts.push_back(last);
  return cuts;
}

unsigned Intervals::nodeOf(unsigned first, unsigned last) {
  unsigned layers = numLayers(), around = first >= layers ? layers : 0;
  first -= around;
  last -= around;
  unsigned &known = nodeByLayers[2 * first * graph.boundaries.size() + last];
  if (known != none)
    return known;
  unsigned node = 0;
  llvm::SmallVector<unsigned> cuts = cutsOf(first, last);
  for (auto [begin, end] : llvm::zip(llvm::ArrayRef(cuts).drop_back(), llvm::ArrayRef(cuts).drop_front())) {
    unsigned passed = begin >= layers ? layers : 0;
    unsigned piece = pieceOf(begin - passed, end - passed, passed == 0 ? first : 0);
    auto [longer, isNewNode] = nodes[node].longer.try_emplace(piece, nodes.size());
    unsigned next = longer->second;
    if (isNewNode) {
      Node &made = nodes.emplace_back();
      made.parent = node;
      made.piece = piece;
    }
    node = next;
  }
  return known = node;
}

unsigned Intervals::classOf(unsigned first, unsigned last) { return nodeOf(first, last); }

Intervals::Table &Intervals::tableOf(unsigned piece, unsigned setting) {
  std::vector<std::unique_ptr<Table>> &known = tables[setting];
  if (known.size() <= piece)
    known.resize(pieces.size());
  std::unique_ptr<Table> &table = known[piece];
  if (!table) {
    auto [first, last, stageStart] = pieces[piece];
    const Boundary &from = graph.boundaries[first], &to = graph.boundaries[last];
    const auto &[grid, cost, ofSetting] = settings[setting];
    PieceOptions options = ofSetting;
    options.stageStart = graph.boundaries[stageStart].at;
    table = std::make_unique<Table>(
        std::make_unique<Piece>(graph, from.at, to.at, from.single, to.single, *grid, *cost, options, fixed), layouts);
  }
  return *table;
}

llvm::ArrayRef<double> Intervals::valuesBefore(unsigned node, unsigned objective) {
  if (nodes[node].parent == 0)
    return tableOf(nodes[node].piece, objectives[objective].setting).entrySeconds;
  return productsOf(nodes[node].parent, objective).values;
}

Intervals::Products &Intervals::productsOf(unsigned node, unsigned objective) {
  if (Products *known = nodes[node].products.lookup(objective))
    return *known;
  const auto &[setting, weights] = objectives[objective];
  Table &table = tableOf(nodes[node].piece, setting);
  llvm::ArrayRef<double> before = valuesBefore(node, objective);
  const Table::Solved &solved = table.solve(weightsAt(node, weights));
  Products &made = allProducts.emplace_back();
  made.values = {productMemory.Allocate<double>(table.exits), table.exits};
  llvm::fill(made.values, solver::forbidden);
  for (unsigned entry = 0; solved.values() && entry != table.entries; ++entry) {
    const double *row = solved.values()->data() + static_cast<size_t>(entry) * table.exits;
    solver::lowerToSum(made.values.data(), before[entry], &row, 1, table.exits);
  }
  for (unsigned exit = 0; exit != table.exits; ++exit)
    if (double seconds = made.values[exit] + table.exitSeconds[exit]; seconds < made.least) {
      made.least = seconds;
      made.best = exit;
    }
  nodes[node].products[objective] = &made;
  return made;
}

Weights Intervals::weightsAt(unsigned node, const Weights &weights) const {
  return weights.ofPiece(/*isFirst=*/nodes[node].parent == 0);
}

/// The state before the last piece of a path on the best way to one behind it.
unsigned Intervals::entryOf(unsigned node, unsigned exit, unsigned objective) {
  const auto &[setting, weights] = objectives[objective];
  Table &table = tableOf(nodes[node].piece, setting);
  llvm::ArrayRef<double> before = valuesBefore(node, objective);
  const std::vector<double> &values = *table.solve(weightsAt(node, weights)).values();
  unsigned best = 0;
  for (unsigned entry = 1; entry != table.entries; ++entry)
    if (before[entry] + values[static_cast<size_t>(entry) * table.exits + exit] <
        before[best] + values[static_cast<size_t>(best) * table.exits + exit])
      best = entry;
  return best;
}

/// A piece by itself.
static IntervalSums alone(const Sums &piece, double entryBytes) {
  IntervalSums sums;
  static_cast<Sums &>(sums) = piece;
  sums.addPiece(piece, entryBytes);
  return sums;
}

const IntervalSums &Intervals::sumsAt(unsigned node, unsigned exit, unsigned objective) {
  auto [known, isNew] = productsOf(node, objective).sums.try_emplace(exit);
  IntervalSums &to = known->second;
  if (!isNew)
    return to;
  const auto &[setting, weights] = objectives[objective];
  Table &table = tableOf(nodes[node].piece, setting);
  unsigned entry = entryOf(node, exit, objective);
  if (nodes[node].parent == 0)
    static_cast<Sums &>(to) = table.entryAt(entry);
  else
    to = sumsAt(nodes[node].parent, entry, objective);
  Table::Solved &solved = table.solve(weightsAt(node, weights));
  IntervalSums own = alone(table.sumsAt(solved, entry, exit), table.entryBytesAt(entry));
  to.add(own);
  to.addPiece(own, own.checkpoints);
  if (solved.hasWays())
    to.keptByPiece += keptBytes(own, table.wayAt(solved, entry, exit), weights.checkpoints);
  return to;
}

const IntervalSums *Intervals::best(unsigned first, unsigned last, unsigned setting, const Weights &weights) {
  unsigned node = nodeOf(first, last), objective = objectiveOf(setting, weights);
  Products &products = productsOf(node, objective);
  if (products.best == none)
    return nullptr;
  auto [known, isNew] = products.sums.try_emplace(none);
  if (isNew) {
    known->second = sumsAt(node, products.best, objective);
    known->second.add(tableOf(nodes[node].piece, setting).exitAt(products.best));
  }
  return &known->second;
}

double Intervals::least(unsigned first, unsigned last, unsigned setting, const Weights &weights) {
  return productsOf(nodeOf(first, last), objectiveOf(setting, weights)).least;
}

unsigned Intervals::addBundle(unsigned setting, const Bundle &bundle) {
  assert(llvm::none_of(bundle, [](const Weights &weights) { return weights.byPiece; }) && "bundles have no ways");
  bundles.push_back({setting, bundle, {}, {}});
  return bundles.size() - 1;
}

const std::vector<double> &Intervals::lanesOf(Table &table, unsigned piece, BundleCosts &costs) {
  if (costs.byPiece.size() <= piece)
    costs.byPiece.resize(pieces.size());
  std::vector<double> &values = costs.byPiece[piece];
  if (values.empty())
    values = table.valuesUnder(costs.weights, laneMemory);
  return values;
}

const std::vector<double> &Intervals::lanesAt(unsigned node, BundleCosts &costs) {
  if (costs.byNode.size() <= node)
    costs.byNode.resize(nodes.size());
  if (!costs.byNode[node].empty())
    return costs.byNode[node];
  constexpr size_t lanes = solver::numLanes;
  unsigned piece = nodes[node].piece;
  Table &table = tableOf(piece, costs.setting);
  bool isFirst = nodes[node].parent == 0;
  const double *before = isFirst ? table.entrySeconds.data() : lanesAt(nodes[node].parent, costs).data();
  const std::vector<double> &values = lanesOf(table, piece, costs);
  std::vector<double> made((table.exits + 1) * lanes, solver::forbidden);
  for (unsigned entry = 0; entry != table.entries; ++entry) {
    double base[lanes];
    for (size_t lane = 0; lane != lanes; ++lane)
      base[lane] = isFirst ? before[entry] : before[entry * lanes + lane];
    solver::LaneRow row = {values.data() + size_t(entry) * table.exits * lanes, false};
    solver::lowerLanes(made.data(), base, &row, 1, table.exits);
  }
  double *least = made.data() + table.exits * lanes;
  for (size_t index = 0; index != table.exits * lanes; ++index)
    least[index % lanes] = std::min(least[index % lanes], made[index] + table.exitSeconds[index / lanes]);
  return costs.byNode[node] = std::move(made);
}

llvm::ArrayRef<double> Intervals::leastOf(unsigned first, unsigned last, unsigned bundle) {
  return llvm::ArrayRef(lanesAt(nodeOf(first, last), bundles[bundle])).take_back(solver::numLanes);
}

bool Intervals::isSingle(unsigned layer) const {
  return (layer == 0 || graph.boundaries[layer].single != none) &&
         (layer + 1 == numLayers() || graph.boundaries[layer + 1].single != none);
}

std::array<double, solver::numLanes> Intervals::leastInsideOf(unsigned layer, unsigned bundle) {
  std::array<double, solver::numLanes> least = {};
  if (!isSingle(layer))
    return least;
  least.fill(solver::forbidden);
  unsigned piece = pieceOf(layer, layer + 1, 0);
  BundleCosts &costs = bundles[bundle];
  for (auto [index, value] : llvm::enumerate(lanesOf(tableOf(piece, costs.setting), piece, costs)))
    least[index % solver::numLanes] = std::min(least[index % solver::numLanes], value);
  return least;
}

double Intervals::leastTransient(unsigned first, unsigned last, unsigned setting) {
  double least = 0;
  for (unsigned node = nodeOf(first, last); node != 0; node = nodes[node].parent)
    least = std::max(least, tableOf(nodes[node].piece, setting).leastTransient());
  return least;
}

double Intervals::leastInside(unsigned layer, unsigned setting, const Weights &weights) {
  if (!isSingle(layer))
    return 0;
  const std::vector<double> *values = tableOf(pieceOf(layer, layer + 1, 0), setting).solve(weights).values();
  return values ? *llvm::min_element(*values) : solver::forbidden;
}

std::vector<Intervals::Step> Intervals::stepsOf(unsigned first, unsigned last, unsigned setting,
                                                const Weights &weights) {
  std::vector<Step> steps;
  unsigned node = nodeOf(first, last), objective = objectiveOf(setting, weights);
  unsigned exit = productsOf(node, objective).best;
  while (node != 0) {
    unsigned entry = entryOf(node, exit, objective);
    steps.push_back({&tableOf(nodes[node].piece, setting), nodes[node].piece, entry, exit, weightsAt(node, weights)});
    exit = entry;
    node = nodes[node].parent;
  }
  return steps;
}

std::vector<const Piece *> Intervals::piecesOf(unsigned first, unsigned last, unsigned setting) {
  std::vector<const Piece *> pieces;
  for (unsigned node = nodeOf(first, last); node != 0; node = nodes[node].parent)
    pieces.push_back(tableOf(nodes[node].piece, setting).piece.get());
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

std::vector<IntervalSums> Intervals::sumsByPiece(unsigned first, unsigned last, unsigned setting,
                                                 const Weights &weights) {
  std::vector<IntervalSums> sums;
  std::vector<Step> steps = stepsOf(first, last, setting, weights);
  for (const Step &step : llvm::reverse(steps))
    sums.push_back(alone(step.table->sumsAt(step.table->solve(step.weights), step.entry, step.exit),
                         step.table->entryBytesAt(step.entry)));
  return sums;
}

std::vector<std::vector<unsigned>> Intervals::choicesOf(unsigned first, unsigned last, unsigned setting,
                                                        const Weights &weights) {
  std::vector<std::vector<unsigned>> choices;
  std::vector<Step> steps = stepsOf(first, last, setting, weights);
  for (const Step &step : llvm::reverse(steps))
    choices.push_back(step.table->choicesAt(step.weights, step.entry, step.exit));
  return choices;
}

std::vector<std::array<unsigned, mostAxes>> Intervals::factors(unsigned first, unsigned last, unsigned setting,
                                                               const std::vector<std::vector<unsigned>> &choices) {
  std::vector<std::array<unsigned, mostAxes>> all;
  for (auto [piece, own] : llvm::zip_equal(piecesOf(first, last, setting), choices)) {
    auto part = piece->factorsOf(own);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

std::vector<std::optional<dist::KeyExchange>> Intervals::keys(unsigned first, unsigned last, unsigned setting,
                                                              const std::vector<std::vector<unsigned>> &choices) {
  std::vector<std::optional<dist::KeyExchange>> all;
  for (auto [piece, own] : llvm::zip_equal(piecesOf(first, last, setting), choices)) {
    auto part = piece->keysOf(own);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

/// The problem with a variable's choice made.
static void restrict(solver::ChoiceProblem &problem, unsigned variable, unsigned choice) {
  std::vector<solver::Choice> single = {problem.domainOf(variable)[choice]};
  problem.variables[variable] = problem.domains.size();
  problem.domains.push_back(std::move(single));
  for (solver::Edge &edge : problem.edges) {
    if (edge.first != variable && edge.second != variable)
      continue;
    const solver::PairTable &table = problem.pairs[edge.table];
    solver::PairTable part;
    part.rows = edge.first == variable ? 1 : table.rows;
    part.columns = edge.second == variable ? 1 : table.columns;
    for (unsigned a = 0; a != part.rows; ++a)
      for (unsigned b = 0; b != part.columns; ++b)
        part.seconds.push_back(table.at(edge.first == variable ? choice : a, edge.second == variable ? choice : b));
    edge.table = problem.pairs.size();
    problem.pairs.push_back(std::move(part));
  }
}

std::vector<Intervals::OperatorFacts> Intervals::factsOf(Table &table, const std::vector<unsigned> &choices,
                                                         const Weights &weights) {
  const Piece &piece = *table.piece;
  std::vector<OperatorTime> times = piece.timesOf(choices);
  std::vector<OperatorFacts> facts(times.size());
  for (auto [fact, time] : llvm::zip_equal(facts, times))
    fact.time = time;
  solver::ChoiceProblem problem = table.weighted(weights);
  for (unsigned end : {piece.entryVariable, piece.exitVariable})
    if (end != none)
      restrict(problem, end, choices[end]);
  std::optional<std::vector<std::vector<double>>> least = solver::leastByChoice(problem);
  if (!least)
    return facts;
  for (unsigned variable = 0; variable != choices.size(); ++variable) {
    unsigned op = piece.operatorOf(variable);
    if (op == none)
      continue;
    const std::vector<double> &values = (*least)[variable];
    unsigned other = none;
    for (unsigned choice = 0; choice != values.size(); ++choice)
      // The same factors with keys that come in another way are the same split.
      if (values[choice] != solver::forbidden &&
          piece.factorsOf(variable, choice) != piece.factorsOf(variable, choices[variable]) &&
          (other == none || values[choice] < values[other]))
        other = choice;
    if (other == none)
      continue;
    facts[op].alternative = piece.factorsOf(variable, other);
    facts[op].more = std::max(0.0, values[other] - values[choices[variable]]);
  }
  return facts;
}

std::vector<Intervals::OperatorFacts> Intervals::facts(unsigned first, unsigned last, unsigned setting,
                                                       const Weights &weights,
                                                       const std::vector<std::vector<unsigned>> &choices) {
  std::map<std::tuple<unsigned, bool, std::vector<unsigned>>, std::vector<OperatorFacts>> known;
  std::vector<unsigned> path;
  for (unsigned node = nodeOf(first, last); node != 0; node = nodes[node].parent)
    path.push_back(node);
  std::vector<OperatorFacts> all;
  for (auto [node, own] : llvm::zip_equal(llvm::reverse(path), choices)) {
    unsigned piece = nodes[node].piece;
    auto [entry, isNew] = known.try_emplace({piece, nodes[node].parent == 0, own});
    if (isNew)
      entry->second = factsOf(tableOf(piece, setting), own, weightsAt(node, weights));
    all.insert(all.end(), entry->second.begin(), entry->second.end());
  }
  return all;
}

} // namespace cleave::search
