// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the programs of a placed graph, and the communication inside and between them.
//
// The operators' splits say in which layouts they take their operands and leave their results (OperatorLayouts.h). In
// a program a value is held in one or more layouts; an operator that wants another gets it by the cheapest path from
// one of those on the module's machine (dist::findReshard), which is then held, too. So no communication happens before
// somebody needs it, none happens twice, and a reduction and a slice after it are one reduce-scatter. Partial sums stay
// partial through operators that are linear in them where that makes what must be joined no larger. Parameters and
// inputs are loaded in whatever layout is wanted. What comes from another mesh may come in shares of what is wanted, if
// sending those and gathering them takes less, and comes once where one layout can be made of the other.
//
// One walk over the graph's operators, in order. Each is appended to its mesh's program; a value that other meshes use
// is sent to each of them right after its producer, under the next channel numbers, and waits there until its first
// use:
//
//   graph          mesh   @d0                     @d1                     waiting at @d1
//   %a = …         d0     %a = …
//                         send %a to @d1 ch 0                             ch 0
//   %b = … %x      d1                             %b = … %x               ch 0
//   %c = … %a      d0     %c = … %a
//                         send %c to @d1 ch 1                             ch 0, ch 1
//   %e = … %b, %c  d1                             %a' = receive ch 0
//                                                 %c' = receive ch 1
//                                                 %e = … %b, %c'
//   %f = … %e, %a  d1                             %f = … %e, %a'
//
// `%e` needs only channel 1, yet channel 0 is received before it: every program has its transfers in the order of their
// channels, for which also all that waits is received before an operator whose result is sent. So there is one global
// order with which every program agrees, and programs run to their end even if each executes one operator after the
// other and a send ends only with its receive: take the smallest channel that never passes. What stands before its two
// ends are operators and smaller channels, which all pass; so both ends are reached, and it passes.

#ifndef CLEAVE_PASSES_DISTRIBUTE_PROGRAMWRITER_H
#define CLEAVE_PASSES_DISTRIBUTE_PROGRAMWRITER_H

#include "passes/distribute/OperatorLayouts.h"

#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Layout.h"
#include "dialects/dist/Reshard.h"
#include "passes/cost/CostAnalysis.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"

#include <deque>

namespace cleave {

/// Whether a barrier stands in front of a parameter. Nothing is copied for it, the parameter lies where it does; what
/// brings it into other layouts from there is marked by the barrier's number (dist::againAttrName).
bool showsParameter(dfg::BarrierOp barrier);

/// A program in the making: what it holds of the graph's values, in which layouts.
class LocalProgram {
public:
  /// `costs` must outlive it.
  LocalProgram(dist::MeshOp mesh, CostAnalysis &costs) : mesh(mesh), shape(mesh), cost(costs.reshardCost(mesh)) {}

  /// An input of the graph, or an output, in one layout.
  struct Port {
    unsigned index;
    dist::Layout layout;
    mlir::Value value;
    dist::WithinAttr within; ///< Of a part; null: `value` is all of it.
  };

  const dist::MeshShape &getShape() const { return shape; }
  const dist::ReshardCost &getCost() const { return *cost; }
  dist::MeshOp getMesh() const { return mesh; }
  mlir::FlatSymbolRefAttr getMeshName() { return mlir::FlatSymbolRefAttr::get(mesh.getSymNameAttr()); }
  mlir::OpBuilder atEnd() { return mlir::OpBuilder::atBlockEnd(&op.getBody().front()); }

  /// From now on the program holds `value` as `part`. `zeroPadded`: the padding of the part is zero.
  void hold(mlir::Value value, const dist::Layout &layout, mlir::Value part, bool zeroPadded);
  /// The program's part of a value in a layout, which is loaded or communicated where it is not held yet. `fill` is
  /// what reads outside of the value give where the layout has a reach.
  mlir::Value get(mlir::Value value, const dist::Layout &layout, double fill = 0);
  /// `get` for an operand, whose padding along factors that the operator reduces is the neutral element.
  mlir::Value getOperand(mlir::OpOperand &operand, const OperatorLayouts &layouts);
  /// An i64 scalar: where the device's block of a factor begins.
  mlir::Value start(mlir::Location location, const dist::Part &part);

  dist::ProgramOp op;
  /// The inputs that it loads, and the outputs that it gives out.
  std::vector<Port> inputs, outputs;

private:
  struct Held {
    dist::Layout layout;
    mlir::Value part;
  };

  mlir::Value load(mlir::Value value, const dist::Layout &layout);
  mlir::Value reshard(mlir::Value value, const dist::Layout &layout, double fill);
  mlir::Value addStep(mlir::Value value, mlir::Value part, const dist::Layout &from, const dist::ReshardStep &step,
                      double fill);
  mlir::Value extent(mlir::Location location, const dist::Part &part);
  dist::LayoutAttr attributeOf(const dist::Layout &layout) { return layout.toAttribute(mesh.getContext()); }

  dist::MeshOp mesh;
  dist::MeshShape shape;
  std::unique_ptr<dist::ReshardCost> cost;
  llvm::DenseMap<mlir::Value, std::vector<Held>> held;
  llvm::DenseSet<mlir::Value> zeroPadded;
  /// Starts and extents by the layout of their factor.
  llvm::DenseMap<dist::LayoutAttr, mlir::Value> starts, extents;
};

/// Writes the programs of one graph. The operators must be placed (checkPlaces).
class ProgramWriter {
public:
  /// `firstChannel`: the first free channel number of the module. `costs`, which must outlive the writer, say which way
  /// from layout to layout is the cheapest.
  ProgramWriter(dfg::GraphOp graph, int64_t firstChannel, CostAnalysis &costs)
      : graph(graph), nextChannel(firstChannel), costs(costs) {}

  /// Appends the programs to the module, meshes in the module's order. Fails, with a diagnostic, where a split does not
  /// fit its operator, a program's name is taken or the module has no mesh.
  llvm::LogicalResult write();

  /// The first channel number that is free after write().
  int64_t getNextChannel() const { return nextChannel; }

private:
  /// A value that another mesh needs in a layout.
  struct User {
    mlir::Attribute mesh;
    dist::Layout layout;
  };
  /// A value that was sent to a program and is not yet received there.
  struct Arrival {
    mlir::Value value;
    LocalProgram *source;
    dist::Layout from, to;
    int64_t channel;
  };
  struct Program : LocalProgram {
    using LocalProgram::LocalProgram;
    std::deque<Arrival> arrivals;
  };
  /// Where an operator leaves a value.
  struct Home {
    mlir::Attribute mesh;
    dist::Layout layout;
  };

  /// Finds which meshes take part.
  llvm::LogicalResult collectMeshes();
  /// Finds the layouts of all operators and values, and which meshes need which value of another.
  llvm::LogicalResult collectLayouts();
  /// Lets partial sums pass through a linear operator.
  void delayJoin(mlir::Operation &op, OperatorLayouts &layouts);
  void need(mlir::Value value, mlir::Attribute mesh, const dist::Layout &layout);
  /// Where an output is given out, and how it lies there; that of one that no operator computes is the first mesh.
  Home homeOf(mlir::Value output);
  /// An input of the graph, or a part of one, in every layout in which it is read.
  void addInput(unsigned index, mlir::Value value, dist::WithinAttr within);
  /// An output of the graph, or a part of one, in the layout in which it is made.
  void addOutput(unsigned index, mlir::Value value, dist::WithinAttr within);
  llvm::LogicalResult createPrograms();

  /// Writes what the devices of its mesh compute of an operator, and what they send.
  llvm::LogicalResult writeOperator(mlir::Operation &op);
  llvm::LogicalResult localize(mlir::Operation &op, const OperatorLayouts &layouts, Program &program);
  /// Copies a read or a constant to all who use it.
  void copyToUsers(mlir::Operation &op);
  std::optional<dist::Layout> arrivalLayout(mlir::Value value, const dist::Layout &from, Program &source,
                                            const User &user, llvm::ArrayRef<dist::Layout> arrived);
  void sendResult(mlir::Value result, Program &program);
  /// Receives what waits up to a channel.
  void receiveUpTo(int64_t channel, Program &program);
  void finish();

  dfg::GraphOp graph;
  int64_t nextChannel;
  CostAnalysis &costs;
  /// By mesh, in the module's order.
  llvm::MapVector<mlir::Attribute, std::unique_ptr<Program>> programs;
  llvm::DenseMap<mlir::Operation *, OperatorLayouts> layoutsOf;
  llvm::DenseMap<mlir::Value, Home> homes;
  /// Who needs a value that it does not compute, in the order of their first uses.
  llvm::DenseMap<mlir::Value, std::vector<User>> users;
};

/// The operator's mesh. Null for those that are copied to their users: reads of parameters, and constants.
mlir::FlatSymbolRefAttr meshOf(mlir::Operation *op);

/// Every operator must be placed on a mesh of the module.
llvm::LogicalResult checkPlaces(dfg::GraphOp graph);

} // namespace cleave

#endif // CLEAVE_PASSES_DISTRIBUTE_PROGRAMWRITER_H
