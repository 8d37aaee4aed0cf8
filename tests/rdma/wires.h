// SPDX-License-Identifier: Apache-2.0
// The wires of the guest (tests/rdma/guest_setup.sh): wire k joins veth<2k>, of rxe<2k>, and
// veth<2k+1>. A destructor repairs what its object broke.
#pragma once

#include <fmt/format.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "base/fd.h"

namespace rondo::verbs {

inline bool set_up(const std::string& interface, bool up) {
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strncpy(request.ifr_name, interface.c_str(), IFNAMSIZ - 1);
  if (ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0) return false;
  request.ifr_flags =
      static_cast<short>(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
  return ioctl(socket.get(), SIOCSIFFLAGS, &request) == 0;
}

// Takes veth<2k> down: both ports of the wire see it.
class WireDown {
 public:
  explicit WireDown(int wire) : wire_(wire), cut_(set_up(end(), false)) {}
  ~WireDown() { whole_again(); }
  WireDown(const WireDown&) = delete;
  WireDown& operator=(const WireDown&) = delete;

  bool is_cut() const { return cut_; }
  // The route over the wire does not return with the interface, so this adds it again.
  bool whole_again() {
    if (!cut_) return true;
    cut_ = false;
    const auto route = fmt::format("ip route replace 10.77.{0}.2 dev {1} src 10.77.{0}.1 table {2}",
                                   wire_, end(), 100 + 2 * wire_);
    return set_up(end(), true) && std::system(route.c_str()) == 0;
  }

 private:
  std::string end() const { return fmt::format("veth{}", 2 * wire_); }
  const int wire_;
  bool cut_;
};

// Applies a `tc netem` rule to the wire's packets, at both ends.
class WireThat {
 public:
  WireThat(int wire, const std::string& what)
      : wire_(wire), cut_(at_both_ends("add", " netem " + what)) {}
  ~WireThat() {
    if (cut_) at_both_ends("del", "");
  }
  WireThat(const WireThat&) = delete;
  WireThat& operator=(const WireThat&) = delete;

  bool is_cut() const { return cut_; }

 private:
  bool at_both_ends(const char* verb, const std::string& what) const {
    bool done = true;
    for (int end = 0; end < 2; ++end) {
      const auto command =
          fmt::format("tc qdisc {} dev veth{} root{}", verb, 2 * wire_ + end, what);
      done = std::system(command.c_str()) == 0 && done;
    }
    return done;
  }
  const int wire_;
  const bool cut_;
};

// Loses every packet of the wire, without any sign at its ends.
struct WireSilent : WireThat {
  explicit WireSilent(int wire) : WireThat(wire, "loss 100%") {}
};

}  // namespace rondo::verbs
