// SPDX-License-Identifier: Apache-2.0
// Ranks with only IPv6 link-local addresses can connect: each address names an interface of its own
// host.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/support/engine_rank.h"
#include "tests/support/processes.h"
#include "transport/bootstrap/unique_id.h"
#include "transport/socket/interfaces.h"

namespace rondo::test {
namespace {

using net::Interface;
using net::SocketAddress;

SocketAddress link_local(unsigned char last, std::uint32_t scope) {
  const unsigned char ip[16] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last};
  return SocketAddress::v6(ip, 4000, scope);
}

TEST(LinkLocal, AddressesOfPeersAreTriedOnEveryLinkOfThisHost) {
  const auto v4 = SocketAddress::any(AF_INET, 4000);
  const std::vector<Interface> own = {
      {"lo", v4}, {"eth0", link_local(1, 3)}, {"eth1", link_local(2, 7)}, {"eth1", v4}};
  const SocketAddress theirs[] = {link_local(9, 0), v4, link_local(8, 5)};
  const std::vector<SocketAddress> expected = {link_local(9, 3), link_local(9, 7), v4,
                                               link_local(8, 5)};
  const auto found = net::on_links(theirs, own);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].scope(), expected[i].scope());
    EXPECT_EQ(found[i].with_scope(0), expected[i].with_scope(0));
  }
}

TEST(LinkLocal, AddressesAreOfferedWhereNoOtherIs) {
  const auto v4 = SocketAddress::any(AF_INET, 0);
  const std::vector<Interface> all = {{"lo", v4}, {"eth0", link_local(1, 3)}};
  const auto first = [&](std::string_view filter, int family) {
    const auto chosen = net::choose_interfaces(all, filter, family);
    return chosen.empty() ? std::string() : chosen[0].name;
  };
  EXPECT_EQ(first("", AF_UNSPEC), "lo");
  EXPECT_EQ(first("", AF_INET6), "eth0");
  EXPECT_EQ(first("eth", AF_UNSPEC), "eth0");
}

bool runs(const char* command) { return std::system(command) == 0; }

// In a separate network namespace: the ranks of two pretended hosts, one link with only such
// addresses.
int ranks_on_a_link() {
  if (unshare(CLONE_NEWNET) != 0) return 77;
  if (!runs("ip link set lo up && ip link add v0 type veth peer name v1 && "
            "ip link set v0 addrgenmode none && ip link set v1 addrgenmode none && "
            "ip link set v0 up && ip link set v1 up && ip addr add fe80::1/64 dev v0 nodad && "
            "ip addr add fe80::2/64 dev v1 nodad"))
    return 77;
  Job options;
  options.comm.timeout_seconds = options.comm.init_timeout_seconds = kLongestWait / 2;
  options.environment = {{"NCCL_SOCKET_FAMILY", "AF_INET6"}, {"NCCL_SOCKET_IFNAME", "v"}};
  options.hosts = {"one", "two"};
  RankProcesses ranks(2, options, [](EngineRank& seat) {
    const float in = 1;
    float out = 0;
    Call call;
    call.record = {1, Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, 0, -1};
    call.send = &in;
    call.receive = &out;
    seat.report(seat.comm->run({&call, 1}));
    seat.expect(out == 2, "the sum is not 2");
  });
  if (!ranks.wait_reports()) return 1;
  for (int rank = 0; rank < 2; ++rank)
    if (ranks.status(rank) != StatusCode::kSuccess) {
      fmt::print("rank {}: {}\n", rank, ranks.text(rank));
      return 1;
    }
  return 0;
}

TEST(LinkLocal, RanksMeetOverThemAlone) {
  const pid_t child = fork();
  if (child == 0) _exit(ranks_on_a_link());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no network namespace with veth here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace rondo::test
