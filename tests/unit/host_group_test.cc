// The meeting of a host's processes over shared memory: here threads that claim to be processes.
#include "transport/shm/host_group.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

namespace rondo::shm {
namespace {

using namespace std::chrono_literals;

constexpr SegmentShape kShape{2, 64 << 10, 4 << 10, 2};

// Two processes of one rank each.
struct TwoProcesses {
  TwoProcesses() {
    for (int i = 0; i < 2; ++i) {
      auto opened = open_unix_listener();
      if (!opened.ok()) {
        ADD_FAILURE() << opened.error().text;
        return;
      }
      listeners[i] = std::move(*opened);
      Member member;
      member.rank = i;
      member.process = this_process();
      member.process[1] += static_cast<std::uint64_t>(i);
      member.socket = listeners[i].name;
      members.push_back(member);
    }
  }
  Result<std::shared_ptr<HostGroup>> meet(int who, const Patience& patience) {
    return HostGroup::meet(members, who, listeners[who], kShape, patience);
  }
  std::vector<Member> members;
  UnixListener listeners[2];
};

TEST(HostGroup, BringsAllProcessesTogether) {
  TwoProcesses two;
  auto other = std::async(std::launch::async, [&] { return two.meet(1, Patience::of(30s)); });
  const auto leader = two.meet(0, Patience::of(30s));
  const auto follower = other.get();
  ASSERT_TRUE(leader.ok()) << leader.error().text;
  ASSERT_TRUE(follower.ok()) << follower.error().text;
  for (const auto& group : {*leader, *follower}) {
    ASSERT_EQ(group->processes.size(), 2u);
    EXPECT_EQ(group->process_of_member, (std::vector<int>{0, 1}));
  }
  EXPECT_NE((*leader)->processes[1].neighbour, nullptr);
  EXPECT_NE((*follower)->processes[0].neighbour, nullptr);
}

// The other process never comes; the wait ends because its own side gives up.
class AbandonedMeeting : public testing::TestWithParam<int> {};

TEST_P(AbandonedMeeting, EndsWhenItsProcessGivesUp) {
  TwoProcesses two;
  std::atomic<bool> give_up{false};
  auto meeting = std::async(std::launch::async, [&] {
    return two.meet(GetParam(), Patience::of(600s, [&] { return give_up.load(); }));
  });
  std::this_thread::sleep_for(20ms);
  give_up.store(true);
  ASSERT_EQ(meeting.wait_for(60s), std::future_status::ready);
  const auto met = meeting.get();
  ASSERT_FALSE(met.ok());
  EXPECT_EQ(met.status(), Status::kInvalidUsage) << met.error().text;
  EXPECT_NE(met.error().text.find("aborted by this process"), std::string::npos)
      << met.error().text;
}

TEST_P(AbandonedMeeting, EndsAtItsDeadline) {
  TwoProcesses two;
  const auto met = two.meet(GetParam(), Patience::of(30ms));
  ASSERT_FALSE(met.ok());
  EXPECT_EQ(met.status(), Status::kTimeout) << met.error().text;
}

INSTANTIATE_TEST_SUITE_P(Sides, AbandonedMeeting, testing::Values(0, 1),
                         [](const auto& info) { return info.param == 0 ? "Leader" : "Follower"; });

}  // namespace
}  // namespace rondo::shm
