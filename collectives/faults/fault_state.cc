// SPDX-License-Identifier: Apache-2.0
#include "collectives/faults/fault_state.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "base/log.h"
#include "base/poll_until.h"
#include "base/printable.h"
#include "collectives/faults/standstill.h"

namespace rondo {

bool FaultState::end(End how) {
  assert(how != kRunning);
  if (how == kAborted) return ended_.exchange(kAborted) != kAborted;
  int running = kRunning;
  return ended_.compare_exchange_strong(running, how);
}

std::optional<Fault> FaultState::fault() const {
  std::lock_guard lock(mutex_);
  return fault_;
}

Error FaultState::error() const {
  std::lock_guard lock(mutex_);
  assert(fault_ && "is_raised() was true");
  return fault_->error();
}

Fault FaultState::make(StatusCode status, int culprit, std::string text) const {
  assert(status != StatusCode::kSuccess && !text.empty() && culprit < members_.size);
  Fault made = Fault::found_by(members_.rank, status, culprit, std::move(text));
  made.sequence = host_.sequence;
  made.own = call_.record;
  return made;
}

void FaultState::listen(std::function<void(const Fault&)> listener) {
  assert(listener != nullptr);
  listeners_.push_back(std::move(listener));
}

void FaultState::set_report_to_other_hosts(std::function<void(const Fault&)> report) {
  report_to_other_hosts_ = std::move(report);
}

void FaultState::report_to_other_hosts(const Fault& fault) const {
  if (report_to_other_hosts_) report_to_other_hosts_(fault);
}

void FaultState::raise(Fault fault, bool reports_to_other_hosts) {
  {
    std::lock_guard lock(mutex_);
    if (fault_) return;
    fault_ = std::move(fault);
  }
  raised_.store(true, std::memory_order_release);
  const Fault& kept = *fault_;  // never replaced
  // If memory is short, the peers of this host must still receive the fault.
  const auto report = [&](const auto& how) {
    (void)guarded("reporting a fault", [&] { return how(kept), ok_status(); }).ok();
  };
  report([](const Fault& raised) { RONDO_WARN("{}", raised.text); });
  for (const auto& listener : listeners_) report(listener);
  if (reports_to_other_hosts)
    report([this](const Fault& raised) { report_to_other_hosts(raised); });
  publish(kept);
}

void FaultState::publish(const Fault& fault) const {
  if (host_.peers.empty()) return;
  FaultSlot& slot = *host_.self().fault;
  slot.status = static_cast<std::int32_t>(fault.status);
  slot.rank = fault.rank;
  slot.culprit = fault.culprit;
  slot.sequence = fault.sequence;
  slot.own = fault.own;
  slot.other = fault.other;
  const std::size_t length = std::min(fault.text.size(), sizeof(slot.text) - 1);
  std::memcpy(slot.text, fault.text.data(), length);
  slot.text[length] = '\0';
  HostAtomics::store_release(slot.state, 1u);
  HostAtomics::store_release(*host_.self().faulted, std::uint8_t{1});
  wake_peers();
}

void FaultState::wake_peers() const {
  for (int r = 0; r < host_.size; ++r) ring<DoorbellAtomics>(*host_.peers[r].bell);
}

bool FaultState::adopt_from_peers() {
  for (int r = 0; r < host_.size; ++r) {
    if (r == host_.rank || HostAtomics::load_acquire(*host_.peers[r].faulted) == 0) continue;
    const FaultSlot& slot = *host_.peers[r].fault;
    if (HostAtomics::load_acquire(slot.state) == 0) continue;
    Fault adopted;
    adopted.status = static_cast<StatusCode>(slot.status);
    adopted.rank = slot.rank;
    adopted.culprit = slot.culprit;
    adopted.sequence = slot.sequence;
    adopted.own = slot.own;
    adopted.other = slot.other;
    adopted.text = printable_lines({slot.text, strnlen(slot.text, sizeof(slot.text))});
    raise(std::move(adopted));
    return true;
  }
  return false;
}

// Checks faults before the end: abort() marks the end before it raises its own fault for the peers.
// So the caller of abort() never sees its own abort as another rank's fault.
Status FaultState::standing() {
  const bool raised = is_raised() || adopt_from_peers();
  return raised || ended() != kRunning ? why_it_ended() : ok_status();
}

Status FaultState::why_it_ended() {
  if (const End how = ended(); how != kRunning)
    return fail(StatusCode::kInvalidUsage, "communicator was {}",
                how == kAborted ? "aborted by this process" : "revoked");
  return adopted();
}

// A peer that withdrew from the call may still be writing its fault: wait briefly for it, and
// longer for a peer that runs, because a busy machine may not have run its other thread yet.
Status FaultState::adopted() {
  constexpr double kSeconds = 1, kMaxSeconds = 60;
  constexpr std::chrono::milliseconds kNap{10};
  const auto is_here = [this] { return is_raised() || adopt_from_peers(); };
  // Another thread of a running peer reports the fault elsewhere before it publishes it.
  const auto is_coming = [this] {
    for (int r = 0; r < host_.size; ++r)
      if (r != host_.rank && HostAtomics::load_acquire(*host_.peers[r].faulted) != 0 &&
          HostAtomics::load_acquire(host_.peers[r].fault->state) == 0 &&
          condition_of(members_, host_, r) == RankReport::kRunning)
        return true;
    return false;
  };
  if (poll_until(is_here, seconds_from_now(kSeconds))) return error();
  (void)poll_until([&] { return is_here() || !is_coming(); }, seconds_from_now(kMaxSeconds), kNap);
  if (is_here()) return error();
  return fail(StatusCode::kInternalError, "rank {} left {} without a fault", members_.rank,
              call_.text());
}

void FaultState::fail_call(Error& error) {
  (void)guarded("a call", [&] {
    error.text = fmt::format("{} failed in {}: {}", members_.name_of(members_.rank), call_.text(),
                             error.text);
    return ok_status();
  }).ok();
  raise(make(error.code, members_.rank, copy_of(error).text));
}

}  // namespace rondo
