// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the programs of a placed graph, and the transfers between them.
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

#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Dist.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

#include <deque>

namespace cleave {

/// Writes the programs of one graph. The operators must be placed on single devices (checkPlaces).
class ProgramWriter {
public:
  /// `firstChannel`: the first free channel number of the module.
  ProgramWriter(dfg::GraphOp graph, int64_t firstChannel) : graph(graph), nextChannel(firstChannel) {}

  /// Appends the programs to the module, meshes in the module's order. Fails, with a diagnostic, where a program's name
  /// is taken or the module has no mesh.
  llvm::LogicalResult write();

  /// The first channel number that is free after write().
  int64_t getNextChannel() const { return nextChannel; }

private:
  /// A value that was sent to a program and is not yet received there.
  struct Arrival {
    mlir::Value value;
    mlir::FlatSymbolRefAttr source;
    int64_t channel;
  };

  /// A program in the making. Values of the graph map to the program's.
  struct Program {
    dist::ProgramOp op;
    mlir::IRMapping values;
    std::deque<Arrival> arrivals;
    llvm::SmallVector<unsigned> inputs, outputs;
  };

  /// Finds which meshes take part, and which need which value of another.
  void collectUses();
  /// Where an output that no operator computes is given out: the first mesh.
  mlir::Attribute homeOf(mlir::Value output);
  void needOn(mlir::Value value, mlir::Attribute mesh);
  llvm::LogicalResult createPrograms();

  /// Copies an operator and what it sends.
  void copyOperator(mlir::Operation &op);
  /// Copies a read or a constant to all who use it.
  void copyToUsers(mlir::Operation &op);
  void sendResult(mlir::Value result, mlir::FlatSymbolRefAttr mesh, Program &program);
  /// Receives what waits up to a channel.
  void receiveUpTo(int64_t channel, Program &program);
  void finish();

  dfg::GraphOp graph;
  int64_t nextChannel;
  /// By mesh, in the module's order.
  llvm::MapVector<mlir::Attribute, Program> programs;
  /// The meshes that use a value and do not compute it, in the order of their first uses.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Attribute, 2>> users;
};

/// The operator's mesh. Null for those that are copied to their users: reads of parameters, and constants.
mlir::FlatSymbolRefAttr meshOf(mlir::Operation *op);

/// Every operator must be placed, without a split, on a mesh of one device.
llvm::LogicalResult checkPlaces(dfg::GraphOp graph);

} // namespace cleave

#endif // CLEAVE_PASSES_DISTRIBUTE_PROGRAMWRITER_H
