// The RDMA devices of this host and their ports (InfiniBand, RoCE), from /sys/class/infiniband.
// They are read without libibverbs, so `rondo doctor` shows them even if the library is missing.
//
// Guarantees: sorted by device name and port number. An unreadable GID entry is left out; any other
// unreadable value is unknown. Cost: one file per value, some milliseconds per port; once, at init.
//
//   for (const Port& port : read_ports())
//     if (const std::string why = unusable(port); !why.empty()) complain(port.name(), why);
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace rondo::verbs {

// One entry of a port's GID table (its addresses).
struct Gid {
  int index = 0;  // in the port's table; can change with the interface's addresses
  std::array<std::uint8_t, 16> bytes{};  // in the order of an IPv6 address
  bool roce_v2 = false;                  // over UDP, routable; false: InfiniBand or RoCE v1

  bool is_ipv4() const;        // ::ffff:a.b.c.d
  bool is_link_local() const;  // fe80::/10, 169.254.0.0/16
  std::string text() const;    // in the usual notation of addresses
};

struct Port {
  std::string device{};  // "mlx5_0"
  int number = 1;        // on the device, from 1
  bool active = false;   // can carry data
  std::string state{};   // "ACTIVE", "DOWN", "INIT", ...
  bool ethernet = true;  // RoCE; false: InfiniBand
  int lid = 0;           // InfiniBand: from the subnet manager; 0: none yet
  double gigabits = 0;   // per second; 0: unknown
  std::vector<Gid> gids{};
  bool software = false;  // soft-RoCE: by the kernel, over any network interface
  int rail = 0;           // set by choose_ports()

  std::string name() const;  // "mlx5_0:1", as in NCCL_IB_HCA
};

// `root`: path before /sys (tests). Empty if there is no RDMA device.
std::vector<Port> read_ports(const std::string& root = "");

// Why a port cannot carry data, and the remedy; empty if it can.
struct Unusable {
  std::string why;
  std::string remedy;
};
Unusable unusable(const Port& port);

// "mlx5_0:1 (InfiniBand, ACTIVE, 100 Gb/s), rxe0:1 (RoCE, DOWN)"; for messages.
std::string list_ports(const std::vector<Port>& ports);

}  // namespace rondo::verbs
