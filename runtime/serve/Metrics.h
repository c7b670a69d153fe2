// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts as Prometheus reads them (text format 0.0.4), under the names that Triton has where it has the same, so that
// its dashboards show them.

#ifndef CLEAVE_RUNTIME_SERVE_METRICS_H
#define CLEAVE_RUNTIME_SERVE_METRICS_H

#include "runtime/serve/ModelRepository.h"

namespace cleave::runtime::serve {

std::string writeMetrics(const ModelRepository &models, unsigned connections);

} // namespace cleave::runtime::serve

#endif // CLEAVE_RUNTIME_SERVE_METRICS_H
