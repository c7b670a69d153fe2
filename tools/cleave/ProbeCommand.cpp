// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `cleave probe`: makes machine files, from measurements of this host, from a preset, from what nvidia-smi says, or
// from a table of transfers between hosts.

#include "passes/cost/HostCache.h"
#include "passes/cost/MachineFile.h"
#include "passes/cost/MachineFileLinks.h"
#include "passes/cost/NvidiaTopology.h"
#include "passes/cost/TransferTable.h"
#include "passes/cost/YamlValue.h"
#include "tools/cleave-run/NumberOptions.h"
#include "tools/cleave-run/OutputOptions.h"
#include "tools/cleave/Command.h"
#include "tools/cleave/HostProbe.h"
#include "tools/cleave/OutputFile.h"
#include "tools/cleave/TextTable.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Path.h"

#include <CLI/CLI.hpp>

namespace cleave::tool {
namespace {

struct ProbeCommandOptions {
  HostProbeOptions host;
  std::string output, json, preset, topologyFile, kind, transferFile, machine;
};

/// Writes a machine file to a path, or to standard output.
Error writeMachine(const std::string &path, const Machine &machine, const std::string &comment) {
  return writeOutput(path, [&](llvm::raw_ostream &out) { writeMachineFile(machine, out, comment); });
}

//===-- this host ---------------------------------------------------------------------------------------------===//

std::string formatted(const char *format, double value) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format(format, value);
  return text;
}

/// A class's share at its largest size.
std::string shareText(const DeviceKind &kind, const char *costClass) {
  const EfficiencyCurve *curve = kind.findCurve(costClass, "f32");
  return curve && !curve->points.empty() ? formatted("%.2f", curve->points.back().share) : "-";
}

void printMeasurement(llvm::raw_ostream &out, const HostMeasurement &measured) {
  using Align = TextTable::Align;
  TextTable table({{"kind", Align::Left},
                   {"f32 GFLOP/s", Align::Right},
                   {"memory GB/s", Align::Right},
                   {"launch us", Align::Right},
                   {"contraction", Align::Right},
                   {"convolution", Align::Right},
                   {"3 x 3", Align::Right},
                   {"reduction", Align::Right},
                   {"movement", Align::Right}});
  for (auto &[name, kind] : measured.machine.kinds)
    table.addRow({name, formatted("%.1f", kind.peak.at("f32") * 1e-9), formatted("%.1f", kind.bandwidth * 1e-9),
                  formatted("%.1f", kind.launch * 1e6), shareText(kind, "contraction"), shareText(kind, "convolution"),
                  shareText(kind, "winograd"), shareText(kind, "reduction"), shareText(kind, "movement")});
  table.print(out);
  const LinkSpec &link = *measured.machine.hosts.front().link;
  const DeviceKind &kind = measured.machine.kinds.begin()->second;
  out << "\nbetween two devices " << formatted("%.1f", link.bandwidth * 1e-9) << " GB/s, "
      << formatted("%.1f", link.latency * 1e6) << " us, combining " << formatted("%.1f", link.combine * 1e-9)
      << " GB/s\nslower by " << formatted("%.2f", kind.neighbourSlowdown) << " while another computes, by "
      << formatted("%.2f", kind.overlapSlowdown) << " during transfers\n"
      << measured.samples << " kinds of calls in " << formatted("%.0f", measured.seconds)
      << " s; quartiles of a call's times " << formatted("%.1f", measured.medianSpread * 100)
      << " % apart in the median\n";
}

void writeKind(JsonStream &json, const std::string &name, const DeviceKind &kind) {
  json.attribute("name", name);
  json.attribute("cores", kind.cores);
  json.attribute("flops_per_second", kind.peak.at("f32"));
  json.attribute("bytes_per_second", kind.bandwidth);
  json.attribute("launch_seconds", kind.launch);
  json.attribute("overlap_slowdown", kind.overlapSlowdown);
  json.attribute("neighbour_slowdown", kind.neighbourSlowdown);
  json.attributeObject("efficiency", [&] {
    for (auto &[costClass, curve] : kind.efficiency)
      json.attributeArray(costClass, [&] {
        for (const EfficiencyCurve::Point &point : curve.points)
          json.object([&] {
            json.attribute("at", point.size);
            json.attribute("share", point.share);
          });
      });
  });
}

void writeMeasurement(JsonStream &json, const HostMeasurement &measured, const std::string &file) {
  json.attribute("processor", hostProcessor());
  json.attribute("cores", hostCores());
  json.attribute("file", file);
  json.attribute("seconds", measured.seconds);
  json.attribute("samples", measured.samples);
  json.attribute("median_spread", measured.medianSpread);
  json.attributeArray("kinds", [&] {
    for (auto &[name, kind] : measured.machine.kinds)
      json.object([&] { writeKind(json, name, kind); });
  });
  const LinkSpec &link = *measured.machine.hosts.front().link;
  json.attributeObject("link", [&] {
    json.attribute("bytes_per_second", link.bandwidth);
    json.attribute("latency_seconds", link.latency);
    json.attribute("combine_bytes_per_second", link.combine);
  });
  json.attributeArray("communications", [&] {
    for (const LinkMeasurement &link : measured.links)
      json.object([&] {
        json.attribute("operation", link.operation);
        json.attribute("small_bytes", link.smallBytes);
        json.attribute("small_seconds", link.smallSeconds);
        json.attribute("large_bytes", link.largeBytes);
        json.attribute("large_seconds", link.largeSeconds);
      });
  });
}

/// Where this host's measurements go; makes the folder.
Expected<std::string> prepareCache() {
  std::string file = hostCacheFile();
  if (file.empty())
    return makeError(Status::Failure, "expects a folder for measurements: set CLEAVE_CACHE, XDG_CACHE_HOME or HOME");
  std::string folder = llvm::sys::path::parent_path(file).str();
  if (std::error_code code = llvm::sys::fs::create_directories(folder))
    return makeError(Status::Failure, "cannot make the folder \"", folder, "\": ", code.message());
  return file;
}

/// 1, 2, 4, … and all.
std::vector<unsigned> usualCores() {
  std::vector<unsigned> cores;
  for (unsigned count = 1; count < hostCores(); count *= 2)
    cores.push_back(count);
  cores.push_back(hostCores());
  return cores;
}

/// Other programs' share of the cores is measured as if it were the devices' slowness.
void warnOfLoad() {
  double load = 0;
  if (getloadavg(&load, 1) == 1 && load > 0.5 * hostCores())
    printWarning("other programs use this machine (load " + formatted("%.1f", load) +
                 "): what is measured now is less than what it can do");
}

Error probeThisHost(ProbeCommandOptions &options) {
  auto file = prepareCache();
  if (!file)
    return file.error();
  std::vector<unsigned> &cores = options.host.cores;
  if (cores.empty())
    cores = usualCores();
  // Devices of one core are what others are guessed from.
  cores.push_back(1);
  llvm::sort(cores);
  cores.erase(llvm::unique(cores), cores.end());
  warnOfLoad();
  auto measured = probeHost(options.host);
  if (!measured)
    return measured.error();
  std::string comment = "measured by cleave probe\n" + hostProcessor() + ", " + std::to_string(hostCores()) + " cores";
  if (Error error = writeMachine(*file, measured->machine, comment))
    return error;
  if (!options.output.empty())
    if (Error error = writeMachine(options.output, measured->machine, comment))
      return error;
  if (!options.json.empty())
    if (Error error = writeJson(options.json, [&](JsonStream &json) { writeMeasurement(json, *measured, *file); }))
      return error;
  if (options.output == "-")
    return Error::success();
  return writeText(options.json, [&](llvm::raw_ostream &out) {
    printMeasurement(out, *measured);
    out << "kept in " << *file << "; --machine host uses it\n";
  });
}

//===-- files that others give --------------------------------------------------------------------------------===//

Expected<const Preset *> presetOf(const std::string &option, const std::string &name) {
  if (const Preset *preset = findPreset(name))
    return preset;
  std::string names;
  for (const Preset &preset : allPresets())
    names += (names.empty() ? "" : ", ") + preset.name.str();
  return makeError(Status::Usage, option, " expects one of ", names, "; got \"", name, "\"");
}

Error printPreset(const ProbeCommandOptions &options) {
  std::string output = options.output.empty() ? "-" : options.output;
  // A preset by itself is text with remarks; a machine of several of its hosts is written anew.
  if (const Preset *preset = findPreset(options.preset))
    return writeOutput(output, [&](llvm::raw_ostream &out) { out << preset->text; });
  auto machine = parsePreset(options.preset);
  if (!machine)
    return fromLlvm(Status::Usage, machine.takeError());
  return writeMachine(output, *machine, "preset " + options.preset);
}

Error convertTopology(const ProbeCommandOptions &options) {
  auto preset = presetOf("--kind", options.kind);
  if (!preset)
    return preset.error();
  auto text = readTextFile(options.topologyFile);
  if (!text)
    return fromLlvm(Status::Failure, text.takeError());
  auto machine = parseNvidiaTopology(*text, options.topologyFile, **preset);
  if (!machine)
    return fromLlvm(Status::Failure, machine.takeError());
  return writeMachine(options.output.empty() ? "-" : options.output, *machine,
                      "nvidia-smi topo -m, devices as in preset " + options.kind);
}

/// The links that explain measured transfers, and how far they are from them.
void printLinks(llvm::raw_ostream &out, const std::vector<MeasuredLink> &table) {
  using Align = TextTable::Align;
  TextTable rows({{"from", Align::Left},
                  {"to", Align::Left},
                  {"transfers", Align::Right},
                  {"bandwidth", Align::Right},
                  {"latency", Align::Right},
                  {"worst error", Align::Right},
                  {"at", Align::Right}});
  for (const MeasuredLink &link : table)
    rows.addRow({link.from.empty() ? "-" : link.from, link.to.empty() ? "-" : link.to,
                 std::to_string(link.samples.size()), printQuantity(link.link.bandwidth, bandwidthUnits),
                 printQuantity(link.link.latency, timeUnits), formatted("%.1f %%", link.worst * 100),
                 printQuantity(link.worstAt, sizeUnits)});
  out << "latency + bytes / bandwidth, by least squares of relative errors\n\n";
  rows.print(out);
  for (const MeasuredLink &link : table)
    if (link.worst > 0.25)
      out << "\nwarning: " << (link.from.empty() ? "the link" : link.from + " to " + link.to) << " is off by "
          << formatted("%.0f", link.worst * 100)
          << " %: one latency and one bandwidth do not explain these transfers; measure again, or fewer sizes\n";
}

/// As lines of a machine file.
void writeLinks(llvm::raw_ostream &out, const std::vector<MeasuredLink> &table) {
  if (table.front().from.empty()) {
    const LinkSpec &link = table.front().link;
    out << "network: { bandwidth: " << printQuantity(link.bandwidth, bandwidthUnits)
        << ", latency: " << printQuantity(link.latency, timeUnits) << " }\n";
    return;
  }
  out << "links:\n";
  for (const ZoneLinkSpec &link : zoneLinksOf(table))
    out << "  - " << zoneLinkText(link) << "\n";
}

Error importLinks(const ProbeCommandOptions &options) {
  auto text = readTextFile(options.transferFile);
  if (!text)
    return fromLlvm(Status::Failure, text.takeError());
  auto table = parseTransferTable(*text, options.transferFile);
  if (!table)
    return fromLlvm(Status::Failure, table.takeError());
  if (options.machine.empty()) {
    printLinks(llvm::errs(), *table);
    llvm::errs() << "\n";
    return writeOutput(options.output.empty() ? "-" : options.output,
                       [&](llvm::raw_ostream &out) { writeLinks(out, *table); });
  }
  auto machine = readMachineFile(options.machine);
  if (!machine)
    return fromLlvm(Status::Failure, machine.takeError());
  if (llvm::Error failure = setLinks(*machine, *table))
    return fromLlvm(Status::Failure, std::move(failure));
  printLinks(llvm::errs(), *table);
  return writeMachine(options.output.empty() ? "-" : options.output, *machine,
                      "links by cleave probe --links " + options.transferFile);
}

Error run(ProbeCommandOptions &options) {
  if (options.transferFile.empty() && !options.machine.empty())
    return makeError(Status::Usage, "--machine expects --links");
  if (!options.transferFile.empty() && (!options.preset.empty() || !options.topologyFile.empty()))
    return makeError(Status::Usage, "expected one of --links, --preset and --nvidia-topology, got several");
  if (!options.transferFile.empty())
    return importLinks(options);
  if (!options.preset.empty() && !options.topologyFile.empty())
    return makeError(Status::Usage, "expected either --preset or --nvidia-topology, got both");
  if (options.topologyFile.empty() != options.kind.empty())
    return makeError(Status::Usage, "--nvidia-topology and --kind expect each other");
  if (!options.preset.empty())
    return printPreset(options);
  if (!options.topologyFile.empty())
    return convertTopology(options);
  return probeThisHost(options);
}

} // namespace

void addProbeCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<ProbeCommandOptions>();
  CLI::App *command = app.add_subcommand("probe", "Measures this host for --machine host, or writes a machine file.");
  addOutputOption(*command, "-o,--output", options->output, "the machine file; - for standard output");
  command->add_option("--preset", options->preset, "write the machine of this name instead, as in a100-80g:8x4")
      ->type_name("NAME");
  command
      ->add_option("--nvidia-topology", options->topologyFile,
                   "write a machine connected as this output of nvidia-smi topo -m says instead")
      ->type_name("FILE");
  command->add_option("--kind", options->kind, "the preset whose devices these are")->type_name("NAME");
  command
      ->add_option("--links", options->transferFile,
                   "write the links that explain this table of transfers between hosts instead: bytes,seconds or "
                   "from,to,bytes,seconds")
      ->type_name("FILE");
  command->add_option("--machine", options->machine, "with --links: write this machine file with them")
      ->type_name("FILE");
  command->add_option("--seconds", options->host.seconds, "how long to measure each of the models")
      ->check(notNegative)
      ->capture_default_str();
  command->add_option("--cores", options->host.cores, "cores of the devices to measure; otherwise 1, 2, 4, … and all")
      ->delimiter(',')
      ->check(positive);
  addOutputOption(*command, "--json", options->json, "where the results go as JSON");
  command->callback([options, &chosen] { chosen = [options] { return report(run(*options)); }; });
}

} // namespace cleave::tool
