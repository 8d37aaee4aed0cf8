// SPDX-License-Identifier: Apache-2.0
// A host's processes meet over shared memory. Here threads act as the processes.
#include "transport/shm/host_group.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "transport/shm/unix_socket.h"

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
  Result<HostMeeting> meet(int who, const Deadline& deadline) {
    return meet_on_host({members, who, &listeners[who], kShape, secret, deadline});
  }
  std::vector<Member> members;
  UnixListener listeners[2];
  auth::Digest secret = auth::random_digest();
};

TEST(HostGroup, BringsAllProcessesTogether) {
  TwoProcesses two;
  auto other = std::async(std::launch::async, [&] { return two.meet(1, Deadline::of(300s)); });
  const auto leader = two.meet(0, Deadline::of(300s));
  const auto follower = other.get();
  ASSERT_TRUE(leader.ok()) << leader.error().text;
  ASSERT_TRUE(follower.ok()) << follower.error().text;
  for (const auto& group : {leader->group, follower->group}) {
    ASSERT_NE(group, nullptr);
    ASSERT_EQ(group->processes.size(), 2u);
    EXPECT_EQ(group->process_of_member, (std::vector<int>{0, 1}));
  }
  EXPECT_NE(leader->group->processes[1].neighbour, nullptr);
  EXPECT_NE(follower->group->processes[0].neighbour, nullptr);
}

// A stranger that reads /proc/net/unix connects to the leader first; it stays silent or asks for
// memory.
TEST(HostGroup, StrangersBeforeItsOwnProcessesAreNoErrorAndGetNothing) {
  TwoProcesses two;
  std::vector<net::Socket> strangers;
  for (int i = 0; i < 5; ++i) strangers.push_back(connect_unix(two.listeners[0].name).fd);
  const int any[2] = {strangers[0].get(), strangers[0].get()};
  ASSERT_TRUE(send_fds(strangers[0].get(), 1, any, Deadline::of(300s)).ok());
  auto other = std::async(std::launch::async, [&] { return two.meet(1, Deadline::of(300s)); });
  const auto leader = two.meet(0, Deadline::of(300s));
  ASSERT_TRUE(leader.ok()) << leader.error().text;
  EXPECT_EQ(leader->outcome, HostMeeting::kJoined) << leader->why;
  EXPECT_EQ(other.get()->outcome, HostMeeting::kJoined);
  const auto got = receive_fds(strangers[0].get(), Deadline::of(300s));
  EXPECT_EQ(got.code(), StatusCode::kRemoteError);
}

TEST(HostGroup, WhoCannotReachTheLeaderIsRefusedAndTheLeaderKnows) {
  TwoProcesses two;
  const std::string real = two.members[0].socket;
  auto leading = std::async(std::launch::async, [&] { return two.meet(0, Deadline::of(300s)); });
  TwoProcesses blind = {};
  blind.members[0].socket = open_unix_listener()->name;  // closed again, so nothing listens there
  const auto follower =
      meet_on_host({blind.members, 1, &two.listeners[1], kShape, two.secret, Deadline::of(300s)});
  ASSERT_TRUE(follower.ok()) << follower.error().text;
  EXPECT_EQ(follower->outcome, HostMeeting::kRefused);
  EXPECT_EQ(leading.wait_for(100ms), std::future_status::timeout);
  two.listeners[1].fd.reset();
  const auto leader = leading.get();
  ASSERT_TRUE(leader.ok()) << leader.error().text;
  EXPECT_EQ(leader->outcome, HostMeeting::kAgain);
  EXPECT_EQ(leader->group, nullptr);
}

// A leader of the job that sends memory which could shrink after others have mapped it.
TEST(HostGroup, MemoryThatIsNotSealedIsNotMapped) {
  TwoProcesses two;
  auto following = std::async(std::launch::async, [&] { return two.meet(1, Deadline::of(300s)); });
  const auto joined =
      meet_by_unix({two.secret, 0, &two.listeners[0], {{1, ""}}, {}, Deadline::of(300s)});
  ASSERT_TRUE(joined.ok() && joined->missing().empty());
  const int guest = joined->guests[0].socket.get();
  ASSERT_EQ(receive_fds(guest, Deadline::of(300s))->fds.size(), 2u);
  const Fd file(memfd_create("unsealed", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(file.get(), 1 << 20), 0);
  const int fd = file.get();
  ASSERT_TRUE(send_fds(guest, 0, {&fd, 1}, Deadline::of(300s)).ok());
  const auto follower = following.get();
  ASSERT_TRUE(follower.ok()) << follower.error().text;
  EXPECT_EQ(follower->outcome, HostMeeting::kAgain);
  EXPECT_NE(follower->why.find("sealed"), std::string::npos) << follower->why;
}

TEST(HostGroup, AProcessesRanksFindWhatOneOfThemFetchedAndNothingStays) {
  const auth::Digest key = auth::random_digest();
  std::weak_ptr<HostGroup> kept;
  {
    const auto first = group_slot(key), second = group_slot(key);
    first->group = std::make_shared<HostGroup>();
    kept = first->group;
    EXPECT_EQ(second->group, first->group);
    EXPECT_EQ(group_slot(auth::random_digest())->group, nullptr);
  }
  EXPECT_TRUE(kept.expired());
  EXPECT_EQ(group_slot(key)->group, nullptr);
}

// The other process never arrives; the wait ends because its own side gives up.
class AbandonedMeeting : public testing::TestWithParam<int> {};

TEST_P(AbandonedMeeting, EndsWhenItsProcessGivesUp) {
  TwoProcesses two;
  std::atomic<bool> give_up{false};
  auto meeting = std::async(std::launch::async, [&] {
    return two.meet(GetParam(), Deadline::of(600s, [&] { return give_up.load(); }));
  });
  std::this_thread::sleep_for(20ms);
  give_up.store(true);
  ASSERT_EQ(meeting.wait_for(300s), std::future_status::ready);
  const auto joined = meeting.get();
  ASSERT_FALSE(joined.ok());
  EXPECT_EQ(joined.code(), StatusCode::kInvalidUsage) << joined.error().text;
  EXPECT_NE(joined.error().text.find("aborted by this process"), std::string::npos)
      << joined.error().text;
}

TEST_P(AbandonedMeeting, EndsAtItsDeadline) {
  TwoProcesses two;
  const auto joined = two.meet(GetParam(), Deadline::of(30ms));
  ASSERT_FALSE(joined.ok());
  EXPECT_EQ(joined.code(), StatusCode::kTimeout) << joined.error().text;
}

INSTANTIATE_TEST_SUITE_P(Sides, AbandonedMeeting, testing::Values(0, 1),
                         [](const auto& info) { return info.param == 0 ? "Leader" : "Follower"; });

}  // namespace
}  // namespace rondo::shm
