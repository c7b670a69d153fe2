// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A family of lines for each count, a line for each model.

#include "runtime/serve/Metrics.h"

#include <cmath>
#include <sstream>

namespace cleave::runtime::serve {
namespace {

/// A label's value: backslash, quote and new line are escaped.
std::string escaped(const std::string &text) {
  std::string result;
  for (char c : text)
    result += c == '\\' ? "\\\\" : c == '"' ? "\\\"" : c == '\n' ? "\\n" : std::string(1, c);
  return result;
}

class MetricsWriter {
public:
  explicit MetricsWriter(const ModelRepository &repository) : models(repository.all()) {
    for (const auto &model : models) {
      counts.push_back(model->getStatistics().counts());
      instances.push_back(model->instances());
    }
  }

  /// A family with one number a model.
  template <typename Value> void family(const char *name, const char *type, const char *help, Value value) {
    begin(name, type, help);
    for (size_t i = 0; i != models.size(); ++i)
      out << name << "{" << labels(i) << "} " << value(*models[i], counts[i]) << "\n";
  }

  void failures();
  void batches();
  void latencies();
  void predictions();
  /// A family with one number an instance.
  template <typename Value> void perInstance(const char *name, const char *type, const char *help, Value value) {
    begin(name, type, help);
    for (size_t i = 0; i != models.size(); ++i)
      for (size_t number = 0; number != instances[i].size(); ++number)
        out << name << "{" << labels(i) << ",instance=\"" << number << "\"} " << value(instances[i][number]) << "\n";
  }

  std::ostringstream out;

private:
  void begin(const char *name, const char *type, const char *help) {
    out << "# HELP " << name << " " << help << "\n# TYPE " << name << " " << type << "\n";
  }
  std::string labels(size_t index) const {
    return "model=\"" + escaped(models[index]->getName()) + "\",version=\"" + escaped(models[index]->getVersion()) +
           "\"";
  }

  std::vector<std::shared_ptr<ServedModel>> models;
  std::vector<ModelStatistics::Counts> counts;
  std::vector<std::vector<InstanceState>> instances;
};

void MetricsWriter::failures() {
  static constexpr std::pair<Outcome, const char *> reasons[] = {{Outcome::Full, "REJECTED"},
                                                                 {Outcome::Late, "TIMEOUT"},
                                                                 {Outcome::Cancelled, "CANCELED"},
                                                                 {Outcome::Draining, "UNAVAILABLE"},
                                                                 {Outcome::Failed, "BACKEND"}};
  begin("nv_inference_request_failure", "counter", "Number of failed inference requests");
  for (size_t i = 0; i != models.size(); ++i)
    for (auto [outcome, reason] : reasons) {
      auto found = counts[i].failed.find(outcome);
      out << "nv_inference_request_failure{" << labels(i) << ",reason=\"" << reason << "\"} "
          << (found == counts[i].failed.end() ? 0 : found->second) << "\n";
    }
}

void MetricsWriter::batches() {
  begin("cleave_batch_samples", "histogram", "Samples in a batch, without padding");
  for (size_t i = 0; i != models.size(); ++i) {
    uint64_t sum = 0, below = 0;
    for (auto [samples, number] : counts[i].batchesOfSamples)
      sum += samples * number;
    const BatchTable &table = models[i]->getPlan().getTable();
    auto next = counts[i].batchesOfSamples.begin();
    for (size_t size = 0; size != table.size(); ++size) {
      for (; next != counts[i].batchesOfSamples.end() && next->first <= table.samples(size); ++next)
        below += next->second;
      out << "cleave_batch_samples_bucket{" << labels(i) << ",le=\"" << table.samples(size) << "\"} " << below << "\n";
    }
    out << "cleave_batch_samples_bucket{" << labels(i) << ",le=\"+Inf\"} " << counts[i].batches << "\n"
        << "cleave_batch_samples_sum{" << labels(i) << "} " << sum << "\n"
        << "cleave_batch_samples_count{" << labels(i) << "} " << counts[i].batches << "\n";
  }
}

void MetricsWriter::latencies() {
  begin("cleave_request_seconds", "histogram", "Seconds from a request's arrival to its answer");
  for (size_t i = 0; i != models.size(); ++i) {
    for (size_t bound = 0; bound != ModelStatistics::latencyBounds.size(); ++bound)
      out << "cleave_request_seconds_bucket{" << labels(i) << ",le=\"" << ModelStatistics::latencyBounds[bound]
          << "\"} " << counts[i].latencies[bound] << "\n";
    out << "cleave_request_seconds_bucket{" << labels(i) << ",le=\"+Inf\"} " << counts[i].latencies.back() << "\n"
        << "cleave_request_seconds_sum{" << labels(i) << "} " << counts[i].latencySeconds << "\n"
        << "cleave_request_seconds_count{" << labels(i) << "} " << counts[i].latencies.back() << "\n";
  }
}

void MetricsWriter::predictions() {
  begin("cleave_batch_seconds", "gauge", "Seconds that a batch of a size takes, as predicted and as measured of late");
  for (size_t i = 0; i != models.size(); ++i)
    for (size_t number = 0; number != instances[i].size(); ++number) {
      const BatchTable &table = instances[i][number].table;
      for (size_t size = 0; size != table.size(); ++size)
        for (bool isPredicted : {true, false})
          out << "cleave_batch_seconds{" << labels(i) << ",instance=\"" << number << "\",samples=\""
              << table.samples(size) << "\",kind=\"" << (isPredicted ? "predicted" : "measured") << "\"} "
              << (isPredicted ? table.predictedSeconds(size) : table.seconds(size)) << "\n";
    }
}

int64_t micro(int64_t nanoseconds) { return nanoseconds / 1000; }

} // namespace

std::string writeMetrics(const ModelRepository &models, unsigned connections) {
  using Counts = ModelStatistics::Counts;
  MetricsWriter writer(models);
  auto counter = [&](const char *name, const char *help, auto value) {
    writer.family(name, "counter", help, [&](const ServedModel &, const Counts &counts) { return value(counts); });
  };
  counter("nv_inference_request_success", "Number of successful inference requests",
          [](const Counts &counts) { return counts.succeeded; });
  writer.failures();
  counter("nv_inference_count", "Number of samples inferred", [](const Counts &counts) { return counts.samples; });
  counter("nv_inference_exec_count", "Number of batches executed", [](const Counts &counts) { return counts.batches; });
  writer.family("nv_inference_pending_request_count", "gauge", "Samples that wait for a batch",
                [](const ServedModel &model, const Counts &) { return model.waiting(); });
  counter("nv_inference_request_duration_us", "Cumulative duration of requests",
          [](const Counts &counts) { return micro(counts.request); });
  counter("nv_inference_queue_duration_us", "Cumulative time that requests were queued",
          [](const Counts &counts) { return micro(counts.queue); });
  counter("nv_inference_compute_input_duration_us", "Cumulative time of bringing samples together",
          [](const Counts &counts) { return micro(counts.gathering); });
  counter("nv_inference_compute_infer_duration_us", "Cumulative time of batches on the devices",
          [](const Counts &counts) { return micro(counts.running); });
  counter("nv_inference_compute_output_duration_us", "Cumulative time of taking results apart",
          [](const Counts &counts) { return micro(counts.scattering); });
  writer.batches();
  writer.latencies();
  writer.predictions();
  writer.perInstance("cleave_instance_ready", "gauge", "Whether an instance runs batches",
                     [](const InstanceState &state) { return state.isReady ? 1 : 0; });
  writer.perInstance("cleave_instance_batches_total", "counter", "Batches that an instance has run",
                     [](const InstanceState &state) { return state.batches; });
  writer.perInstance("cleave_instance_losses_total", "counter", "How often an instance was lost",
                     [](const InstanceState &state) { return state.losses; });
  writer.perInstance("cleave_instance_recoveries_total", "counter", "How often a lost instance was there again",
                     [](const InstanceState &state) { return state.recoveries; });
  writer.perInstance("cleave_instance_recovery_seconds_total", "counter",
                     "Seconds from losses of an instance until it was there again",
                     [](const InstanceState &state) { return state.lostSeconds; });
  writer.out << "# HELP cleave_connections Open connections\n# TYPE cleave_connections gauge\ncleave_connections "
             << connections << "\n";
  return writer.out.str();
}

} // namespace cleave::runtime::serve
