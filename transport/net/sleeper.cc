#include "transport/net/sleeper.h"

#include <ctime>

namespace rondo::net {

bool Sleeper::sleep(std::chrono::nanoseconds at_most) {
  constexpr std::chrono::seconds kSecond{1};
  const timespec limit{at_most / kSecond, (at_most % kSecond).count()};
  return ::ppoll(entries_.data(), count_, &limit, nullptr) > 0 && entries_[0].revents != 0;
}

}  // namespace rondo::net
