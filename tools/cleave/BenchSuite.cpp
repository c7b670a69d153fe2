// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs `cleave bench MODEL` and the peer's script by turns, and lays their answers side by side.

#include "tools/cleave/BenchSuite.h"

#include "compiler/Figures.h"
#include "tools/cleave/ChildRun.h"
#include "tools/cleave/OutputFile.h"
#include "tools/cleave/ProgressBar.h"
#include "tools/cleave/TextTable.h"

#include "passes/cost/HostCache.h"
#include "passes/zoo/Zoo.h"
#include "runtime/Printable.h"
#include "runtime/run/RunReport.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/JSON.h"

#include <algorithm>
#include <cmath>

namespace cleave::tool {
namespace {

/// A model on some threads: the medians of its rounds, in milliseconds, or why there are none.
struct SuiteRow {
  std::string name, model;
  unsigned threads = 1;
  std::vector<double> ours, peers;
  std::string failure;

  bool isCompared() const { return failure.empty() && !peers.empty(); }
};

/// "12.3 (12.1 – 14.0)": the median of the rounds, the least and the most.
std::string spreadText(const std::vector<double> &rounds) {
  auto [least, most] = std::minmax_element(rounds.begin(), rounds.end());
  return fixedText(median(rounds), 3) + " (" + fixedText(*least, 3) + " – " + fixedText(*most, 3) + ")";
}

double ratioOf(const SuiteRow &row) { return median(row.ours) / median(row.peers); }

class Suite {
public:
  explicit Suite(const BenchSuiteOptions &options) : options(options) {}

  Error run() {
    if (!options.peer.empty()) {
      auto made = BenchPeer::create(options.peer, options.peerScript);
      if (!made)
        return made.error();
      peer = std::move(*made);
    }
    if (Error error = findModels())
      return error;
    if (Error error = addOneNumber())
      return error;
    llvm::FileRemover removeOneNumber(oneNumber);
    ProgressBar progress(static_cast<unsigned>(rows.size()));
    for (SuiteRow &row : rows) {
      progress.next(row.name + " on " + std::to_string(row.threads));
      measure(row);
    }
    return Error::success();
  }

  Error report() const {
    if (Error error = writeText(options.json, [&](llvm::raw_ostream &out) { print(out); }))
      return error;
    if (!options.markdown.empty())
      if (Error error = writeOutput(options.markdown, [&](llvm::raw_ostream &out) { writeMarkdown(out); }))
        return error;
    if (!options.json.empty())
      if (Error error = writeJson(options.json, [&](JsonStream &json) { write(json); }))
        return error;
    // The model of one number is no model of the folder's.
    if (llvm::all_of(rows, [&](const SuiteRow &row) { return row.model == oneNumber || !row.failure.empty(); }))
      return makeError(Status::Failure, "none of the models below \"", options.folder, "\" ran: ", rows.back().failure);
    return Error::success();
  }

private:
  Error findModels() {
    std::error_code code;
    std::filesystem::recursive_directory_iterator found(options.folder, code), end;
    if (code)
      return makeError(Status::Rejected, "--suite expects a folder of models, got \"", options.folder,
                       "\": ", code.message());
    std::vector<std::filesystem::path> models;
    for (; found != end && !code; found.increment(code))
      if (found->path().extension() == ".onnx" && found->is_regular_file(code))
        models.push_back(found->path());
    if (code)
      return makeError(Status::Failure, "cannot list \"", options.folder, "\": ", code.message());
    if (models.empty())
      return makeError(Status::Rejected, "--suite expects .onnx files below \"", options.folder, "\", found none");
    llvm::sort(models);
    for (const std::filesystem::path &model : models)
      for (unsigned threads : options.threads)
        rows.push_back({shortName(model), model.string(), threads, {}, {}, {}});
    return Error::success();
  }

  /// A model that computes next to nothing, first of all: what calling either of the two costs.
  Error addOneNumber() {
    ZooOptions small;
    small.numbers = {{"batch", 1}, {"layers", 1}, {"inputs", 1}, {"classes", 1}};
    small.weights = true;
    auto model = buildZooModel("mlp", small);
    if (!model)
      return fromLlvm(Status::Failure, model.takeError());
    if (std::error_code code = llvm::sys::fs::createTemporaryFile("one-number", "onnx", oneNumber))
      return makeError(Status::Failure, "cannot make a temporary file: ", code.message());
    std::string path = oneNumber.str().str();
    if (Error error = writeBinary(path, [&](llvm::raw_ostream &out) { out << model->SerializeAsString(); }))
      return error;
    std::vector<SuiteRow> first;
    for (unsigned threads : options.threads)
      first.push_back({"(one number)", path, threads, {}, {}, {}});
    rows.insert(rows.begin(), first.begin(), first.end());
    return Error::success();
  }

  void measure(SuiteRow &row) {
    for (unsigned round = 0; round != options.rounds && row.failure.empty(); ++round) {
      auto mine = measureOurs(row);
      if (!mine) {
        row.failure = mine.error().message();
        return;
      }
      row.ours.push_back(*mine);
      if (!peer)
        continue;
      auto other =
          peer->measure({row.model, testInputs(row.model), sizesOf(options.dims), row.threads, options.repeat});
      if (!other) {
        row.failure = other.error().message();
        return;
      }
      row.peers.push_back(other->medianMilliseconds);
      peerVersion = other->version;
    }
  }

  Expected<double> measureOurs(const SuiteRow &row) const {
    static int anchor;
    std::string program = llvm::sys::fs::getMainExecutable("cleave", &anchor);
    std::vector<std::string> arguments = {"bench",     row.model,
                                          "--threads", std::to_string(row.threads),
                                          "--rounds",  "1",
                                          "--repeat",  std::to_string(options.repeat),
                                          "--warmup",  std::to_string(options.warmup),
                                          "--json",    "-"};
    arguments.insert(arguments.end(), options.flags.begin(), options.flags.end());
    for (const std::string &dim : options.dims)
      arguments.insert(arguments.end(), {"--dim", dim});
    auto run = runChild(program, arguments);
    if (!run)
      return run.error();
    if (run->code != 0)
      return makeError(Status::Failure,
                       run->complaints.empty() ? "exit code " + std::to_string(run->code) : run->complaints);
    auto parsed = llvm::json::parse(run->output);
    if (!parsed)
      return fromLlvm(Status::Failure, parsed.takeError());
    const llvm::json::Object *object = parsed->getAsObject();
    const llvm::json::Array *results = object ? object->getArray("results") : nullptr;
    const llvm::json::Object *first = results && !results->empty() ? results->front().getAsObject() : nullptr;
    auto milliseconds = first ? first->getNumber("ours_ms") : std::nullopt;
    if (!milliseconds)
      return makeError(Status::Failure, "cleave bench expects to answer with ours_ms, got \"", run->output, "\"");
    return *milliseconds;
  }

  std::vector<std::string> titles() const {
    std::vector<std::string> titles = {"model", "threads", "Cleave ms"};
    if (peer)
      titles.insert(titles.end(), {options.peer + " " + peerVersion + " ms", "ratio"});
    return titles;
  }

  std::vector<std::string> cellsOf(const SuiteRow &row) const {
    std::vector<std::string> cells = {row.name, std::to_string(row.threads)};
    if (!row.failure.empty()) {
      // The first line says what; the model is named beside it.
      cells.push_back(llvm::StringRef(row.failure).split('\n').first.str());
    } else {
      cells.push_back(spreadText(row.ours));
      if (peer)
        cells.insert(cells.end(), {spreadText(row.peers), fixedText(ratioOf(row), 2)});
    }
    cells.resize(titles().size());
    return cells;
  }

  /// Of each number of threads, the geometric mean of the ratios and the largest of them.
  std::vector<std::string> summary() const {
    std::vector<std::string> lines;
    for (unsigned threads : options.threads) {
      double logarithms = 0, largest = 0;
      unsigned count = 0;
      for (const SuiteRow &row : rows)
        if (row.threads == threads && row.isCompared() && row.model != oneNumber) {
          logarithms += std::log(ratioOf(row));
          largest = std::max(largest, ratioOf(row));
          ++count;
        }
      if (count != 0)
        lines.push_back("geometric mean of " + std::to_string(count) + " ratios on " + std::to_string(threads) +
                        (threads == 1 ? " thread: " : " threads: ") + fixedText(std::exp(logarithms / count), 2) +
                        ", the largest " + fixedText(largest, 2));
    }
    return lines;
  }

  void print(llvm::raw_ostream &out) const {
    std::vector<TextTable::Column> columns;
    for (auto [index, title] : llvm::enumerate(titles()))
      columns.push_back({title, index == 0 ? TextTable::Align::Left : TextTable::Align::Right, index == 0 ? 20u : 0u});
    TextTable table(std::move(columns));
    for (const SuiteRow &row : rows)
      table.addRow(cellsOf(row));
    table.print(out);
    for (const std::string &line : summary())
      out << line << "\n";
  }

  void writeMarkdown(llvm::raw_ostream &out) const {
    out << "Measured on " << hostProcessor() << ", medians of " << options.rounds << " rounds of " << options.repeat
        << " runs (the least and the most round), by `cleave bench --suite`. Each round runs in a process of its own, "
           "on "
           "both sides, in turns. `(one number)` is a model that computes next to nothing: what a call costs, through "
           "the peer's binding, too.\n\n|";
    for (const std::string &title : titles())
      out << " " << title << " |";
    out << "\n|---|";
    for (size_t i = 1; i != titles().size(); ++i)
      out << "---:|";
    out << "\n";
    for (const SuiteRow &row : rows) {
      out << "|";
      for (const std::string &cell : cellsOf(row))
        out << " " << runtime::printable(cell) << " |";
      out << "\n";
    }
    out << "\n";
    for (const std::string &line : summary())
      out << "- " << line << "\n";
  }

  void write(JsonStream &json) const {
    if (peer) {
      json.attribute("peer", options.peer);
      json.attribute("peer_version", peerVersion);
    }
    json.attribute("processor", hostProcessor());
    json.attribute("repeat", options.repeat);
    json.attributeArray("results", [&] {
      for (const SuiteRow &row : rows)
        json.object([&] {
          json.attribute("model", row.name);
          json.attribute("threads", row.threads);
          if (!row.failure.empty())
            return json.attribute("failure", row.failure);
          json.attribute("ours_ms", median(row.ours));
          json.attributeArray("ours_rounds_ms", [&] {
            for (double round : row.ours)
              json.value(round);
          });
          if (row.peers.empty())
            return;
          json.attribute("peer_ms", median(row.peers));
          json.attributeArray("peer_rounds_ms", [&] {
            for (double round : row.peers)
              json.value(round);
          });
          json.attribute("ratio", ratioOf(row));
        });
    });
  }

  const BenchSuiteOptions &options;
  std::optional<BenchPeer> peer;
  std::string peerVersion;
  llvm::SmallString<128> oneNumber;
  std::vector<SuiteRow> rows;
};

} // namespace

double median(std::vector<double> samples) { return runtime::latencyOf(std::move(samples)).median; }

std::string shortName(const std::filesystem::path &model) {
  std::string stem = model.stem().string();
  return stem == "model" && model.has_parent_path() ? model.parent_path().filename().string() : stem;
}

std::map<std::string, std::string> testInputs(const std::filesystem::path &model) {
  std::map<std::string, std::string> files;
  for (unsigned i = 0;; ++i) {
    auto file = model.parent_path() / "test_data_set_0" / ("input_" + std::to_string(i) + ".pb");
    if (!std::filesystem::exists(file))
      return files;
    files["@" + std::to_string(i)] = file.string();
  }
}

std::map<std::string, int64_t> sizesOf(const std::vector<std::string> &dims) {
  std::map<std::string, int64_t> sizes;
  for (llvm::StringRef dim : dims) {
    auto [name, size] = dim.rsplit('=');
    size.getAsInteger(10, sizes[name.str()]);
  }
  return sizes;
}

Error benchSuite(const BenchSuiteOptions &options) {
  Suite suite(options);
  if (Error error = suite.run())
    return error;
  return suite.report();
}

} // namespace cleave::tool
