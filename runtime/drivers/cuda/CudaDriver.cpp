// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Puts a device together from memory of its GPU, kernels and streams.

#include "runtime/drivers/cuda/CudaDriver.h"

#include "runtime/Processes.h"
#include "runtime/drivers/cuda/CudaCopies.h"
#include "runtime/drivers/cuda/CudaIssuer.h"
#ifdef CLEAVE_NCCL
#include "runtime/drivers/cuda/nccl/NcclLinks.h"
#endif

#include <set>

namespace cleave::runtime {
namespace {

/// Passes everything on to the issuer.
class CudaQueue : public Queue {
public:
  CudaQueue(CudaIssuer &issuer, CudaSite &site, uint32_t index) : issuer(issuer), site(site), index(index) {}
  Error record(EntryPhase phase, std::vector<Command> commands) override {
    return issuer.record(site, *this, index, phase, std::move(commands));
  }
  void submit(std::shared_ptr<Step> step) override { issuer.submit(std::move(step)); }

private:
  CudaIssuer &issuer;
  CudaSite &site;
  const uint32_t index;
};

class CudaDevice : public Device {
public:
  CudaDevice(const CudaRuntime &cuda, const CudaGpus &gpus, CudaIssuer &issuer, CudaCodes &codes, CudaSite &site)
      : cuda(cuda), gpus(gpus), issuer(issuer), codes(codes), site(site), download(cuda, site.gpu) {}
  /// Whatever thread ends it: without a GPU of its own CUDA would take GPU 0 to give memory back.
  ~CudaDevice() override { (void)cuda.cudaSetDevice(site.gpu); }

  Error allocate(uint64_t bytes, uint64_t hostBytes) override {
    auto made = allocateCudaMemory(cuda, site.gpu, bytes);
    if (!made)
      return made.error();
    site.arena = std::move(*made);
    auto madeOfHost = allocatePinnedMemory(cuda, hostBytes);
    if (!madeOfHost)
      return madeOfHost.error();
    site.hostMemory = std::move(*madeOfHost);
    allocated = bytes;
    return Error::success();
  }
  uint64_t allocatedBytes() const override { return allocated; }
  std::string hardware() const override { return gpus.name(site.gpu); }
  Buffer place(const PlanBuffer &buffer) const override {
    if (buffer.isInHost())
      return {static_cast<std::byte *>(site.hostMemory.get()) + (buffer.offset - hostOffset), buffer.bytes};
    return {static_cast<std::byte *>(site.arena.get()) + buffer.offset, buffer.bytes};
  }

  Error load() override {
    if (Error error = checkCuda(cuda, cuda.cudaSetDevice(site.gpu), "using a GPU"))
      return error;
    site.executable = std::make_unique<CudaExecutable>(cuda, site.shared->plan, site.gpu);
    for (const EntryContext &running : site.shared->entries)
      if (const Program *program = running.sites[site.index].program)
        if (Error error = site.executable->load(*program, codes))
          return error;
    return Error::success();
  }

  Expected<std::unique_ptr<Queue>> createQueue(uint32_t index) override {
    auto stream = createCudaStream(cuda, site.gpu);
    if (!stream)
      return stream.error();
    DriverContext &shared = *site.shared;
    site.streams.resize(std::max<size_t>(site.streams.size(), index + 1));
    site.streams[index].stream = std::move(*stream);
    if (Trace *trace = shared.options.trace)
      site.streams[index].track =
          &trace->add(shared.plan, shared.sites[site.index], index, shared.queues[site.index][index]);
    return std::unique_ptr<Queue>(std::make_unique<CudaQueue>(issuer, site, index));
  }

  Error copyOut(const PlanBuffer &buffer, std::span<std::byte> target) const override {
    if (target.empty())
      return Error::success();
    if (buffer.isInHost()) {
      std::ranges::copy(place(buffer).bytes(), target.begin());
      return Error::success();
    }
    return download.copy(place(buffer).data, target);
  }

private:
  const CudaRuntime &cuda;
  const CudaGpus &gpus;
  CudaIssuer &issuer;
  CudaCodes &codes;
  CudaSite &site;
  uint64_t allocated = 0;
  mutable CudaDownload download;
};

class CudaDriver : public Driver {
public:
  CudaDriver(const CudaRuntime &cuda, DriverContext &context, CudaGpus found)
      : context(context), cuda(cuda), gpus(std::move(found)), codes(cuda, gpus, context.plan),
        sites(context.sites.size()), issuer(cuda, context) {
    for (uint32_t index = 0; index != sites.size(); ++index) {
      sites[index].shared = &context;
      sites[index].index = index;
      sites[index].gpu = gpus.of(context.sites[index].device + context.options.devicesBefore);
    }
  }

  ~CudaDriver() override {
    if (auto own = gpusHere(); !own.empty())
      (void)cuda.cudaSetDevice(*own.begin());
  }

  Expected<std::unique_ptr<Device>> createDevice(uint32_t index) override {
    return std::unique_ptr<Device>(std::make_unique<CudaDevice>(cuda, gpus, issuer, codes, sites[index]));
  }

  Error connect() override {
    auto links = context.hasOthers() ? connectProcesses() : Expected(createCudaCopies(cuda, gpus));
    if (links)
      issuer.linkBy(std::move(*links));
    return links.error();
  }

private:
  /// Those of the process's own devices.
  std::set<int> gpusHere() const {
    std::set<int> own;
    for (const CudaSite &site : sites)
      if (context.isHere(context.sites[site.index]))
        own.insert(site.gpu);
    return own;
  }

  Expected<std::unique_ptr<CudaLinks>> connectProcesses() {
    std::set<int> own = gpusHere();
    Error error;
    if (own.size() > 1)
      error = makeError(Status::Unsupported, "a process of several expects its devices on one GPU, got GPUs ",
                        *own.begin(), " and ", *own.rbegin(),
                        "; start a process for each GPU, choose with CLEAVE_GPUS, or run the plan without mpirun");
#ifndef CLEAVE_NCCL
    error = makeError(Status::Unsupported, "the driver \"cuda\" expects a build with NCCL for several processes; run "
                                           "the plan without mpirun");
#endif
    if (Error failed = context.options.processes->agree(error))
      return failed;
#ifdef CLEAVE_NCCL
    NotedActivity noted(ActivityKind::Communication, "in the connecting of GPUs by NCCL");
    std::vector<const Channels *> channels;
    for (const EntryContext &entry : context.entries)
      channels.push_back(entry.channels.get());
    std::vector<uint32_t> rankOfSite;
    for (const Site &site : context.sites)
      rankOfSite.push_back(context.options.rankOfDevice[site.device]);
    return createNcclLinks(cuda, gpus, *own.begin(), *context.options.processes, std::move(channels),
                           std::move(rankOfSite));
#else
    return error;
#endif
  }

  // In this order: steps end, and graphs and links go, before the memory and code that they use.
  DriverContext &context;
  const CudaRuntime &cuda;
  const CudaGpus gpus;
  CudaCodes codes;
  std::vector<CudaSite> sites;
  CudaIssuer issuer;
};

} // namespace

Expected<std::unique_ptr<Driver>> createCudaDriver(DriverContext &context) {
  auto cuda = cudaRuntime();
  if (!cuda)
    return cuda.error();
  auto gpus = CudaGpus::find(**cuda);
  if (!gpus)
    return gpus.error();
  return std::unique_ptr<Driver>(std::make_unique<CudaDriver>(**cuda, context, std::move(*gpus)));
}

} // namespace cleave::runtime
