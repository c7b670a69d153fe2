// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The walk over a plan file's tables. FlatBuffers' verifier has made sure that every offset is inside the file; absent
// parts, unknown enumerators and unions, and tables shared so often that their copies would not fit are found here.

#include "runtime/PlanReader.h"

#include "runtime/plan_generated.h"

#include <algorithm>

namespace cleave::runtime {
namespace {

class Reader {
public:
  explicit Reader(uint64_t budget) : budget(budget) {}

  PlanContents plan(const fb::Plan &from);
  const Error &failure() const { return error; }

private:
  /// Copies of the vector's elements through `convert`; an absent vector is empty.
  template <typename T, typename Vector, typename Convert> std::vector<T> list(const Vector *from, Convert convert) {
    std::vector<T> to;
    if (!from || !charge(from->size() * sizeof(T)))
      return to;
    to.reserve(from->size());
    for (auto element : *from) {
      if (error)
        break;
      to.push_back(convert(element));
    }
    return to;
  }
  template <typename T, typename Vector> std::vector<T> numbers(const Vector *from) {
    return list<T>(from, [](auto number) { return static_cast<T>(number); });
  }
  template <typename T, typename Raw> T enumerator(Raw raw, Raw last, const char *what) {
    if (raw > last)
      fail("unknown ", what, " ", static_cast<unsigned>(raw));
    return static_cast<T>(raw);
  }
  std::string text(const flatbuffers::String *from) {
    return from && charge(from->size()) ? from->str() : std::string();
  }
  std::span<const std::byte> raw(const flatbuffers::Vector<uint8_t> *from) {
    return from ? std::as_bytes(std::span(from->data(), from->size())) : std::span<const std::byte>();
  }

  TensorType type(const fb::TensorType *from, const std::string &owner);
  Source source(const fb::Parameter &from);
  Kernel kernel(const fb::Kernel &from);
  std::vector<Operand> operands(Operand first, const flatbuffers::Vector<flatbuffers::Offset<fb::Operand>> *more);
  Action action(const fb::Instruction &from);
  Instruction instruction(const fb::Instruction &from);
  PlanBuffer buffer(const fb::Buffer &from);
  Program program(const fb::Program &from);
  Operator modelOperator(const fb::Operator &from);
  PlanStage stage(const fb::Stage &from);
  Prediction prediction(const fb::Prediction &from);
  Tile tile(const fb::Tile &from);
  Entry entry(const fb::Entry &from);

  bool charge(uint64_t bytes) {
    if (bytes > budget)
      fail("its parts are shared so often that they do not fit in memory");
    else
      budget -= bytes;
    return !error;
  }
  template <typename... Parts> void fail(const Parts &...parts) {
    if (!error)
      error = makeError(Status::Rejected, "plan is malformed: ", parts...);
  }

  uint64_t budget;
  Error error;
};

TensorType Reader::type(const fb::TensorType *from, const std::string &owner) {
  TensorType to;
  if (!from) {
    fail("\"", owner, "\" has no type");
    return to;
  }
  to.element = enumerator<ElementType>(from->element(), fb::ElementType::MAX, "element type");
  to.shape = numbers<int64_t>(from->shape());
  if (const fb::Layout *layout = from->layout())
    to.layout = Layout{numbers<int64_t>(layout->padded()), numbers<int64_t>(layout->strides()),
                       numbers<int64_t>(layout->inner_blocks()), numbers<int32_t>(layout->inner_dims())};
  return to;
}

Source Reader::source(const fb::Parameter &from) {
  if (auto *file = from.source_as_FileSource())
    return FileSource{text(file->file()), file->offset(), file->bytes(), {file->checksum(), file->sampled()}};
  if (auto *data = from.source_as_InlineSource())
    return InlineSource{raw(data->data())};
  if (auto *made = from.source_as_GeneratedSource())
    return GeneratedSource{enumerator<Distribution>(made->distribution(), fb::Distribution::MAX, "distribution"),
                           made->a(), made->b(), made->seed()};
  fail("parameter \"", text(from.name()), "\" has no known source");
  return {};
}

Kernel Reader::kernel(const fb::Kernel &from) {
  Kernel to;
  to.name = text(from.name());
  auto types = [&](const fb::TensorType *element) { return type(element, to.name); };
  to.inputs = list<TensorType>(from.inputs(), types);
  to.outputs = list<TensorType>(from.outputs(), types);
  to.scratchBytes = from.scratch_bytes();
  if (auto *native = from.body_as_NativeKernel()) {
    to.body = NativeKernel{native->object(), text(native->symbol()), native->parallel_extent()};
  } else if (auto *library = from.body_as_LibraryKernel()) {
    auto attribute = [&](const fb::Attribute *element) {
      return Attribute{text(element->name()), numbers<int64_t>(element->ints()), numbers<double>(element->reals())};
    };
    auto postOp = [&](const fb::PostOp *element) {
      return PostOp{text(element->kind()), element->alpha(), element->beta(), element->argument()};
    };
    to.body = LibraryKernel{text(library->library()), text(library->operation()),
                            list<Attribute>(library->attributes(), attribute),
                            list<PostOp>(library->post_ops(), postOp), text(library->implementation())};
  } else if (auto *gpu = from.body_as_GpuKernel()) {
    auto launch = [&](const fb::GpuLaunch *element) {
      return GpuLaunch{text(element->symbol()), element->blocks(), element->threads(), element->shared_bytes()};
    };
    to.body = GpuKernel{gpu->object(), list<GpuLaunch>(gpu->launches(), launch)};
  } else {
    fail("kernel \"", to.name, "\" has no known body");
  }
  to.flops = from.flops();
  to.bytesRead = from.bytes_read();
  to.bytesWritten = from.bytes_written();
  to.costClass = enumerator<CostClass>(from.cost_class(), fb::CostClass::MAX, "cost class");
  return to;
}

std::vector<Operand> Reader::operands(Operand first,
                                      const flatbuffers::Vector<flatbuffers::Offset<fb::Operand>> *more) {
  std::vector<Operand> all = {first};
  for (Operand &operand : list<Operand>(more, [](const fb::Operand *element) {
         return Operand{element->source(), element->target(), element->source_tile(), element->target_tile()};
       }))
    all.push_back(operand);
  return all;
}

Action Reader::action(const fb::Instruction &from) {
  if (auto *call = from.action_as_Call())
    return Call{call->kernel(), numbers<uint32_t>(call->arguments())};
  if (auto *copy = from.action_as_Copy())
    return Copy{copy->source(), copy->target()};
  if (auto *send = from.action_as_Send())
    return Send{send->buffer(), send->mesh(), send->channel(), send->source_tile(), send->target_tile()};
  if (auto *receive = from.action_as_Receive())
    return Receive{receive->buffer(),      receive->mesh(),        receive->channel(),
                   receive->source_tile(), receive->target_tile(), receive->fill()};
  if (auto *load = from.action_as_LoadParameter())
    return LoadParameter{load->parameter(), load->buffer(), load->tile()};
  if (auto *load = from.action_as_LoadInput())
    return LoadInput{load->input(), load->buffer(), load->tile(), load->within()};
  if (auto *store = from.action_as_StoreOutput())
    return StoreOutput{store->output(), store->buffer(), store->tile(), store->within()};
  if (auto *load = from.action_as_LoadIndex())
    return LoadIndex{load->buffer(), load->tile(), load->dim(),
                     enumerator<IndexKind>(load->what(), fb::IndexKind::MAX, "index kind")};
  if (auto *exchange = from.action_as_Exchange())
    return Exchange{operands({exchange->source(), exchange->target(), exchange->source_tile(), exchange->target_tile()},
                             exchange->more()),
                    exchange->channel(), exchange->fill(),
                    enumerator<ExchangeKind>(exchange->kind(), fb::ExchangeKind::MAX, "exchange kind")};
  auto combiner = [&](fb::Combiner raw) { return enumerator<Combiner>(raw, fb::Combiner::MAX, "combiner"); };
  if (auto *reduce = from.action_as_AllReduce())
    return AllReduce{operands({reduce->source(), reduce->target(), -1, -1}, reduce->more()), reduce->channel(),
                     numbers<uint32_t>(reduce->axes()), combiner(reduce->combiner())};
  if (auto *reduce = from.action_as_ReduceScatter())
    return ReduceScatter{operands({reduce->source(), reduce->target(), -1, reduce->tile()}, reduce->more()),
                         reduce->channel(), numbers<uint32_t>(reduce->axes()), combiner(reduce->combiner())};
  if (auto *offload = from.action_as_Offload())
    return Offload{offload->source(), offload->target()};
  if (auto *fetch = from.action_as_Fetch())
    return Fetch{fetch->source(), fetch->target()};
  fail("the instruction of node \"", text(from.node()), "\" has no known action");
  return {};
}

Instruction Reader::instruction(const fb::Instruction &from) {
  auto wait = [](const fb::Wait *element) { return Wait{element->queue(), element->value()}; };
  return {text(from.node()), from.queue(), list<Wait>(from.waits(), wait), action(from), from.order()};
}

PlanBuffer Reader::buffer(const fb::Buffer &from) {
  PlanBuffer to;
  to.name = text(from.name());
  to.type = type(from.type(), to.name);
  to.offset = from.offset();
  to.bytes = from.bytes();
  to.viewOf = from.view_of();
  return to;
}

Program Reader::program(const fb::Program &from) {
  Program to;
  auto instructions = [&](const fb::Instruction *element) { return instruction(*element); };
  to.mesh = from.mesh();
  to.queues = list<QueueKind>(from.queues(), [&](auto kind) {
    return enumerator<QueueKind>(static_cast<fb::QueueKind>(kind), fb::QueueKind::MAX, "queue kind");
  });
  to.arenaBytes = from.arena_bytes();
  to.liveBytes = from.live_bytes();
  to.buffers = list<PlanBuffer>(from.buffers(), [&](const fb::Buffer *element) { return buffer(*element); });
  to.prepare = list<Instruction>(from.prepare(), instructions);
  to.body = list<Instruction>(from.body(), instructions);
  to.state = list<State>(from.state(), [](const fb::State *element) {
    return State{element->parameter(), element->buffer(), element->tile()};
  });
  to.hostBytes = from.host_bytes();
  return to;
}

Operator Reader::modelOperator(const fb::Operator &from) {
  Operator to;
  to.name = text(from.name());
  to.kind = text(from.kind());
  to.mesh = from.mesh();
  to.split = text(from.split());
  to.decidedBy = text(from.decided_by());
  to.kernel = text(from.kernel());
  to.fusedWith = text(from.fused_with());
  to.inputs = numbers<uint32_t>(from.inputs());
  to.flops = from.flops();
  to.bytes = from.bytes();
  to.receivedBytes = from.received_bytes();
  to.parameterBytes = from.parameter_bytes();
  to.resultBytes = from.result_bytes();
  to.predictedSeconds = from.predicted_seconds();
  to.shape = numbers<int64_t>(from.shape());
  to.ways = from.ways();
  to.stage = from.stage();
  to.communicationSeconds = from.communication_seconds();
  to.alternative = text(from.alternative());
  to.alternativeSeconds = from.alternative_seconds();
  to.splits = list<std::string>(from.splits(), [&](const flatbuffers::String *split) { return text(split); });
  to.parameters = numbers<uint32_t>(from.parameters());
  if (const fb::KeyExchange *keys = from.keys())
    to.keys = KeyExchange{keys->ring(),       keys->devices(),       keys->ring_seconds(), keys->gathered_seconds(),
                          keys->ring_bytes(), keys->gathered_bytes()};
  return to;
}

PlanStage Reader::stage(const fb::Stage &from) {
  PlanStage to;
  to.mesh = from.mesh();
  to.forward = from.forward();
  to.backwardInput = from.backward_input();
  to.backwardWeight = from.backward_weight();
  to.send = from.send();
  to.perStep = from.per_step();
  to.inFlight = from.in_flight();
  if (const fb::MemoryUse *memory = from.memory())
    to.memory = {memory->parameters(),  memory->gradients(), memory->optimizer(),
                 memory->activations(), memory->transient(), memory->host()};
  to.recompute = text(from.recompute());
  to.zero = from.zero();
  to.optimizerInHost = from.optimizer_in_host();
  return to;
}

Prediction Reader::prediction(const fb::Prediction &from) {
  Prediction to;
  to.machine = text(from.machine());
  to.training = from.training();
  to.stepSeconds = from.step_seconds();
  to.lowerBoundSeconds = from.lower_bound_seconds();
  to.modelFlops = from.model_flops();
  to.microbatches = from.microbatches();
  to.schedule = text(from.schedule());
  to.chunks = std::max(from.chunks(), 1u);
  to.degrees = list<Degree>(from.degrees(),
                            [&](const fb::Degree *degree) { return Degree{text(degree->name()), degree->ways()}; });
  to.stages = list<PlanStage>(from.stages(), [&](const fb::Stage *element) { return stage(*element); });
  to.alternatives = list<Alternative>(from.alternatives(), [&](const fb::Alternative *other) {
    return Alternative{text(other->name()), other->seconds(), other->peak_bytes(), text(other->why_not())};
  });
  to.memoryLimit = from.memory_limit();
  to.peakBytes = numbers<double>(from.peak_bytes());
  to.simulatedSeconds = from.simulated_seconds();
  to.machineFile = text(from.machine_file());
  return to;
}

Tile Reader::tile(const fb::Tile &from) {
  auto cut = [](const fb::Cut *element) {
    return Cut{element->axis(), element->block(), element->shift(), element->ways()};
  };
  auto dim = [&](const fb::TileDim *element) {
    return TileDim{element->size(), list<Cut>(element->cuts(), cut), element->length(), element->step(),
                   element->before()};
  };
  return {list<TileDim>(from.dims(), dim)};
}

Entry Reader::entry(const fb::Entry &from) {
  Entry to;
  auto port = [&](const fb::Port *element) {
    std::string name = text(element->name());
    auto parameter = element->parameter() == 0 ? std::nullopt : std::optional(element->parameter() - 1);
    return Port{name, type(element->type(), name), element->classes(), parameter};
  };
  to.name = text(from.name());
  to.inputs = list<Port>(from.inputs(), port);
  to.outputs = list<Port>(from.outputs(), port);
  to.programs = list<Program>(from.programs(), [&](const fb::Program *element) { return program(*element); });
  to.operators = list<Operator>(from.operators(), [&](const fb::Operator *element) { return modelOperator(*element); });
  to.tiles = list<Tile>(from.tiles(), [&](const fb::Tile *element) { return tile(*element); });
  if (const fb::Prediction *expected = from.prediction())
    to.prediction = prediction(*expected);
  to.samples = from.samples();
  to.bucket = from.bucket();
  to.homes = list<Home>(from.homes(), [&](const fb::Home *home) {
    return Home{home->parameter(), home->mesh(), home->tile(), home->trained()};
  });
  return to;
}

PlanContents Reader::plan(const fb::Plan &from) {
  PlanContents to;
  to.version = from.version();
  to.producer = text(from.producer());
  to.model = text(from.model());
  to.strategy = text(from.strategy());
  to.devices = list<PlanDevice>(from.devices(), [&](const fb::Device *device) {
    return PlanDevice{text(device->name()), text(device->driver()), device->cores(), device->memory_limit()};
  });
  auto axis = [&](const fb::Axis *element) { return Axis{text(element->name()), element->size()}; };
  to.meshes = list<Mesh>(from.meshes(), [&](const fb::Mesh *mesh) {
    return Mesh{text(mesh->name()), list<Axis>(mesh->axes(), axis), numbers<uint32_t>(mesh->devices())};
  });
  to.parameters = list<Parameter>(from.parameters(), [&](const fb::Parameter *parameter) {
    std::string name = text(parameter->name());
    return Parameter{name, type(parameter->type(), name), source(*parameter)};
  });
  auto feature = [&](const flatbuffers::String *element) { return text(element); };
  to.objects = list<NativeObject>(from.objects(), [&](const fb::NativeObject *object) {
    return NativeObject{text(object->triple()), text(object->cpu()), list<std::string>(object->features(), feature),
                        raw(object->image()), object->checksum()};
  });
  to.kernels = list<Kernel>(from.kernels(), [&](const fb::Kernel *element) { return kernel(*element); });
  to.entries = list<Entry>(from.entries(), [&](const fb::Entry *element) { return entry(*element); });
  to.settings = list<Setting>(from.settings(), [&](const fb::Setting *setting) {
    return Setting{text(setting->name()), text(setting->value())};
  });
  if (const fb::Replicas *replicas = from.replicas())
    to.replicas =
        Replicas{replicas->count(), replicas->devices(),
                 replicas->bound() < 0 ? std::nullopt : std::optional(static_cast<uint64_t>(replicas->bound())),
                 replicas->local_steps(), replicas->overlap()};
  if (const fb::Processor *processor = from.processor())
    to.processor = {text(processor->name()), list<std::string>(processor->features(), feature)};
  return to;
}

} // namespace

Expected<PlanContents> readPlanContents(std::span<const std::byte> file) {
  constexpr size_t sealBytes = std::tuple_size_v<decltype(planSeal({}))>;
  const auto *data = reinterpret_cast<const uint8_t *>(file.data());
  if (file.size() < 8 + sealBytes || file.size() >= FLATBUFFERS_MAX_BUFFER_SIZE || !fb::PlanBufferHasIdentifier(data))
    return makeError(Status::Rejected, "not a plan: expected a FlatBuffer with identifier \"", fb::PlanIdentifier(),
                     "\", got ", file.size(), " bytes of something else; cleave compile makes plans of models");
  auto bytes = file.first(file.size() - sealBytes);
  auto tables = static_cast<flatbuffers::uoffset_t>(std::max<size_t>(bytes.size(), 1000000));
  flatbuffers::Verifier verifier(data, bytes.size(), /*max_depth=*/64, tables);
  if (!fb::VerifyPlanBuffer(verifier))
    return makeError(Status::Rejected, "plan is malformed: its tables do not fit into its ", file.size(),
                     " bytes; the file is damaged or incomplete");
  const fb::Plan &root = *fb::GetPlan(data);
  if (root.version() != planVersion)
    return makeError(Status::Rejected, "plan has version ", root.version(), ", expected ", planVersion,
                     "; compile the model again with this version of Cleave");
  if (!std::ranges::equal(planSeal(bytes), file.last(sealBytes)))
    return makeError(Status::Rejected, "plan is damaged: the checksum at its end is not that of the ", bytes.size(),
                     " bytes before it");
  Reader reader(bytes.size() * 64 + (16u << 20));
  PlanContents contents = reader.plan(root);
  if (reader.failure())
    return reader.failure();
  return contents;
}

} // namespace cleave::runtime
