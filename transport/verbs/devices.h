// The RDMA devices of this host and their ports (InfiniBand, RoCE), as /sys/class/infiniband has
// them: read without libibverbs, so that `rondo doctor` sees them where the library is missing.
//
// Guarantees: in the order of names and numbers; what cannot be read is left out (entries of a GID
// table) or reads as unknown. Cost: a file a fact, some milliseconds a port; once, at init.
//
//   for (const Port& port : read_ports())
//     if (const std::string why = unusable(port); !why.empty()) complain(port.name(), why);
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace rondo::verbs {

// One entry of a port's table of addresses.
struct Gid {
  int index = 0;  // in the table; a device's own, it may change with its interface's addresses
  std::array<std::uint8_t, 16> bytes{};  // as an IPv6 address lies
  bool roce_v2 = false;                  // UDP, which routers carry; else InfiniBand or RoCE v1

  bool is_ipv4() const;        // ::ffff:a.b.c.d
  bool is_link_local() const;  // fe80::/10, 169.254.0.0/16
  std::string text() const;    // as addresses are written
};

struct Port {
  std::string device{};  // "mlx5_0"
  int number = 1;        // of the device's ports
  bool active = false;   // may carry data
  std::string state{};   // "ACTIVE", "DOWN", "INIT", ...
  bool ethernet = true;  // RoCE; else InfiniBand
  int lid = 0;           // InfiniBand: what the subnet manager gave; 0: nothing yet
  double gigabits = 0;   // a second; 0: not said
  std::vector<Gid> gids{};
  bool software = false;  // of the kernel's, over any network interface: soft-RoCE
  int rail = 0;           // by choose_ports()

  std::string name() const;  // "mlx5_0:1", as NCCL_IB_HCA has it
};

// `root` stands before /sys (tests). Empty where there is no RDMA device.
std::vector<Port> read_ports(const std::string& root = "");

// Why a port carries nothing, with the remedy; empty where it can.
struct Unusable {
  std::string why;
  std::string remedy;
};
Unusable unusable(const Port& port);

// "mlx5_0:1 (InfiniBand, ACTIVE, 100 Gb/s), rxe0:1 (RoCE, DOWN)"; for messages.
std::string list_ports(const std::vector<Port>& ports);

}  // namespace rondo::verbs
