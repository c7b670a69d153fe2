// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Einstein sums: diagonals, sums, products of two tensors after another, and a transpose at the end.

#include "passes/import/NodeImporter.h"
#include "passes/import/OperatorTable.h"

#include "llvm/ADT/StringExtras.h"

#include <map>

using namespace mlir;

namespace cleave {

namespace {
/// A dimension's label: a letter, or a number for a dimension of the ellipsis, counted from the last.
using Label = int;
using Labels = SmallVector<Label>;
constexpr Label ellipsis = -1;
constexpr Label firstOfEllipsis = 256;

/// A tensor whose dimensions carry labels, each at most once.
struct Term {
  Value value;
  Labels labels;

  ArrayRef<int64_t> shape() const { return NodeImporter::typeOf(value).getShape(); }
  std::optional<int64_t> find(Label label) const {
    const auto *found = llvm::find(labels, label);
    return found == labels.end() ? std::nullopt : std::optional<int64_t>(found - labels.begin());
  }
};

/// "ij,...k->i...k" with the ellipses in their places.
struct Equation {
  SmallVector<Labels> inputs;
  Labels output;
  bool hasOutput = false;
};
} // namespace

/// The labels of one term; nothing where it holds other than letters and one ellipsis.
static std::optional<Labels> parseTerm(StringRef text) {
  Labels labels;
  for (text = text.trim(); !text.empty(); text = text.ltrim()) {
    if (text.consume_front("...")) {
      if (llvm::is_contained(labels, ellipsis))
        return std::nullopt;
      labels.push_back(ellipsis);
      continue;
    }
    if (!llvm::isAlpha(text.front()))
      return std::nullopt;
    labels.push_back(static_cast<unsigned char>(text.front()));
    text = text.drop_front();
  }
  return labels;
}

static std::optional<Equation> parseEquation(StringRef text) {
  Equation equation;
  auto [inputs, output] = text.split("->");
  equation.hasOutput = text.contains("->");
  SmallVector<StringRef> terms;
  inputs.split(terms, ',');
  for (StringRef term : terms) {
    std::optional<Labels> labels = parseTerm(term);
    if (!labels)
      return std::nullopt;
    equation.inputs.push_back(*labels);
  }
  std::optional<Labels> labels = parseTerm(output);
  if (!labels)
    return std::nullopt;
  equation.output = *labels;
  return equation;
}

/// Puts `rank` labels in the place of the ellipsis.
static Labels expandEllipsis(const Labels &labels, int64_t rank) {
  Labels result;
  for (Label label : labels) {
    if (label != ellipsis)
      result.push_back(label);
    else
      for (int64_t i = rank - 1; i >= 0; --i)
        result.push_back(firstOfEllipsis + static_cast<Label>(i));
  }
  return result;
}

/// Without an arrow: the ellipsis, then the letters that occur once, in alphabetical order.
static Labels implicitOutput(ArrayRef<Labels> inputs) {
  std::map<Label, int> count;
  for (const Labels &labels : inputs)
    for (Label label : labels)
      ++count[label];
  Labels result;
  if (count.count(ellipsis))
    result.push_back(ellipsis);
  for (auto [label, times] : count)
    if (label != ellipsis && times == 1)
      result.push_back(label);
  return result;
}

namespace {
/// Builds one equation.
class Einsum {
public:
  Einsum(NodeImporter &node) : node(node) {}

  ImportResults build();

private:
  LogicalResult readTerms();
  LogicalResult takeSizes();
  bool isNeeded(Label label, size_t from) const;
  Term withoutDiagonals(Term term);
  Term withoutUnits(Term term);
  Term sumUnneeded(Term term, size_t from);
  Term multiply(const Term &lhs, const Term &rhs, size_t from);
  Term scaleBy(const Term &lhs, const Term &rhs);
  Value arrange(const Term &term, ArrayRef<Label> order);

  NodeImporter &node;
  SmallVector<Term> terms;
  Labels output;
  /// Every label's size: the larger where sizes of one are repeated.
  std::map<Label, int64_t> sizes;
};
} // namespace

LogicalResult Einsum::readTerms() {
  std::string text = node.text("equation", "");
  std::optional<Equation> equation = parseEquation(text);
  if (!equation)
    return node.error("expects an equation of letters, commas, ellipses and an arrow, got \"" + text + "\"");
  if (equation->inputs.size() != node.getNumInputs())
    return node.error("expects an equation of " + Twine(node.getNumInputs()) + " inputs, got \"" + text + "\"");
  int64_t longest = 0;
  for (auto [index, labels] : llvm::enumerate(equation->inputs)) {
    bool open = llvm::is_contained(labels, ellipsis);
    int64_t rest = node.hasInput(index) ? node.rank(index) - static_cast<int64_t>(labels.size()) + open : -1;
    if (rest < 0 || (rest > 0 && !open))
      return node.error("expects input " + Twine(index) + " to have the dimensions of its part of \"" + text + "\"");
    terms.push_back({node.input(index), expandEllipsis(labels, rest)});
    longest = std::max(longest, rest);
  }
  Labels given = equation->hasOutput ? equation->output : implicitOutput(equation->inputs);
  output = expandEllipsis(given, longest);
  return success();
}

LogicalResult Einsum::takeSizes() {
  for (const Term &term : terms)
    for (auto [label, size] : llvm::zip(term.labels, term.shape())) {
      int64_t &known = sizes.try_emplace(label, size).first->second;
      if (known != size && known != 1 && size != 1)
        return node.error("expects one size for each label, got " + Twine(known) + " and " + Twine(size));
      known = known == 1 ? size : known;
    }
  for (auto [index, label] : llvm::enumerate(output))
    if (!sizes.count(label) || llvm::is_contained(ArrayRef<Label>(output).drop_front(index + 1), label))
      return node.error("expects every label of the output once, and in an input");
  return success();
}

/// Whether the output or a term from `from` on has the label.
bool Einsum::isNeeded(Label label, size_t from) const {
  return llvm::is_contained(output, label) ||
         llvm::any_of(ArrayRef<Term>(terms).drop_front(from),
                      [&](const Term &term) { return llvm::is_contained(term.labels, label); });
}

/// Where a label occurs twice, the diagonal: both dimensions go last and become one, of which every (n + 1)th element
/// is taken.
Term Einsum::withoutDiagonals(Term term) {
  for (size_t i = 0; i < term.labels.size() && term.value; ++i) {
    auto again = llvm::find(ArrayRef<Label>(term.labels).drop_front(i + 1), term.labels[i]);
    if (again == term.labels.end())
      continue;
    size_t j = again - term.labels.begin();
    int64_t size = term.shape()[i];
    if (term.shape()[j] != size) {
      (void)node.error("expects the dimensions of a diagonal to be of one size, got " + Twine(size) + " and " +
                       Twine(term.shape()[j]));
      return {};
    }
    SmallVector<int64_t> order, shape;
    Labels labels;
    for (size_t dim = 0; dim < term.labels.size(); ++dim)
      if (dim != i && dim != j) {
        order.push_back(dim);
        shape.push_back(term.shape()[dim]);
        labels.push_back(term.labels[dim]);
      }
    order.append({static_cast<int64_t>(i), static_cast<int64_t>(j)});
    shape.push_back(size * size);
    labels.push_back(term.labels[i]);
    Value flat = node.reshape(node.transpose(term.value, order), shape);
    term = {node.slice(flat, static_cast<int64_t>(shape.size()) - 1, 0, size * size, size + 1), labels};
    i = -1;
  }
  return term;
}

/// Dimensions of size one that are larger elsewhere repeat: the term goes without them.
Term Einsum::withoutUnits(Term term) {
  if (!term.value)
    return {};
  Term result;
  SmallVector<int64_t> shape;
  for (auto [label, size] : llvm::zip(term.labels, term.shape()))
    if (size == sizes[label]) {
      result.labels.push_back(label);
      shape.push_back(size);
    }
  result.value = node.reshape(term.value, shape);
  return result;
}

/// Sums over what neither the output nor a term from `from` on has.
Term Einsum::sumUnneeded(Term term, size_t from) {
  SmallVector<int64_t> dims;
  Labels kept;
  for (auto [dim, label] : llvm::enumerate(term.labels)) {
    if (isNeeded(label, from))
      kept.push_back(label);
    else
      dims.push_back(dim);
  }
  if (!dims.empty() && term.value)
    term.value = node.reduce(term.value, dfg::ReduceKind::Sum, dims, /*keepDims=*/false);
  return {term.value, kept};
}

/// The term's dimensions in another order; those that it lacks have size one.
Value Einsum::arrange(const Term &term, ArrayRef<Label> order) {
  if (!term.value)
    return {};
  SmallVector<int64_t> permutation, shape;
  for (Label label : order) {
    std::optional<int64_t> dim = term.find(label);
    if (dim)
      permutation.push_back(*dim);
    shape.push_back(dim ? term.shape()[*dim] : 1);
  }
  return node.reshape(node.transpose(term.value, permutation), shape);
}

/// The product of terms that have nothing to sum over, element by element.
Term Einsum::scaleBy(const Term &lhs, const Term &rhs) {
  Labels labels = lhs.labels;
  for (Label label : rhs.labels)
    if (!lhs.find(label))
      labels.push_back(label);
  return {node.emit<dfg::MulOp>({arrange(lhs, labels), arrange(rhs, labels)}), labels};
}

Term Einsum::multiply(const Term &lhs, const Term &rhs, size_t from) {
  if (!lhs.value || !rhs.value)
    return {};
  SmallVector<int64_t> lhsBatch, rhsBatch, lhsContracting, rhsContracting;
  Labels batch, free;
  for (auto [dim, label] : llvm::enumerate(lhs.labels)) {
    std::optional<int64_t> other = rhs.find(label);
    if (!other) {
      free.push_back(label);
    } else if (isNeeded(label, from)) {
      batch.push_back(label);
      lhsBatch.push_back(dim);
      rhsBatch.push_back(*other);
    } else {
      lhsContracting.push_back(dim);
      rhsContracting.push_back(*other);
    }
  }
  if (lhsContracting.empty())
    return scaleBy(lhs, rhs);
  for (Label label : rhs.labels)
    if (!lhs.find(label))
      free.push_back(label);
  batch.append(free);
  return {node.dot(lhs.value, rhs.value, lhsBatch, rhsBatch, lhsContracting, rhsContracting), batch};
}

ImportResults Einsum::build() {
  if (failed(readTerms()) || failed(takeSizes()))
    return failure();
  for (Term &term : terms)
    term = withoutUnits(withoutDiagonals(term));
  // What only one term has is summed before the products.
  for (size_t i = 0; i < terms.size(); ++i) {
    Term own = std::exchange(terms[i], Term());
    terms[i] = sumUnneeded(own, 0);
  }
  Term product = terms.front();
  for (size_t i = 1; i < terms.size(); ++i)
    product = multiply(product, terms[i], i + 1);
  product = sumUnneeded(product, terms.size());
  SmallVector<int64_t> shape;
  for (Label label : output)
    shape.push_back(sizes[label]);
  return oneResult(node.broadcast(arrange(product, output), shape));
}

static ImportResults importEinsum(NodeImporter &node) { return Einsum(node).build(); }

void addEinsumOperators(OperatorTable &table) {
  table.add("Einsum", {importEinsum, 1, OperatorTable::anyNumber, Elements::Number, 12});
}

} // namespace cleave
