// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/machine/proxies.h"

#include <algorithm>

namespace rondo::simt {

const char* name(Proxy proxy) {
  constexpr const char* kNames[] = {"ordinary stores", "multimem instructions"};
  return kNames[static_cast<int>(proxy)];
}

Proxies::Unit* Proxies::unit_at(const std::byte* at, bool make) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  const std::uintptr_t number = address / kPage;
  if (number != newest_number_) {
    auto found = pages_.find(number);
    if (found == pages_.end()) {
      if (!make) return nullptr;
      found = pages_.emplace(number, std::make_unique<Page>()).first;
    }
    newest_number_ = number;
    newest_ = found->second.get();
  }
  return &(*newest_)[address % kPage / kUnit];
}

std::uint32_t Proxies::begin() {
  fences_.push_back(++now_);
  return static_cast<std::uint32_t>(fences_.size() - 1);
}

bool Proxies::may_touch(std::uint32_t thread, const std::byte* at, Proxy way, Proxy* by) {
  // Ordinary accesses need a fence only after multimem instructions.
  if (way == Proxy::kGeneric && !multimem_) return true;
  const Unit* const unit = unit_at(at, false);
  if (unit == nullptr || unit->at == 0) return true;
  if (unit->way == way) return true;
  *by = unit->way;
  return std::max(fences_[thread], fences_[unit->writer]) > unit->at;
}

void Proxies::wrote(std::uint32_t thread, const std::byte* at, Proxy way) {
  if (way == Proxy::kMultimem) multimem_ = true;
  *unit_at(at, true) = {++now_, thread, way};
}

void Proxies::forget() {
  pages_.clear();
  fences_.clear();
  multimem_ = false;
  newest_number_ = 0, newest_ = nullptr;
}

}  // namespace rondo::simt
