// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix products, convolutions and pooling against plain loops over all their indices.

#include "test/property/WindowLoops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace cleave::test {
namespace {

constexpr const char *types[] = {"f32", "f64", "f16", "bf16", "i32", "i64", "i8", "ui8", "ui32"};

// Products over any choice of batch and contracting dimensions.
TEST(Contraction, DotGeneral) {
  struct Form {
    Shape lhs, rhs, lhsBatch, rhsBatch, lhsContracting, rhsContracting, result;
    std::string letters;
  };
  const std::vector<Form> forms = {
      {{5, 17}, {17, 33}, {}, {}, {1}, {0}, {5, 33}, "mk,kn->mn"},
      {{5, 17}, {33, 17}, {}, {}, {1}, {1}, {5, 33}, "mk,nk->mn"},
      {{17, 5}, {17, 3}, {}, {}, {0}, {0}, {5, 3}, "km,kn->mn"},
      {{2, 3, 4, 7}, {2, 3, 7, 5}, {0, 1}, {0, 1}, {3}, {2}, {2, 3, 4, 5}, "abmk,abkn->abmn"},
      {{4, 2, 7}, {5, 7, 2}, {1}, {2}, {2}, {1}, {2, 4, 5}, "mbk,nkb->bmn"},
      {{2, 3, 4}, {3, 4, 6}, {}, {}, {1, 2}, {0, 1}, {2, 6}, "mkl,kln->mn"},
      {{3}, {4}, {}, {}, {}, {}, {3, 4}, "m,n->mn"},
      {{9}, {9}, {}, {}, {0}, {0}, {}, "k,k->"},
      {{3, 0}, {0, 4}, {}, {}, {1}, {0}, {3, 4}, "mk,kn->mn"},
  };
  Random random(21);
  std::vector<KernelCase> cases;
  for (const std::string element : types)
    for (const Form &form : forms) {
      Tensor lhs = Tensor(element, form.lhs).fill(random, -2, 2), rhs = Tensor(element, form.rhs).fill(random, -2, 2);
      Tensor result(element, form.result);
      std::string left = form.letters.substr(0, form.letters.find(','));
      std::string right = form.letters.substr(left.size() + 1, form.rhs.size());
      std::string out = form.letters.substr(form.letters.find('>') + 1);
      // One loop a letter: those of the result, then those of the sum.
      std::string letters = out;
      for (char letter : left)
        if (letters.find(letter) == std::string::npos)
          letters += letter;
      Shape loops, summed;
      for (char letter : letters) {
        size_t at = left.find(letter);
        loops.push_back(at != std::string::npos ? form.lhs[at] : form.rhs[right.find(letter)]);
      }
      summed.assign(loops.begin() + out.size(), loops.end());
      int64_t terms = elementsOf(summed);
      forEachIndex(form.result, [&](const Shape &index) {
        Sum sum;
        forEachIndex(summed, [&](const Shape &inner) {
          Shape all = index;
          all.insert(all.end(), inner.begin(), inner.end());
          Shape l, r;
          for (char letter : left)
            l.push_back(all[letters.find(letter)]);
          for (char letter : right)
            r.push_back(all[letters.find(letter)]);
          sum.add(lhs, lhs.position(l), rhs, rhs.position(r));
        });
        sum.store(result, result.position(index));
      });
      KernelCase kernelCase{"  %y0 = dfg.dot_general %a, %b {lhs_batch = " + array(form.lhsBatch) + ", rhs_batch = " +
                                array(form.rhsBatch) + ", lhs_contracting = " + array(form.lhsContracting) +
                                ", rhs_contracting = " + array(form.rhsContracting) + "} : (" + lhs.type() + ", " +
                                rhs.type() + ") -> " + result.type(),
                            {lhs, rhs},
                            {result}};
      allowRounding(kernelCase, element, terms);
      cases.push_back(std::move(kernelCase));
    }
  expectKernels(cases);
}

/// The index of an operand of rows, of which dimensions of size one repeat.
Shape rowOf(const Tensor &operand, const Shape &row, int64_t last) {
  Shape index;
  for (size_t dim = 0; dim < row.size(); ++dim)
    index.push_back(operand.getShape()[dim] == 1 ? 0 : row[dim]);
  index.push_back(last);
  return index;
}

// Rows times the matrices that indices choose, some of which there are not, and the sums of rows by index.
TEST(Contraction, GatheredProducts) {
  struct Form {
    Shape rows, lhs, rhs;
    int64_t matrices;
  };
  const std::vector<Form> forms = {{{6}, {6, 5}, {6, 7}, 3},
                                   {{4, 2}, {4, 1, 9}, {4, 2, 3}, 5},
                                   {{2, 3, 2}, {2, 3, 2, 17}, {2, 1, 2, 16}, 1},
                                   {{0}, {0, 4}, {0, 3}, 2}};
  Random random(31);
  std::vector<KernelCase> cases;
  for (const std::string element : {"f32", "f64", "f16", "bf16"})
    for (const Form &form : forms)
      for (const char *indexType : {"i64", "i32"}) {
        int64_t depth = form.lhs.back(), columns = form.rhs.back();
        Tensor lhs = Tensor(element, form.lhs).fill(random, -2, 2), rhs = Tensor(element, form.rhs).fill(random, -2, 2);
        Tensor at = Tensor(indexType, form.rows).fill(random, -1, static_cast<double>(form.matrices) + 1);
        auto isChosen = [&](const Shape &row, int64_t matrix) { return at.integer(row) == matrix; };
        for (bool transposed : {false, true}) {
          Tensor w =
              Tensor(element, transposed ? Shape{form.matrices, columns, depth} : Shape{form.matrices, depth, columns})
                  .fill(random, -2, 2);
          Tensor y(element, joined(form.rows, {columns}));
          forEachIndex(y.getShape(), [&](const Shape &index) {
            Shape row(index.begin(), index.end() - 1);
            Sum sum;
            for (int64_t matrix = 0; matrix < form.matrices; ++matrix)
              for (int64_t k = 0; k < depth && isChosen(row, matrix); ++k)
                sum.add(lhs, lhs.position(rowOf(lhs, row, k)), w,
                        w.position(transposed ? Shape{matrix, index.back(), k} : Shape{matrix, k, index.back()}));
            sum.store(y, y.position(index));
          });
          KernelCase gathered{std::string("  %y0 = dfg.gather_dot %a, %b, %c") + (transposed ? " {transposed}" : "") +
                                  " : (" + lhs.type() + ", " + w.type() + ", " + at.type() + ") -> " + y.type(),
                              {lhs, w, at},
                              {y}};
          allowRounding(gathered, element, depth);
          cases.push_back(std::move(gathered));
        }
        Tensor sums(element, {form.matrices, depth, columns});
        forEachIndex(sums.getShape(), [&](const Shape &index) {
          Sum sum;
          forEachIndex(form.rows, [&](const Shape &row) {
            if (isChosen(row, index[0]))
              sum.add(lhs, lhs.position(rowOf(lhs, row, index[1])), rhs, rhs.position(rowOf(rhs, row, index[2])));
          });
          sum.store(sums, sums.position(index));
        });
        KernelCase scattered{"  %y0 = dfg.scatter_dot %a, %b, %c : (" + lhs.type() + ", " + rhs.type() + ", " +
                                 at.type() + ") -> " + sums.type(),
                             {lhs, rhs, at},
                             {sums}};
        allowRounding(scattered, element, elementsOf(form.rows));
        cases.push_back(std::move(scattered));
      }
  expectKernels(cases);
}

// Convolutions of one to three dimensions with groups, strides, dilations and uneven pads.
TEST(Contraction, Conv) {
  Random random(22);
  std::vector<KernelCase> cases;
  for (const std::string element : types)
    for (size_t space = 1; space <= 3; ++space)
      for (int64_t groups : {1, 2, 3}) {
        Windows windows(random, space);
        int64_t batch = 1 + below(random, 2), in = 1 + below(random, 3), out = 1 + below(random, 3);
        Tensor x = Tensor(element, joined({batch, in * groups}, windows.input)).fill(random, -2, 2);
        Tensor w = Tensor(element, joined({out * groups, in}, windows.window)).fill(random, -2, 2);
        Tensor y(element, joined({batch, out * groups}, windows.positions()));
        forEachIndex(y.getShape(), [&](const Shape &index) {
          Sum sum;
          int64_t group = index[1] / out;
          forEachIndex(joined({in}, windows.window), [&](const Shape &inner) {
            Shape from = {index[0], group * in + inner[0]}, offset(inner.begin() + 1, inner.end());
            if (windows.at(spaceOf(index), offset, from))
              sum.add(x, x.position(from), w, w.position(joined({index[1], inner[0]}, offset)));
          });
          sum.store(y, y.position(index));
        });
        KernelCase kernelCase{"  %y0 = dfg.conv %a, %b {" + windows.attributes() +
                                  ", groups = " + std::to_string(groups) + " : i64} : (" + x.type() + ", " + w.type() +
                                  ") -> " + y.type(),
                              {x, w},
                              {y}};
        allowRounding(kernelCase, element, in * elementsOf(windows.window));
        cases.push_back(std::move(kernelCase));
      }
  expectKernels(cases);
}

// Transposed convolutions, by adding every input element's multiple of the window.
TEST(Contraction, ConvTranspose) {
  Random random(23);
  std::vector<KernelCase> cases;
  for (const std::string element : {"f32", "f64", "f16", "bf16"})
    for (size_t space = 1; space <= 3; ++space)
      for (int64_t groups : {1, 2}) {
        Windows windows(random, space);
        int64_t batch = 1 + below(random, 2), in = 1 + below(random, 3), out = 1 + below(random, 3);
        Shape padding, size;
        for (size_t i = 0; i < space; ++i) {
          padding.push_back(below(random, windows.strides[i]));
          size.push_back((windows.input[i] - 1) * windows.strides[i] + windows.dilations[i] * (windows.window[i] - 1) +
                         1 - windows.before[i] - windows.after[i] + padding[i]);
        }
        Tensor x = Tensor(element, joined({batch, in * groups}, windows.input)).fill(random, -2, 2);
        Tensor w = Tensor(element, joined({in * groups, out}, windows.window)).fill(random, -2, 2);
        Tensor y(element, joined({batch, out * groups}, size));
        std::vector<Sum> sums(y.size());
        forEachIndex(x.getShape(), [&](const Shape &from) {
          forEachIndex(joined({out}, windows.window), [&](const Shape &inner) {
            Shape to = {from[0], from[1] / in * out + inner[0]};
            for (size_t i = 0; i < space; ++i) {
              to.push_back(from[2 + i] * windows.strides[i] + inner[1 + i] * windows.dilations[i] - windows.before[i]);
              if (to.back() < 0 || to.back() >= size[i])
                return;
            }
            sums[y.position(to)].add(x, x.position(from), w, w.position(joined({from[1]}, inner)));
          });
        });
        for (int64_t i = 0; i < y.size(); ++i)
          sums[i].store(y, i);
        KernelCase kernelCase{"  %y0 = dfg.conv_transpose %a, %b {" + windows.attributes() +
                                  ", output_padding = " + array(padding) + ", groups = " + std::to_string(groups) +
                                  " : i64} : (" + x.type() + ", " + w.type() + ") -> " + y.type(),
                              {x, w},
                              {y}};
        allowRounding(kernelCase, element, in * elementsOf(windows.window));
        cases.push_back(std::move(kernelCase));
      }
  expectKernels(cases);
}

// Pooling of both kinds; averages count the padding or not, and integers divide truncated.
TEST(Contraction, Pool) {
  Random random(24);
  std::vector<KernelCase> cases;
  for (const std::string element : types)
    for (size_t space = 1; space <= 3; ++space)
      for (const std::string kind : {"max", "average", "average, count_include_pad"}) {
        Windows windows(random, space);
        Tensor x = Tensor(element, joined({2, 3}, windows.input)).fill(random, -9, 9);
        Tensor y(element, joined({2, 3}, windows.positions()));
        bool isMax = kind == "max", whole = kind.size() > 7;
        bool anyEmpty = false;
        forEachIndex(y.getShape(), [&](const Shape &index) {
          double best = -std::numeric_limits<double>::infinity(), sum = 0;
          int64_t count = 0;
          forEachIndex(windows.window, [&](const Shape &offset) {
            Shape from = {index[0], index[1]};
            if (!windows.at(spaceOf(index), offset, from))
              return;
            best = std::max(best, x.real(from));
            sum += x.real(from);
            ++count;
          });
          anyEmpty |= count == 0;
          double average = sum / static_cast<double>(whole ? elementsOf(windows.window) : count);
          y.setReal(y.position(index), isMax ? best : average);
        });
        // A window without any element has no maximum and no mean.
        if (anyEmpty)
          continue;
        KernelCase kernelCase{"  %y0 = dfg.pool %a {kind = #dfg.pool_kind<" + kind.substr(0, kind.find(',')) + ">, " +
                                  (whole ? "count_include_pad, " : "") + "window = " + array(windows.window) + ", " +
                                  windows.attributes() + "} : (" + x.type() + ") -> " + y.type(),
                              {x},
                              {y}};
        if (!isMax)
          allowRounding(kernelCase, element, elementsOf(windows.window));
        cases.push_back(std::move(kernelCase));
      }
  expectKernels(cases);
}

} // namespace
} // namespace cleave::test
