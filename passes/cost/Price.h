// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What devices cost: the prices that a machine file gives for kinds of devices and for hosts.

#ifndef CLEAVE_PASSES_COST_PRICE_H
#define CLEAVE_PASSES_COST_PRICE_H

#include "passes/cost/Machine.h"

#include "llvm/ADT/ArrayRef.h"

namespace cleave {

/// Whether a kind or a host has a price.
bool hasPrices(const Machine &machine);

/// US dollars an hour of some devices: the price of each, and of each host of which there is one. What has no price is
/// free.
double pricePerHour(const Machine &machine, llvm::ArrayRef<unsigned> devices);

/// US dollars of `seconds` at that price.
double priceOf(double pricePerHour, double seconds);

/// The kind of the first device that has no price, nor has its host; null where there is none.
const std::string *findUnpriced(const Machine &machine);

} // namespace cleave

#endif // CLEAVE_PASSES_COST_PRICE_H
