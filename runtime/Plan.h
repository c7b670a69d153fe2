// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plan as the runtime sees it: the plain C++ view of a plan file (plan.fbs), whose comments say what each part means.

#ifndef CLEAVE_RUNTIME_PLAN_H
#define CLEAVE_RUNTIME_PLAN_H

#include "runtime/FileChecksum.h"
#include "runtime/TensorType.h"

#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace cleave::runtime {

/// `bytes` bytes at `offset` of a file; `file` is relative to the plan's folder.
struct FileSource {
  std::string file;
  uint64_t offset = 0, bytes = 0;
  FileChecksum checksum = {};
};
/// Bytes inside the plan itself.
struct InlineSource {
  std::span<const std::byte> data;
};
enum class Distribution : uint8_t { Constant, Normal, Uniform };
/// Values made on the spot (Generator.h).
struct GeneratedSource {
  Distribution distribution = Distribution::Constant;
  double a = 0, b = 0;
  uint64_t seed = 0;
};
using Source = std::variant<FileSource, InlineSource, GeneratedSource>;

struct Parameter {
  std::string name;
  TensorType type;
  Source source;
};

/// An input or output of an entry. `classes`: of labels, how many there are; else 0. `parameter`: that of which it is a
/// version, or to which it is to be added (plan.fbs).
struct Port {
  std::string name;
  TensorType type;
  uint64_t classes = 0;
  std::optional<uint32_t> parameter = std::nullopt;
};

struct PlanDevice {
  std::string name, driver;
  uint32_t cores = 0;
  uint64_t memoryLimit = 0; ///< bytes; 0: none
};

struct Axis {
  std::string name;
  uint32_t size = 0;
};
struct Mesh {
  std::string name;
  std::vector<Axis> axes;
  std::vector<uint32_t> devices;
};

/// An ELF shared object, or the text of PTX; `image` lies inside the plan's bytes.
struct NativeObject {
  std::string triple, cpu;
  std::vector<std::string> features;
  std::span<const std::byte> image;
  uint64_t checksum = 0;
};

/// A processor by LLVM's name ("x86-64-v3", "znver4"), and LLVM's names of the features of it that code may use
/// ("avx2"). An empty name: nobody said which.
struct Processor {
  std::string name;
  std::vector<std::string> features;
};

struct NativeKernel {
  uint32_t object = 0;
  std::string symbol;
  int64_t parallelExtent = 0;
};
/// A launch on a grid of one dimension; `sharedBytes` of dynamic shared memory a block.
struct GpuLaunch {
  std::string symbol;
  uint32_t blocks = 1, threads = 1, sharedBytes = 0;
};
/// Launches that run one after the other.
struct GpuKernel {
  uint32_t object = 0;
  std::vector<GpuLaunch> launches;
};
/// Holds integers or reals.
struct Attribute {
  std::string name;
  std::vector<int64_t> ints;
  std::vector<double> reals;
};
struct PostOp {
  std::string kind;
  float alpha = 0, beta = 0;
  int32_t argument = -1;
};
struct LibraryKernel {
  std::string library, operation;
  std::vector<Attribute> attributes;
  std::vector<PostOp> postOps;
  std::string implementation;
};
/// What kind of work a kernel does.
enum class CostClass : uint8_t { Contraction, Elementwise, Reduction, Movement };
struct Kernel {
  std::string name;
  std::vector<TensorType> inputs, outputs;
  uint64_t scratchBytes = 0;
  std::variant<NativeKernel, LibraryKernel, GpuKernel> body;
  double flops = 0, bytesRead = 0, bytesWritten = 0; ///< of one call
  CostClass costClass = CostClass::Elementwise;
};

/// Offsets from here on are in a program's part of the host's memory, which begins there.
inline constexpr uint64_t hostOffset = uint64_t(1) << 62;

/// A place in a program's arena, or in its part of the host's memory. `viewOf`: the buffer of which this one shows a
/// part, or -1.
struct PlanBuffer {
  std::string name;
  TensorType type;
  uint64_t offset = 0, bytes = 0;
  int32_t viewOf = -1;

  bool isInHost() const { return offset >= hostOffset; }
};

/// The next three say what each device of a mesh holds of a tensor; plan.fbs defines them, Tile.h computes with them.
struct Cut {
  uint32_t axis = 0;
  int64_t block = 0;
  uint32_t shift = 0, ways = 0;

  bool operator==(const Cut &other) const = default;
};
struct TileDim {
  int64_t size = 0;
  std::vector<Cut> cuts;
  int64_t length = 0, step = 1, before = 0;
};
struct Tile {
  std::vector<TileDim> dims;
};

enum class QueueKind : uint8_t { Compute, Send, Receive, Host, Collective };

/// Holds an instruction until `queue` has finished the first `value` instructions of its list.
struct Wait {
  uint32_t queue = 0, value = 0;
};

struct Call {
  uint32_t kernel = 0;
  std::vector<uint32_t> arguments;
};
struct Copy {
  uint32_t source = 0, target = 0;
};
/// From the arena to the host's memory.
struct Offload {
  uint32_t source = 0, target = 0;
};
/// And back.
struct Fetch {
  uint32_t source = 0, target = 0;
};
/// A tile is an index in the entry's tiles, or -1: the whole tensor.
struct Send {
  uint32_t buffer = 0, mesh = 0, channel = 0;
  int32_t sourceTile = -1, targetTile = -1;
};
struct Receive {
  uint32_t buffer = 0, mesh = 0, channel = 0;
  int32_t sourceTile = -1, targetTile = -1;
  double fill = 0;
};
struct LoadParameter {
  uint32_t parameter = 0, buffer = 0;
  int32_t tile = -1;
};
struct LoadInput {
  uint32_t input = 0, buffer = 0;
  int32_t tile = -1, within = -1;
};
struct StoreOutput {
  uint32_t output = 0, buffer = 0;
  int32_t tile = -1, within = -1;
};
enum class IndexKind : uint8_t { Start, Extent };
struct LoadIndex {
  uint32_t buffer = 0, tile = 0, dim = 0;
  IndexKind what = IndexKind::Start;
};
/// A tensor of a collective, which may have several: its buffers and what devices hold of it. A reduction's sources
/// have no tile, and of reductions only those that scatter have one for the target.
struct Operand {
  uint32_t source = 0, target = 0;
  int32_t sourceTile = -1, targetTile = -1;
};
enum class ExchangeKind : uint8_t { General, AllGather, AllToAll, Permute, HaloExchange, Slice, Broadcast };
struct Exchange {
  std::vector<Operand> operands;
  uint32_t channel = 0;
  double fill = 0;
  ExchangeKind kind = ExchangeKind::General;
};
enum class Combiner : uint8_t { Sum, Product, Max, Min };
struct AllReduce {
  std::vector<Operand> operands;
  uint32_t channel = 0;
  std::vector<uint32_t> axes;
  Combiner combiner = Combiner::Sum;
};
struct ReduceScatter {
  std::vector<Operand> operands;
  uint32_t channel = 0;
  std::vector<uint32_t> axes;
  Combiner combiner = Combiner::Sum;
};
using Action = std::variant<Call, Copy, Send, Receive, LoadParameter, LoadInput, StoreOutput, LoadIndex, Exchange,
                            AllReduce, ReduceScatter, Offload, Fetch>;

struct Instruction {
  std::string node;
  uint32_t queue = 0;
  std::vector<Wait> waits;
  Action action;
  uint32_t order = 0;
};

/// The two lists of a program.
enum class Phase : uint8_t { Prepare, Body };

/// A phase of one of the entries that run together, which is meant by its place among them.
struct EntryPhase {
  uint32_t entry = 0;
  Phase phase = Phase::Body;

  /// A number for lists by entry and phase, below twice the number of entries.
  size_t index() const { return 2 * static_cast<size_t>(entry) + static_cast<size_t>(phase); }
};

/// A parameter that some body writes, and the buffer that holds the device's tile of it from step to step; -1: all of
/// it.
struct State {
  uint32_t parameter = 0, buffer = 0;
  int32_t tile = -1;
};

/// What every device of a mesh runs.
struct Program {
  uint32_t mesh = 0;
  std::vector<QueueKind> queues;
  uint64_t arenaBytes = 0, liveBytes = 0;
  std::vector<PlanBuffer> buffers;
  std::vector<Instruction> prepare, body;
  std::vector<State> state;
  uint64_t hostBytes = 0; ///< of the host's memory

  const std::vector<Instruction> &instructions(Phase phase) const { return phase == Phase::Prepare ? prepare : body; }
};

/// How keys and values of attention come to devices that have a part of the queries; plan.fbs explains every field.
struct KeyExchange {
  bool ring = false;
  uint32_t devices = 2;
  double ringSeconds = 0, gatheredSeconds = 0, ringBytes = 0, gatheredBytes = 0;
};

/// One model operator as people see it.
struct Operator {
  std::string name, kind;
  uint32_t mesh = 0;
  std::string split, decidedBy, kernel, fusedWith;
  std::vector<uint32_t> inputs;
  double flops = 0, bytes = 0, receivedBytes = 0, parameterBytes = 0, resultBytes = 0, predictedSeconds = -1;
  std::vector<int64_t> shape;
  uint32_t ways = 1, stage = 0;
  double communicationSeconds = -1, alternativeSeconds = -1;
  std::vector<std::string> splits;  ///< of a plan without programs: of each of the node's operators
  std::vector<uint32_t> parameters; ///< those that it reads, ascending
  std::string alternative;
  std::optional<KeyExchange> keys;
};

/// What the planner expects of an entry. Seconds, and bytes of each device; plan.fbs explains every field.
struct MemoryUse {
  double parameters = 0, gradients = 0, optimizer = 0, activations = 0, transient = 0;
  double host = 0; ///< Of the device's host.
  /// Of the device.
  double total() const { return parameters + gradients + optimizer + activations + transient; }
};
struct PlanStage {
  uint32_t mesh = 0;
  double forward = 0, backwardInput = 0, backwardWeight = 0, send = 0, perStep = 0;
  uint32_t inFlight = 1;
  MemoryUse memory;
  std::string recompute;
  uint32_t zero = 0;
  bool optimizerInHost = false;
};
struct Alternative {
  std::string name;
  double seconds = -1, peakBytes = 0;
  std::string whyNot;
};
struct Degree {
  std::string name;
  uint32_t ways = 1;
};
struct Prediction {
  std::string machine;
  bool training = false;
  double stepSeconds = -1, lowerBoundSeconds = -1, modelFlops = 0;
  uint32_t microbatches = 1;
  std::string schedule;
  /// The chunks of each stage, under `schedule`; `inFlight` of stages counts them.
  uint32_t chunks = 1;
  std::vector<Degree> degrees;
  std::vector<PlanStage> stages;
  std::vector<Alternative> alternatives;
  double memoryLimit = 0;
  std::vector<double> peakBytes;
  double simulatedSeconds = -1;
  std::string machineFile; ///< the machine as a machine file, where its name alone does not tell it

  /// The step's time by the simulator, where it has one, else by the search.
  double bestSeconds() const { return simulatedSeconds >= 0 ? simulatedSeconds : stepSeconds; }
};

/// Of an entry without programs: what devices of a mesh are to keep of a parameter, or of the optimizer's state of one;
/// -1: all of it. `isTrained`: steps write it.
struct Home {
  uint32_t parameter = 0, mesh = 0;
  int32_t tile = -1;
  bool isTrained = false;
};

struct Entry {
  std::string name;
  std::vector<Port> inputs, outputs;
  std::vector<Program> programs;
  std::vector<Operator> operators;
  std::vector<Tile> tiles;
  std::optional<Prediction> prediction;
  /// Of an entry that takes turns with others on one arena (a step that trains or evaluates, or one of several
  /// batches): the size of dimension 0 of every input. Else 0.
  uint64_t samples = 0;
  /// The length of sequences that it is for, where the plan has entries for several; else 0.
  uint64_t bucket = 0;
  std::vector<Home> homes;

  /// Whether it is what the planner decided about a training step, without programs that would run it.
  bool isDecision() const { return prediction && prediction->training && programs.empty(); }
  /// The tile of that index; null for -1.
  const Tile *tile(int32_t index) const { return index < 0 ? nullptr : &tiles[static_cast<size_t>(index)]; }
};

/// An option that says what steps compute besides the model, as "loss" and "cross-entropy".
struct Setting {
  std::string name, value;

  bool operator==(const Setting &) const = default;
};

/// The triple of objects that hold PTX.
inline constexpr std::string_view ptxTriple = "nvptx64-nvidia-cuda";

/// The version of plan.fbs that this runtime reads: one more with each change that an older runtime would misread.
inline constexpr uint32_t planVersion = 7;

/// Everything in a plan. Spans refer to the bytes that the Plan holds.
/// Replicas of a training step that do not wait for each other, and where they are (plan.fbs).
struct Replicas {
  uint32_t count = 0, devices = 0;
  std::optional<uint64_t> bound = 0; ///< nothing: any number of steps
  uint32_t localSteps = 0;
  uint32_t overlap = 0; ///< local steps that hide an exchange; 0: replicas wait for it

  /// Whether versions are made of the gifts of all replicas together.
  bool areTogether() const { return bound == 0u; }
  bool operator==(const Replicas &) const = default;
};

/// Entries of a plan with replicas: what each of them runs, and what the keeper of their parameters does.
inline constexpr const char *applyEntryName = "apply", *fetchEntryName = "fetch", *giveEntryName = "give",
                            *mergeEntryName = "merge";

struct PlanContents {
  uint32_t version = planVersion;
  std::string producer, model, strategy;
  std::vector<PlanDevice> devices;
  std::vector<Mesh> meshes;
  std::vector<Parameter> parameters;
  std::vector<NativeObject> objects;
  std::vector<Kernel> kernels;
  std::vector<Entry> entries;
  std::vector<Setting> settings;
  Processor processor; ///< what the plan's devices of the driver cpu need
  std::optional<Replicas> replicas;
};

/// Whether an entry is one that each of the plan's replicas runs, if it has any.
bool isOfReplicas(const PlanContents &plan, const Entry &entry);
/// The devices of a verified plan that keep the parameters of its replicas, if it has any: the first replica's, or
/// others.
std::set<uint32_t> keeperDevices(const PlanContents &plan);

/// A plan file in memory. Immutable; copies share the bytes. Reading it makes sure that the file is well-formed
/// (tables, strings, unions, enumerations), not that the plan makes sense: that is verifyPlan's part.
class Plan {
public:
  /// Maps the file at `path`. Status::Failure when it cannot be read, Status::Rejected when it is not a plan.
  static Expected<Plan> read(const std::filesystem::path &path);
  /// A plan from its bytes, which are copied; `folder` is where the files of its parameters are.
  static Expected<Plan> fromBytes(std::span<const std::byte> bytes, std::filesystem::path folder = {});

  const PlanContents &operator*() const { return *contents; }
  const PlanContents *operator->() const { return contents.get(); }
  /// Where the files of the plan's parameters are.
  const std::filesystem::path &folder() const { return home; }
  /// The file's bytes.
  std::span<const std::byte> bytes() const { return storage; }
  /// The plan with the devices of a replica in the place of the first's; it has replicas, and one of this number.
  Plan ofReplica(uint32_t replica) const;
  /// The entry of that name, or the first one when `name` is empty. Status::Usage when there is no such entry.
  Expected<const Entry *> entry(const std::string &name) const;

private:
  static Expected<Plan> parse(std::shared_ptr<const void> owner, std::span<const std::byte> bytes,
                              std::filesystem::path folder);

  std::shared_ptr<const void> owner;
  std::span<const std::byte> storage;
  std::filesystem::path home;
  std::shared_ptr<const PlanContents> contents;
};

/// "call", "copy", "send", "receive", "load parameter", "load input", "store output", "load index", "exchange",
/// "all_reduce", "reduce_scatter", "offload" or "fetch".
const char *actionName(const Action &action);
/// The tensors of a collective; none of any other action.
std::span<const Operand> operandsOf(const Action &action);
/// The buffers that an action names, in the order in which it names them: of a collective each tensor's source and
/// target.
std::vector<uint32_t> buffersOf(const Action &action);
/// A buffer that an action reads or writes.
struct BufferAccess {
  uint32_t buffer = 0;
  bool writes = false;
};
/// What an action of a sound plan does with its buffers, in the order in which it names them.
std::vector<BufferAccess> accessesOf(const PlanContents &plan, const Action &action);
/// What an action does, for people: an exchange's kind ("all_gather", "halo_exchange", ...), otherwise its name.
const char *kindName(const Action &action);
/// "contraction", "elementwise", "reduction" or "movement".
const char *costClassName(CostClass costClass);
/// "sum", "product", "max" or "min".
const char *combinerName(Combiner combiner);
/// "compute", "send", "receive", "host" or "collective".
const char *queueKindName(QueueKind kind);
/// The 64-bit FNV-1a hash of `bytes` (Fowler, Noll, Vo), as NativeObject.checksum holds it.
uint64_t checksum(std::span<const std::byte> bytes);
/// What a plan file has after its FlatBuffer `bytes`: their checksum, so that any damage is noticed.
std::array<std::byte, 8> planSeal(std::span<const std::byte> bytes);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PLAN_H
