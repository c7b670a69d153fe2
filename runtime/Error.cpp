// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The parts of Error that need no inlining.

#include "runtime/Error.h"

#include "runtime/Printable.h"

namespace cleave::runtime {

static const std::string nothing;

Error::Error(Status status, std::string message, std::string node)
    : detail(std::make_shared<const Detail>(Detail{status, std::move(message), std::move(node)})) {
  assert(status != Status::Success && "success is Error::success()");
}

Status Error::status() const { return detail ? detail->status : Status::Success; }

const std::string &Error::message() const { return detail ? detail->message : nothing; }

const std::string &Error::node() const { return detail ? detail->node : nothing; }

Error Error::atNode(const std::string &node) const {
  if (!detail || !detail->node.empty() || node.empty())
    return *this;
  return Error(detail->status, detail->message, node);
}

std::string Error::text() const {
  if (!detail)
    return "success";
  return detail->node.empty() ? detail->message : detail->message + " (node \"" + detail->node + "\")";
}

std::string Error::report() const {
  if (!detail)
    return "";
  return printableMessage("error: " + detail->message) + "\n" +
         (detail->node.empty() ? "" : printableMessage("note: at node \"" + detail->node + "\"") + "\n");
}

} // namespace cleave::runtime
