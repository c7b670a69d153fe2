// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan dialect: registration and verification.

#include "dialects/dist/Layout.h"
#include "dialects/interfaces/SplitRule.h"
#include "dialects/plan/TileVerification.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::plan;

static ParseResult parseIndex(OpAsmParser &parser, IntegerAttr &index) {
  int64_t value = 0;
  if (parser.parseInteger(value))
    return failure();
  index = parser.getBuilder().getI64IntegerAttr(value);
  return success();
}

static void printIndex(OpAsmPrinter &printer, Operation *, IntegerAttr index) { printer << index.getInt(); }

/// A list in brackets.
template <typename T> static ParseResult parseBracketed(AsmParser &parser, SmallVector<T> &list) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() -> ParseResult {
    FailureOr<T> element = FieldParser<T>::parse(parser);
    if (succeeded(element))
      list.push_back(*element);
    return success(succeeded(element));
  });
}

template <typename T> static void printBracketed(AsmPrinter &printer, ArrayRef<T> list) {
  printer << "[";
  llvm::interleaveComma(list, printer, [&](const T &element) { printer.printStrippedAttrOrType(element); });
  printer << "]";
}

static ParseResult parseFlag(AsmParser &parser, bool &flag) {
  StringRef word;
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseKeyword(&word))
    return failure();
  flag = word == "true";
  if (!flag && word != "false")
    return parser.emitError(location, "expects true or false, got '") << word << "'";
  return success();
}

static void printFlag(AsmPrinter &printer, bool flag) { printer << (flag ? "true" : "false"); }

#include "dialects/plan/PlanOpsDialect.cpp.inc"
#include "dialects/plan/PlanOpsEnums.cpp.inc"
#include "dialects/plan/PlanOpsInterfaces.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/plan/PlanOpsAttributes.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/plan/PlanOpsTypes.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/plan/PlanOps.cpp.inc"

void PlanDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/plan/PlanOpsAttributes.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/plan/PlanOpsTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/plan/PlanOps.cpp.inc"
      >();
}

//===-- processors --------------------------------------------------------------------------------------------===//

/// The attribute's value as a processor; none where it is malformed.
static std::optional<Processor> readProcessor(Attribute attribute) {
  auto entry = dyn_cast<DictionaryAttr>(attribute);
  auto name = entry ? entry.getAs<StringAttr>("name") : nullptr;
  auto features = entry ? entry.getAs<ArrayAttr>("features") : nullptr;
  if (!name || name.empty() || !features || entry.size() != 2 || !llvm::all_of(features, llvm::IsaPred<StringAttr>))
    return std::nullopt;
  return Processor{name.getValue(), llvm::to_vector(features.getAsValueRange<StringAttr>())};
}

std::optional<Processor> cleave::plan::getProcessor(ModuleOp module) {
  Attribute attribute = module->getAttr(processorAttrName);
  return attribute ? readProcessor(attribute) : std::nullopt;
}

void cleave::plan::setProcessor(ModuleOp module, const Processor &processor) {
  Builder builder(module.getContext());
  module->setAttr(
      processorAttrName,
      builder.getDictionaryAttr({builder.getNamedAttr("name", builder.getStringAttr(processor.name)),
                                 builder.getNamedAttr("features", builder.getStrArrayAttr(processor.features))}));
}

LogicalResult PlanDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (attribute.getName() == processorAttrName && (!isa<ModuleOp>(op) || !readProcessor(attribute.getValue())))
    return op->emitOpError("expects '") << processorAttrName
                                        << "' to be a name and a list of features on a module, got "
                                        << attribute.getValue();
  if (attribute.getName() == nestAttrName && !isa<NestAttr>(attribute.getValue()))
    return op->emitOpError("expects '") << nestAttrName << "' to be a #plan.nest, got " << attribute.getValue();
  return success();
}

//===-- layouts -----------------------------------------------------------------------------------------------===//

LayoutAttr cleave::plan::getLayout(Type type) {
  return dyn_cast_if_present<LayoutAttr>(cast<RankedTensorType>(type).getEncoding());
}

RankedTensorType cleave::plan::withoutLayout(RankedTensorType type) {
  return RankedTensorType::get(type.getShape(), type.getElementType());
}

int64_t cleave::plan::storageBytes(RankedTensorType type) {
  LayoutAttr layout = getLayout(type);
  if (!layout)
    return cleave::tensorBytes(type);
  int64_t width = (type.getElementTypeBitWidth() + 7) / 8, block = 1, last = 0;
  SmallVector<int64_t> inner(layout.getPadded().size(), 1);
  for (auto [dim, size] : llvm::zip(layout.getDims(), layout.getBlocks())) {
    inner[dim] *= size;
    block *= size;
  }
  for (auto [index, size] : llvm::enumerate(layout.getPadded())) {
    if (size == 0)
      return 0;
    last += (size / inner[index] - 1) * layout.getStrides()[index];
  }
  return (last + block) * width;
}

//===-- kernels and launches ----------------------------------------------------------------------------------===//

/// The types that a kernel takes and gives; fails where `kernel` names none.
static FailureOr<std::pair<SmallVector<Type>, SmallVector<Type>>> signatureOf(Operation *op, FlatSymbolRefAttr kernel,
                                                                              SymbolTableCollection &symbols) {
  Operation *symbol = symbols.lookupNearestSymbolFrom(op, kernel);
  if (auto native = dyn_cast_if_present<NativeKernelOp>(symbol)) {
    Block &body = native.getBody().front();
    return std::make_pair(llvm::to_vector(body.getArgumentTypes()),
                          llvm::to_vector(body.getTerminator()->getOperandTypes()));
  }
  if (auto library = dyn_cast_if_present<LibraryKernelOp>(symbol)) {
    auto type = cast<FunctionType>(library.getType());
    return std::make_pair(llvm::to_vector(type.getInputs()), llvm::to_vector(type.getResults()));
  }
  return op->emitOpError("expects a kernel named '") << kernel.getValue() << "', found none";
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto signature = signatureOf(*this, getKernelAttr(), symbols);
  if (failed(signature))
    return failure();
  if (TypeRange(signature->first) != getOperandTypes() || TypeRange(signature->second) != getResultTypes())
    return emitOpError("expects the kernel's types (")
           << signature->first << ") -> (" << signature->second << "), got (" << getOperandTypes() << ") -> ("
           << getResultTypes() << ")";
  return success();
}

LogicalResult CallOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto signature = signatureOf(*this, getKernelAttr(), symbols);
  if (failed(signature))
    return failure();
  auto holds = [](OperandRange buffers, ArrayRef<Type> types) {
    return buffers.size() == types.size() && llvm::all_of(llvm::zip(buffers, types), [](auto pair) {
             return cast<BufferType>(std::get<0>(pair).getType()).getTensor() == std::get<1>(pair);
           });
  };
  if (!holds(getInputs(), signature->first) || !holds(getOutputs(), signature->second))
    return emitOpError("expects buffers of the kernel's types (")
           << signature->first << ") -> (" << signature->second << "), got (" << getInputs().getTypes() << ") -> ("
           << getOutputs().getTypes() << ")";
  return success();
}

LogicalResult NativeKernelOp::verifyRegions() {
  if (getLoops().empty())
    return getCommon() || getMappings() ? emitOpError("expects no 'common' and no 'mappings' without loops")
                                        : success();
  if (getCommon().has_value() == getMappings().has_value())
    return emitOpError("expects either 'common' or 'mappings' to say what its loops share");
  auto shapes = [](TypeRange types) {
    return llvm::map_to_vector(types, [](Type type) { return cast<RankedTensorType>(type).getShape(); });
  };
  Block &body = getBody().front(), &loops = getLoops().front();
  if (shapes(body.getArgumentTypes()) != shapes(loops.getArgumentTypes()) ||
      shapes(body.getTerminator()->getOperandTypes()) != shapes(loops.getTerminator()->getOperandTypes()))
    return emitOpError("expects its loops to take and give tensors of the same shapes as its body");
  return success();
}

LogicalResult ViewOp::verify() {
  auto from = cast<RankedTensorType>(getInput().getType()), to = cast<RankedTensorType>(getResult().getType());
  if (storageBytes(from) != storageBytes(to))
    return emitOpError("expects types of as many bytes, got ") << storageBytes(from) << " and " << storageBytes(to);
  return success();
}

//===-- programs ----------------------------------------------------------------------------------------------===//

static LogicalResult verifyMesh(Operation *op, FlatSymbolRefAttr mesh, SymbolTableCollection &symbols) {
  if (!symbols.lookupNearestSymbolFrom<cleave::dist::MeshOp>(op, mesh))
    return op->emitOpError("expects a 'dist.mesh' named '") << mesh.getValue() << "', found none";
  return success();
}

LogicalResult ProgramOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyMesh(*this, getMeshAttr(), symbols);
}

/// The mesh of the program around an instruction; null where there is none.
static dist::MeshOp meshAround(Operation *op, SymbolTableCollection &symbols) {
  auto program = op->getParentOfType<ProgramOp>();
  return program ? symbols.lookupNearestSymbolFrom<dist::MeshOp>(op, program.getMeshAttr()) : dist::MeshOp();
}

/// Verifies both tiles of a transfer between two meshes. `buffer` is the end that stands in `op`'s program.
static LogicalResult verifyTransfer(Operation *op, SymbolTableCollection &symbols, FlatSymbolRefAttr peer,
                                    TileAttr source, TileAttr target, Value buffer, TileRole role) {
  auto other = symbols.lookupNearestSymbolFrom<dist::MeshOp>(op, peer);
  if (!other)
    return verifyMesh(op, peer, symbols);
  dist::MeshOp own = meshAround(op, symbols);
  if (!own)
    return success();
  bool sends = role == TileRole::Source;
  if (failed(verifyTile(op, source, sends ? own : other, sends ? buffer : Value(), TileRole::Source)) ||
      failed(verifyTile(op, target, sends ? other : own, sends ? Value() : buffer, TileRole::Target)))
    return failure();
  return verifySameTensor(op, source, target);
}

/// Verifies the tile of a load or store.
static LogicalResult verifyPart(Operation *op, SymbolTableCollection &symbols, TileAttr tile, Value buffer,
                                TileRole role) {
  dist::MeshOp mesh = meshAround(op, symbols);
  return mesh ? verifyTile(op, tile, mesh, buffer, role) : success();
}

LogicalResult SendOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyTransfer(*this, symbols, getTargetAttr(), getSourceTileAttr(), getTargetTileAttr(), getBuffer(),
                        TileRole::Source);
}

LogicalResult ReceiveOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyTransfer(*this, symbols, getSourceAttr(), getSourceTileAttr(), getTargetTileAttr(), getBuffer(),
                        TileRole::Target);
}

/// Verifies that a collective has tensors of one element type, and as many tiles, where it has any.
static LogicalResult verifyTensors(Operation *op, OperandRange sources, ArrayAttr tiles) {
  if (sources.empty() || op->getNumOperands() != 2 * sources.size())
    return op->emitOpError("expects as many targets as sources, at least one");
  if (tiles && tiles.size() != sources.size())
    return op->emitOpError("expects a tile for each tensor, got ") << tiles.size() << " for " << sources.size();
  auto elementOf = [](Value buffer) { return cast<BufferType>(buffer.getType()).getTensor().getElementType(); };
  for (Value source : sources)
    if (elementOf(source) != elementOf(sources.front()))
      return op->emitOpError("expects tensors of one element type, got ") << sources.getTypes();
  return success();
}

LogicalResult ExchangeOp::verifySymbolUses(SymbolTableCollection &symbols) {
  static constexpr StringLiteral kinds[] = {"general", "all_gather",    "all_to_all", "permute",
                                            "slice",   "halo_exchange", "broadcast"};
  if (!llvm::is_contained(kinds, getKind()))
    return emitOpError("expects a kind of exchange, such as \"all_gather\", got \"") << getKind() << '"';
  for (ArrayAttr tiles : {getSourceTilesAttr(), getTargetTilesAttr()})
    if (failed(verifyTensors(*this, getSources(), tiles)))
      return failure();
  for (unsigned tensor = 0; tensor != getSources().size(); ++tensor)
    if (failed(verifyPart(*this, symbols, getSourceTile(tensor), getSources()[tensor], TileRole::Source)) ||
        failed(verifyPart(*this, symbols, getTargetTile(tensor), getTargets()[tensor], TileRole::Target)) ||
        failed(verifySameTensor(*this, getSourceTile(tensor), getTargetTile(tensor))))
      return failure();
  return success();
}

static TileAttr tileAt(ArrayAttr tiles, unsigned tensor) { return tiles ? cast<TileAttr>(tiles[tensor]) : TileAttr(); }

TileAttr ExchangeOp::getSourceTile(unsigned tensor) { return tileAt(getSourceTilesAttr(), tensor); }
TileAttr ExchangeOp::getTargetTile(unsigned tensor) { return tileAt(getTargetTilesAttr(), tensor); }

/// Verifies that a reduction has a combiner, and different axes of its mesh.
static LogicalResult verifyReduction(Operation *op, SymbolTableCollection &symbols, StringRef combiner,
                                     ArrayRef<int64_t> axes) {
  auto found = dist::findCombiner(combiner);
  if (!found || *found == Combiner::None)
    return op->emitOpError("expects 'sum', 'product', 'max' or 'min', got '") << combiner << '\'';
  dist::MeshOp mesh = meshAround(op, symbols);
  if (!mesh)
    return success();
  auto count = static_cast<int64_t>(mesh.getAxisSizes().size());
  SmallVector<int64_t> sorted(axes);
  llvm::sort(sorted);
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end() ||
      (!sorted.empty() && (sorted.front() < 0 || sorted.back() >= count)))
    return op->emitOpError("expects different axes of mesh '")
           << mesh.getSymName() << "', which has " << count << ", got [" << axes << ']';
  return success();
}

LogicalResult AllReduceOp::verifySymbolUses(SymbolTableCollection &symbols) {
  for (auto [source, target] : llvm::zip_equal(getSources(), getTargets()))
    if (source.getType() != target.getType())
      return emitOpError("expects buffers of one type, got ") << source.getType() << " and " << target.getType();
  if (failed(verifyTensors(*this, getSources(), {})))
    return failure();
  return verifyReduction(*this, symbols, getCombiner(), getAxes());
}

LogicalResult ReduceScatterOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (failed(verifyReduction(*this, symbols, getCombiner(), getAxes())) ||
      failed(verifyTensors(*this, getSources(), getTiles())))
    return failure();
  for (unsigned tensor = 0; tensor != getSources().size(); ++tensor) {
    auto source = cast<BufferType>(getSources()[tensor].getType()).getTensor();
    TileAttr tile = getTile(tensor);
    if (tile.getTensorElements() != source.getNumElements())
      return emitOpError("expects a tile of its source's ") << source.getNumElements() << " elements, got " << tile;
    if (failed(verifyPart(*this, symbols, tile, getTargets()[tensor], TileRole::Source)))
      return failure();
  }
  return success();
}

LogicalResult LoadParameterOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyPart(*this, symbols, getTileAttr(), getBuffer(), TileRole::Target);
}

LogicalResult StateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyPart(*this, symbols, getTileAttr(), getBuffer(), TileRole::Target);
}

static LogicalResult verifyWithin(Operation *op, TileAttr within) {
  if (within && llvm::any_of(within.getDims(), [](TileDimAttr dim) {
        return !dim.getAxes().empty() || dim.getStep() != 1 || dim.getBefore() < 0;
      }))
    return op->emitOpError("expects a part within a tile without cuts and steps, got ") << within;
  return success();
}

LogicalResult LoadInputOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (failed(verifyWithin(*this, getWithinAttr())))
    return failure();
  return verifyPart(*this, symbols, getTileAttr(), getBuffer(), TileRole::Target);
}

LogicalResult StoreOutputOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (failed(verifyWithin(*this, getWithinAttr())))
    return failure();
  return verifyPart(*this, symbols, getTileAttr(), getBuffer(), TileRole::Source);
}

LogicalResult LoadIndexOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (getWhat() != "start" && getWhat() != "extent")
    return emitOpError("expects 'start' or 'extent', got '") << getWhat() << '\'';
  auto type = cast<BufferType>(getBuffer().getType()).getTensor();
  if (type.getNumElements() != 1 || !type.getElementType().isInteger(64))
    return emitOpError("expects a buffer of one i64, got ") << type;
  auto dims = static_cast<int64_t>(getTile().getDims().size());
  if (static_cast<int64_t>(getDim()) < 0 || static_cast<int64_t>(getDim()) >= dims)
    return emitOpError("expects one of the tile's ") << dims << " dimensions, got " << getDim();
  return verifyPart(*this, symbols, getTile(), Value(), TileRole::Target);
}

LogicalResult ProgramOp::verifyRegions() {
  for (Operation &op : getBody().front()) {
    if (auto buffer = dyn_cast<BufferOp>(op))
      if (auto room = buffer.getHost() ? getHostBytes() : getArenaBytes();
          buffer.getOffset() + buffer.getBytes() > room)
        return buffer.emitOpError("expects to end within the ")
               << (buffer.getHost() ? "program's memory of the host of " : "arena of ") << room << " bytes, got offset "
               << buffer.getOffset() << " and " << buffer.getBytes() << " bytes";
    for (Region &section : op.getRegions())
      for (Operation &inner : section.getOps()) {
        auto instruction = dyn_cast<Instruction>(inner);
        if (!instruction)
          return inner.emitOpError("expects only instructions in a section of a program");
        if (instruction.getQueueIndex() < 0 || instruction.getQueueIndex() >= static_cast<int64_t>(getQueues().size()))
          return inner.emitOpError("expects one of the program's ")
                 << getQueues().size() << " queues, got " << instruction.getQueueIndex();
      }
  }
  return success();
}

/// Verifies that of two buffers the second is in the host's memory and the first is not.
static LogicalResult verifyHostCopy(Operation *op, Value inArena, Value inHost) {
  auto isInHost = [](Value value) {
    auto buffer = value.getDefiningOp<BufferOp>();
    return buffer && buffer.getHost();
  };
  if (!isInHost(inArena) && isInHost(inHost))
    return success();
  return op->emitOpError("expects a buffer of the arena and one of the host's memory");
}

LogicalResult OffloadOp::verify() { return verifyHostCopy(*this, getSource(), getTarget()); }

LogicalResult FetchOp::verify() { return verifyHostCopy(*this, getTarget(), getSource()); }

LogicalResult BufferOp::verify() {
  int64_t needed = storageBytes(getBuffer().getType().getTensor());
  if (static_cast<int64_t>(getOffset()) < 0 || static_cast<int64_t>(getBytes()) < needed)
    return emitOpError("expects an offset that is not negative and at least ")
           << needed << " bytes, got " << getOffset() << " and " << getBytes();
  if (!getWhole())
    return success();
  auto whole = getWhole().getDefiningOp<BufferOp>();
  if (!whole || whole.getWhole())
    return emitOpError("expects to be a view of a buffer that is not a view itself");
  if (getHost() != whole.getHost() || getOffset() < whole.getOffset() ||
      getOffset() + getBytes() > whole.getOffset() + whole.getBytes())
    return emitOpError("expects to lie inside \"")
           << whole.getName() << "\" of offset " << whole.getOffset() << " and " << whole.getBytes()
           << " bytes, got offset " << getOffset() << " and " << getBytes() << " bytes";
  return success();
}
