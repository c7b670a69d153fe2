// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The dist dialect: syntax and verification.

#include "dialects/dist/Accumulation.h"
#include "dialects/dist/Dist.h"
#include "dialects/dist/KeyExchange.h"
#include "dialects/dist/Replicas.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionImplementation.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cleave::dist;

static ParseResult parseIntegers(OpAsmParser &parser, SmallVectorImpl<int64_t> &list) {
  return parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square,
                                        [&]() -> ParseResult { return parser.parseInteger(list.emplace_back()); });
}

static ParseResult parseAxes(OpAsmParser &parser, ArrayAttr &names, DenseI64ArrayAttr &sizes, DictionaryAttr &shares) {
  SmallVector<Attribute> nameList;
  SmallVector<int64_t> sizeList;
  NamedAttrList shareList;
  Builder &builder = parser.getBuilder();
  auto parseAxis = [&]() -> ParseResult {
    std::string name;
    int64_t size = 0;
    if (parser.parseString(&name) || parser.parseEqual())
      return failure();
    OptionalParseResult isSize = parser.parseOptionalInteger(size);
    if (isSize.has_value() && failed(*isSize))
      return failure();
    if (!isSize.has_value()) {
      SmallVector<int64_t> list;
      if (parseIntegers(parser, list))
        return failure();
      size = static_cast<int64_t>(list.size());
      shareList.set(builder.getStringAttr(name), builder.getDenseI64ArrayAttr(list));
    }
    nameList.push_back(builder.getStringAttr(name));
    sizeList.push_back(size);
    return success();
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square, parseAxis))
    return failure();
  names = builder.getArrayAttr(nameList);
  sizes = builder.getDenseI64ArrayAttr(sizeList);
  if (!shareList.empty())
    shares = shareList.getDictionary(parser.getContext());
  return success();
}

static void printAxes(OpAsmPrinter &printer, Operation *, ArrayAttr names, DenseI64ArrayAttr sizes,
                      DictionaryAttr shares) {
  printer << '[';
  llvm::interleaveComma(llvm::zip(names, sizes.asArrayRef()), printer, [&](auto axis) {
    auto name = cast<StringAttr>(std::get<0>(axis));
    printer << name << " = ";
    if (auto list = shares ? shares.getAs<DenseI64ArrayAttr>(name) : DenseI64ArrayAttr())
      printer << '[' << list.asArrayRef() << ']';
    else
      printer << std::get<1>(axis);
  });
  printer << ']';
}

static ParseResult parseDevices(OpAsmParser &parser, DenseI64ArrayAttr &devices) {
  SmallVector<int64_t> list;
  if (parseIntegers(parser, list))
    return failure();
  devices = parser.getBuilder().getDenseI64ArrayAttr(list);
  return success();
}

static void printDevices(OpAsmPrinter &printer, Operation *, DenseI64ArrayAttr devices) {
  printer << '[' << devices.asArrayRef() << ']';
}

static ParseResult parseChannel(OpAsmParser &parser, IntegerAttr &channel) {
  int64_t value = 0;
  if (parser.parseInteger(value))
    return failure();
  channel = parser.getBuilder().getI64IntegerAttr(value);
  return success();
}

static void printChannel(OpAsmPrinter &printer, Operation *, IntegerAttr channel) { printer << channel.getInt(); }

static ParseResult parseLayouts(OpAsmParser &parser, ArrayAttr &layouts) {
  SmallVector<Attribute> list;
  if (parser.parseCommaSeparatedList([&]() -> ParseResult {
        list.push_back(LayoutAttr::parse(parser, Type()));
        return success(list.back() != nullptr);
      }))
    return failure();
  layouts = parser.getBuilder().getArrayAttr(list);
  return success();
}

static void printLayouts(OpAsmPrinter &printer, Operation *, ArrayAttr layouts) {
  llvm::interleaveComma(layouts.getAsRange<LayoutAttr>(), printer, [&](LayoutAttr layout) { layout.print(printer); });
}

static ParseResult parseMachineDescription(OpAsmParser &parser, DictionaryAttr &description) {
  return parser.parseAttribute(description);
}

/// A line where it is short enough, else a line an entry or item.
static void printInLines(OpAsmPrinter &printer, Attribute value) {
  static constexpr size_t longestLine = 100;
  std::string line;
  llvm::raw_string_ostream(line) << value;
  auto list = dyn_cast<ArrayAttr>(value);
  auto map = dyn_cast<DictionaryAttr>(value);
  if (line.size() <= longestLine || (!list && !map)) {
    printer << line;
    return;
  }
  auto printLines = [&](auto entries, auto print) {
    printer.increaseIndent();
    llvm::interleave(
        entries,
        [&](auto entry) {
          printer.printNewline();
          print(entry);
        },
        [&] { printer << ','; });
    printer.decreaseIndent();
    printer.printNewline();
  };
  printer << (map ? '{' : '[');
  if (map)
    printLines(map.getValue(), [&](NamedAttribute entry) {
      printer.printKeywordOrString(entry.getName().getValue());
      printer << " = ";
      printInLines(printer, entry.getValue());
    });
  else
    printLines(list.getValue(), [&](Attribute item) { printInLines(printer, item); });
  printer << (map ? '}' : ']');
}

static void printMachineDescription(OpAsmPrinter &printer, Operation *, DictionaryAttr description) {
  printInLines(printer, description);
}

#include "dialects/dist/DistOpsDialect.cpp.inc"
#include "dialects/dist/DistOpsInterfaces.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/dist/DistOpsAttributes.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/dist/DistOps.cpp.inc"

void DistDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/dist/DistOpsAttributes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/dist/DistOps.cpp.inc"
      >();
}

//===-- the machine -------------------------------------------------------------------------------------------===//

/// The first part of a description that is no text, list or dictionary; null where there is none.
static Attribute findOtherThanText(Attribute value) {
  if (auto map = dyn_cast<DictionaryAttr>(value)) {
    for (NamedAttribute entry : map)
      if (Attribute found = findOtherThanText(entry.getValue()))
        return found;
    return {};
  }
  if (auto list = dyn_cast<ArrayAttr>(value)) {
    for (Attribute item : list)
      if (Attribute found = findOtherThanText(item))
        return found;
    return {};
  }
  return isa<StringAttr>(value) ? Attribute() : value;
}

LogicalResult MachineOp::verify() {
  if (MachineOp first = getMachine((*this)->getParentOfType<ModuleOp>()); first != *this)
    return emitOpError("expects to be the module's only machine, found '") << first.getSymName() << "' before it";
  if (Attribute other = findOtherThanText(getDescription()))
    return emitOpError("expects texts in lists and dictionaries, as in bandwidth = \"900 GB/s\"; got ") << other;
  auto *reader = (*this)->getDialect()->getRegisteredInterface<MachineReaderInterface>();
  return reader ? reader->verify(*this) : success();
}

MachineOp cleave::dist::getMachine(ModuleOp module) {
  auto machines = module.getOps<MachineOp>();
  return machines.empty() ? MachineOp() : *machines.begin();
}

void cleave::dist::copyTarget(ModuleOp from, ModuleOp to) {
  OpBuilder builder = OpBuilder::atBlockBegin(to.getBody());
  if (MachineOp machine = getMachine(from))
    builder.clone(*machine);
  for (auto mesh : from.getOps<MeshOp>())
    builder.clone(*mesh);
  setDevices(to, getDevices(from));
}

//===-- devices -----------------------------------------------------------------------------------------------===//

/// An entry of `dist.devices`; none where it is malformed.
static std::optional<Device> readDevice(Attribute attribute) {
  auto entry = dyn_cast<DictionaryAttr>(attribute);
  auto chip = entry ? entry.getAs<StringAttr>("chip") : nullptr;
  if (!entry || entry.size() != (chip ? 5 : 4))
    return std::nullopt;
  auto name = entry.getAs<StringAttr>("name"), driver = entry.getAs<StringAttr>("driver");
  auto cores = entry.getAs<IntegerAttr>("cores"), memory = entry.getAs<IntegerAttr>("memory");
  if (!name || !driver || !cores || !memory || !cores.getType().isInteger(64) || !memory.getType().isInteger(64) ||
      cores.getInt() < 1 || memory.getInt() < 0)
    return std::nullopt;
  return Device{name.getValue(), driver.getValue(), cores.getInt(), memory.getInt(),
                chip ? chip.getValue() : StringRef()};
}

static LogicalResult verifyDevices(Operation *op, Attribute attribute) {
  auto module = dyn_cast<ModuleOp>(op);
  auto list = dyn_cast<ArrayAttr>(attribute);
  if (!module || !list)
    return op->emitOpError("expects '") << devicesAttrName << "' to be a list on a module, got " << attribute;
  llvm::StringSet<llvm::MallocAllocator> names;
  for (Attribute entry : list) {
    auto device = readDevice(entry);
    if (!device)
      return op->emitOpError("expects a device to have a name, a driver, i64 cores of at least 1, i64 memory, not "
                             "negative, and perhaps a chip; got ")
             << entry;
    if (!names.insert(device->name).second)
      return op->emitOpError("expects distinct names of devices, got \"") << device->name << "\" twice";
  }
  for (MeshOp mesh : module.getOps<MeshOp>())
    for (int64_t index : mesh.getDevices())
      if (index >= static_cast<int64_t>(list.size()))
        return mesh.emitOpError("expects indices of the module's ") << list.size() << " devices, got " << index;
  return success();
}

SmallVector<Device> cleave::dist::getDevices(ModuleOp module) {
  SmallVector<Device> devices;
  if (auto list = module->getAttrOfType<ArrayAttr>(devicesAttrName))
    for (Attribute entry : list)
      if (auto device = readDevice(entry))
        devices.push_back(*device);
  return devices;
}

Device cleave::dist::getDeviceOf(ProgramOp program) {
  auto module = program->getParentOfType<ModuleOp>();
  auto mesh = module.lookupSymbol<MeshOp>(program.getMeshAttr());
  SmallVector<Device> devices = getDevices(module);
  auto first = mesh ? static_cast<size_t>(mesh.getDevices().front()) : 0;
  return first < devices.size() ? devices[first] : Device{"", "cpu"};
}

void cleave::dist::setDevices(ModuleOp module, ArrayRef<Device> devices) {
  Builder builder(module.getContext());
  SmallVector<Attribute> list;
  for (const Device &device : devices) {
    SmallVector<NamedAttribute> entry = {builder.getNamedAttr("name", builder.getStringAttr(device.name)),
                                         builder.getNamedAttr("driver", builder.getStringAttr(device.driver)),
                                         builder.getNamedAttr("cores", builder.getI64IntegerAttr(device.cores)),
                                         builder.getNamedAttr("memory", builder.getI64IntegerAttr(device.memory))};
    if (!device.chip.empty())
      entry.push_back(builder.getNamedAttr("chip", builder.getStringAttr(device.chip)));
    list.push_back(builder.getDictionaryAttr(entry));
  }
  module->setAttr(devicesAttrName, builder.getArrayAttr(list));
}

//===-- attributes --------------------------------------------------------------------------------------------===//

LogicalResult DistDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (attribute.getName() == devicesAttrName)
    return verifyDevices(op, attribute.getValue());
  if (attribute.getName() == replicasAttrName)
    return verifyReplicas(op, attribute.getValue());
  if (attribute.getName() == keysAttrName)
    return verifyKeyExchange(op, attribute.getValue());
  bool place = attribute.getName() == placeAttrName && isa<PlaceAttr>(attribute.getValue());
  bool group = attribute.getName() == groupAttrName && isa<StringAttr>(attribute.getValue());
  StringAttr name = attribute.getName();
  bool mark = (name == orderedAttrName || name == changesAttrName || name == accumulatesAttrName) &&
              isa<UnitAttr>(attribute.getValue());
  mark |= name == againAttrName && isa<IntegerAttr>(attribute.getValue());
  mark |= name == recomputeAttrName && isa<RecomputeAttr>(attribute.getValue());
  if (!place && !group && !mark)
    return op->emitOpError("expects the attribute '")
           << attribute.getName().getValue() << "' to be '" << placeAttrName << "' with a #dist.place, or '"
           << groupAttrName << "' with a string, got " << attribute.getValue();
  return success();
}

static LogicalResult verifyIndex(Operation *op, NamedAttribute attribute, StringRef name) {
  if (attribute.getName() == layoutAttrName && isa<LayoutAttr>(attribute.getValue()))
    return success();
  if (attribute.getName() == withinAttrName && isa<WithinAttr>(attribute.getValue()))
    return success();
  if (attribute.getName() != name || !isa<IntegerAttr>(attribute.getValue()))
    return op->emitOpError("expects the integer attribute '")
           << name << "', '" << layoutAttrName << "' with a #dist.layout or '" << withinAttrName
           << "' with a #dist.within, got '" << attribute.getName().getValue() << "'";
  return success();
}

LogicalResult DistDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned, NamedAttribute attribute) {
  return verifyIndex(op, attribute, inputAttrName);
}

LogicalResult DistDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned, NamedAttribute attribute) {
  return verifyIndex(op, attribute, outputAttrName);
}

LogicalResult SplitAttr::verify(function_ref<InFlightDiagnostic()> emitError, DictionaryAttr factors) {
  for (NamedAttribute factor : factors) {
    auto axes = dyn_cast<ArrayAttr>(factor.getValue());
    if (!axes || !llvm::all_of(axes, llvm::IsaPred<StringAttr>))
      return emitError() << "expects a list of axis names for factor '" << factor.getName().getValue() << "', got "
                         << factor.getValue();
  }
  return success();
}

LogicalResult RecomputeAttr::verify(function_ref<InFlightDiagnostic()> emitError, unsigned /*segment*/,
                                    StringAttr what) {
  if (llvm::is_contained({"none", "selective", "full", "offload"}, what.getValue()))
    return success();
  return emitError() << "expects \"none\", \"selective\", \"full\" or \"offload\", got " << what;
}

RecomputeAttr cleave::dist::getRecompute(Operation *op) { return op->getAttrOfType<RecomputeAttr>(recomputeAttrName); }

PlaceAttr cleave::dist::getPlace(Operation *op) { return op->getAttrOfType<PlaceAttr>(placeAttrName); }

//===-- mesh --------------------------------------------------------------------------------------------------===//

/// A share for each coordinate of one axis.
static LogicalResult verifyShares(MeshOp mesh) {
  DictionaryAttr shares = mesh.getAxisSharesAttr();
  if (!shares)
    return success();
  if (shares.size() != 1)
    return mesh.emitOpError("expects at most one axis with shares, got ") << shares.size();
  auto list = dyn_cast<DenseI64ArrayAttr>(shares.begin()->getValue());
  auto axis = llvm::find(mesh.getAxisNames(), shares.begin()->getName());
  if (!list || axis == mesh.getAxisNames().end() ||
      list.size() != mesh.getAxisSizes()[axis - mesh.getAxisNames().begin()])
    return mesh.emitOpError("expects a share for each coordinate of axis ") << shares.begin()->getName();
  int64_t sum = 0;
  for (int64_t share : list.asArrayRef())
    if (share < 1 || share > mostShares || (sum += share) > mostShares)
      return mesh.emitOpError("expects positive shares of at most ") << mostShares << " together, got " << share;
  return success();
}

std::pair<StringAttr, ArrayRef<int64_t>> MeshOp::getShares() {
  DictionaryAttr shares = getAxisSharesAttr();
  if (!shares || shares.empty())
    return {};
  return {shares.begin()->getName(), cast<DenseI64ArrayAttr>(shares.begin()->getValue()).asArrayRef()};
}

LogicalResult MeshOp::verify() {
  if (getAxisNames().size() != getAxisSizes().size())
    return emitOpError("expects a size for each axis");
  int64_t product = 1, count = getDevices().size();
  llvm::StringSet<llvm::MallocAllocator> names;
  for (auto [name, size] : llvm::zip(getAxisNames().getAsValueRange<StringAttr>(), getAxisSizes())) {
    if (size < 1)
      return emitOpError("expects axis \"") << name << "\" to have a positive size, got " << size;
    if (!names.insert(name).second)
      return emitOpError("expects distinct axis names, got \"") << name << "\" twice";
    // Bounded by the number of devices, as the product of hostile sizes overflows.
    if (product <= count)
      product = size > count ? count + 1 : product * size;
  }
  if (product != count)
    return emitOpError("expects as many devices as the product of its axes, got ") << count;
  if (failed(verifyShares(*this)))
    return failure();
  SmallVector<int64_t> sorted(getDevices());
  llvm::sort(sorted);
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end() || sorted.front() < 0)
    return emitOpError("expects distinct devices, none negative");
  return success();
}

//===-- program -----------------------------------------------------------------------------------------------===//

void ProgramOp::build(OpBuilder &builder, OperationState &state, StringRef name, FunctionType type,
                      FlatSymbolRefAttr mesh) {
  state.addAttribute(SymbolTable::getSymbolAttrName(), builder.getStringAttr(name));
  state.addAttribute(getFunctionTypeAttrName(state.name), TypeAttr::get(type));
  state.addAttribute(getMeshAttrName(state.name), mesh);
  Block *block = new Block;
  state.addRegion()->push_back(block);
  for (Type input : type.getInputs())
    block->addArgument(input, state.location);
}

ParseResult ProgramOp::parse(OpAsmParser &parser, OperationState &result) {
  auto buildType = [](Builder &builder, ArrayRef<Type> inputs, ArrayRef<Type> results,
                      function_interface_impl::VariadicFlag,
                      std::string &) { return builder.getFunctionType(inputs, results); };
  return function_interface_impl::parseFunctionOp(parser, result, /*allowVariadic=*/false,
                                                  getFunctionTypeAttrName(result.name), buildType,
                                                  getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void ProgramOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(printer, *this, /*isVariadic=*/false, getFunctionTypeAttrName(),
                                           getArgAttrsAttrName(), getResAttrsAttrName());
}

static LogicalResult verifyMesh(Operation *op, FlatSymbolRefAttr mesh, SymbolTableCollection &symbols) {
  if (!symbols.lookupNearestSymbolFrom<MeshOp>(op, mesh))
    return op->emitOpError("expects a 'dist.mesh' named '") << mesh.getValue() << "', found none";
  return success();
}

LogicalResult ProgramOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyMesh(*this, getMeshAttr(), symbols);
}

LogicalResult ProgramOp::verifyRegions() {
  int64_t last = -1;
  for (Operation &op : getBody().front()) {
    auto transfer = dyn_cast<Transfer>(op);
    if (!transfer)
      continue;
    if (transfer.getChannelIndex() <= last)
      return op.emitOpError("expects the transfers of a program in the order of their channels, got channel ")
             << transfer.getChannelIndex() << " after " << last;
    last = transfer.getChannelIndex();
    if (transfer.getPeer() == getMeshAttr())
      return op.emitOpError("expects another mesh than the program's own, got ") << transfer.getPeer();
  }
  return success();
}

int64_t ProgramOp::getInputIndex(unsigned argument) {
  auto index = getArgAttrOfType<IntegerAttr>(argument, inputAttrName);
  return index ? index.getInt() : argument;
}

int64_t ProgramOp::getOutputIndex(unsigned result) {
  auto index = getResultAttrOfType<IntegerAttr>(result, outputAttrName);
  return index ? index.getInt() : result;
}

LogicalResult cleave::dist::ReturnOp::verify() {
  auto program = cast<ProgramOp>((*this)->getParentOp());
  if (getOperandTypes() != TypeRange(program.getResultTypes()))
    return emitOpError("expects the program's result types (")
           << program.getResultTypes() << "), got (" << getOperandTypes() << ")";
  return success();
}

//===-- send, receive -----------------------------------------------------------------------------------------===//

LogicalResult SendOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyMesh(*this, getTargetAttr(), symbols);
}

LogicalResult ReceiveOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyMesh(*this, getSourceAttr(), symbols);
}
