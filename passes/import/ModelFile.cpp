// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads a model file and hands it to the graph importer.

#include "dialects/dfg/Dfg.h"
#include "dialects/dist/Dist.h"
#include "passes/import/GraphImporter.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/Path.h"

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/stubs/logging.h"

using namespace mlir;

namespace cleave {

/// What stands in a plan's bytes from the fifth on.
static constexpr llvm::StringLiteral planIdentifier = "CLVP";

/// Deeper nesting of messages than any model has; each level takes stack.
static constexpr int deepestMessage = 64;

/// The message in a file of at most 2 GiB, which is as much as the format can hold.
static std::shared_ptr<onnx::ModelProto> parseModel(const MappedBytes &bytes) {
  // The caller reports what is wrong; the library's own messages name neither file nor cause.
  google::protobuf::LogSilencer silence;
  auto model = std::make_shared<onnx::ModelProto>();
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t *>(bytes.data),
                                                static_cast<int>(bytes.size));
  stream.SetRecursionLimit(deepestMessage);
  if (!model->ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage())
    return nullptr;
  return model;
}

FailureOr<OwningOpRef<ModuleOp>> importOnnx(MLIRContext &context, StringRef path, const ImportOptions &options,
                                            WeightsStore &weights, ImportReport &report) {
  context.loadDialect<dfg::DfgDialect, dist::DistDialect>();
  auto fail = [&](ImportFailure failure, const Twine &message) {
    report.failure = failure;
    return FailureOr<OwningOpRef<ModuleOp>>(emitError(UnknownLoc::get(&context)) << message);
  };
  auto bytes = mapFile(path);
  if (!bytes)
    return fail(ImportFailure::Diagnosed, "the model " + llvm::toString(bytes.takeError()));
  if (bytes->size == 0)
    return fail(ImportFailure::Rejected, "the model \"" + path + "\" is empty");
  if (bytes->size > INT32_MAX)
    return fail(ImportFailure::Rejected,
                "the model \"" + path + "\" is larger than 2 GiB; keep its weights in external data files");
  if (llvm::StringRef(bytes->data, bytes->size).substr(4).starts_with(planIdentifier))
    return fail(ImportFailure::Rejected, "the model \"" + path +
                                             "\" is a plan, expected an ONNX file; give the model " +
                                             "from which the plan was compiled");
  std::shared_ptr<onnx::ModelProto> model = parseModel(*bytes);
  if (!model)
    return fail(ImportFailure::Rejected, "the model \"" + path + "\" is not an ONNX file, or is damaged");
  if (options.edit)
    if (llvm::Error error = options.edit(*model))
      return fail(ImportFailure::Diagnosed, llvm::toString(std::move(error)));
  GraphImporter importer(&context, model, llvm::sys::path::parent_path(path).str(), options, weights, report);
  return importer.run();
}

} // namespace cleave
