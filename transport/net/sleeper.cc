// SPDX-License-Identifier: Apache-2.0
#include "transport/net/sleeper.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <span>

namespace rondo::net {

Status WakeGroup::add(WakeSource& source) {
  if (count_ == kMax) return fail(StatusCode::kInternalError, "more than {} networks", kMax);
  sources_[count_++] = &source;
  if (count_ == 1) return ok_status();
  if (events_ = Fd(::epoll_create1(EPOLL_CLOEXEC)); !events_)
    return fail_errno(errno, "cannot create an epoll descriptor");
  for (WakeSource* const one : std::span(sources_).first(count_)) {
    epoll_event event{};
    event.events = EPOLLIN;
    if (one->poll_fd() >= 0 &&
        ::epoll_ctl(events_.get(), EPOLL_CTL_ADD, one->poll_fd(), &event) != 0)
      return fail_errno(errno, "cannot wait for two networks");
  }
  return ok_status();
}

bool WakeGroup::arm() {
  const auto all = std::span(sources_).first(count_);
  return std::all_of(all.begin(), all.end(), [](WakeSource* one) { return one->arm(); });
}

int WakeGroup::poll_fd() const { return events_ ? events_.get() : sources_[0]->poll_fd(); }

bool Sleeper::sleep(std::chrono::nanoseconds at_most) {
  constexpr std::chrono::seconds kSecond{1};
  const timespec limit{at_most / kSecond, (at_most % kSecond).count()};
  return ::ppoll(entries_.data(), count_, &limit, nullptr) > 0 && entries_[0].revents != 0;
}

}  // namespace rondo::net
