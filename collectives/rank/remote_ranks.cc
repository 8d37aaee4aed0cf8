// SPDX-License-Identifier: Apache-2.0
#include "collectives/rank/remote_ranks.h"

#include <algorithm>
#include <cassert>

#include "base/log.h"
#include "collectives/faults/fault.h"
#include "collectives/faults/fault_texts.h"
#include "collectives/rank/fiber_group.h"

namespace rondo {
namespace {

// Turns without traffic before the thread sleeps on its sockets. It yields from the first turn:
// turns that only spin gain nothing at 8 bytes and cost 15 % if four ranks share two cores.
constexpr int kBusyTurns = 200;
// Sockets wake the thread, ranks of its own host do not. So it sleeps briefly, and longer only in
// long waits.
constexpr std::chrono::milliseconds kShortSleep{1};
constexpr int kNapsOfALength = 16, kLongestNap = 10;

std::chrono::milliseconds nap(int naps_before) {
  return kShortSleep * std::min(1 + naps_before / kNapsOfALength, kLongestNap);
}
constexpr std::chrono::milliseconds kFaultFlush{200};
constexpr std::int64_t kLastWords = 300'000'000;  // ns

}  // namespace

void RemoteRanks::open(std::unique_ptr<RemoteLinks> links) {
  assert(links_ == nullptr && links != nullptr);
  links_ = std::move(links);
  faults_.set_report_to_other_hosts([this](const Fault& fault) { report(fault); });
}

bool RemoteRanks::suspend(const WaitSite& site, bool fresh) {
  if (fresh) {
    idle_turns_ = 0;
    yielder_.begin_wait();
  }
  bool moved = links_ != nullptr && links_->progress();
  if (beside_) moved |= beside_();
  if (FiberGroup* group_of_fibers = FiberGroup::current())
    return group_of_fibers->suspend(fresh || moved), false;
  if (moved) {
    idle_turns_ = 0;
  } else if (++idle_turns_ < kBusyTurns && yielder_.may_yield()) {
    yielder_.yield();
  } else if (!beside_ && waits_for_host(site) && links_->flushed()) {
    return true;
  } else {
    net::Sleeper sleeper;
    if (sleeper.add(*links_) && (wakes_ == nullptr || sleeper.add(*wakes_)))
      sleeper.sleep(nap(std::max(idle_turns_ - kBusyTurns, 0)));
  }
  return false;
}

// Not the waits for several ranks: `needs` is set.
bool RemoteRanks::waits_for_host(const WaitSite& site) const {
  if (site.of_network || site.needs != nullptr) return false;
  return site.global_rank < 0 || members_.local_of(site.global_rank) >= 0;
}

bool RemoteRanks::check(const WaitSite& site, std::int64_t waited_ns) {
  if (links_ == nullptr || site.global_rank < 0 || members_.local_of(site.global_rank) >= 0)
    return false;
  const Status error = links_->error_of(site.global_rank);
  if (error.ok()) return false;
  // A rank that left because of a fault reports it on a separate connection; the report may arrive
  // after the data connections end.
  if (error_since_ns_ < 0) error_since_ns_ = waited_ns;
  if (waited_ns - error_since_ns_ < kLastWords) return false;
  const bool is_gone = error.code() != StatusCode::kSystemError;
  const auto text = is_gone ? fault_texts::lost : fault_texts::unreachable;
  faults_.raise(faults_.make(
      is_gone ? StatusCode::kRemoteError : StatusCode::kSystemError, site.global_rank,
      text(members_.name_of(site.global_rank), call_.text(), members_.rank, error.error().text)));
  return true;
}

void RemoteRanks::report(const Fault& fault) {
  assert(links_ != nullptr);
  if (fault.rank != members_.rank) return;  // the rank that found it sends it
  std::vector<std::byte> message = encode_fault(fault);
  message.insert(message.begin(), std::byte{kFaultMessage});
  for (int r = 0; r < members_.size; ++r)
    if (members_.local_of(r) < 0 && !links_->send_control(r, message).ok())
      RONDO_INFO(kNet, "cannot report a fault to rank {}", r);
  (void)links_->flush(std::chrono::steady_clock::now() + kFaultFlush).ok();
}

// One peer after the other, so that each wait names its rank.
Status RemoteRanks::flush() {
  if (links_ == nullptr) return ok_status();
  for (int peer; (peer = links_->unflushed_data_peer()) >= 0;) {
    const auto is_flushed = [&] {
      links_->progress();
      return links_->data_flushed(peer);
    };
    if (!host_.waiter.until(is_flushed, {-1, 0, peer})) return faults_.why_it_ended();
  }
  return ok_status();
}

}  // namespace rondo
