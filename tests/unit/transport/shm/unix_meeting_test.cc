// SPDX-License-Identifier: Apache-2.0
// Processes of a host meet over Unix sockets while strangers of all kinds also connect. Here
// threads act as the processes.
#include "transport/shm/unix_meeting.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <chrono>
#include <future>

#include "tests/unit/transport/auth/secret_of.h"
#include "transport/auth/handshake.h"
#include "transport/shm/unix_socket.h"

namespace rondo::shm {
namespace {

using namespace std::chrono_literals;
using Party = UnixMeetingRequest::Party;
using Meeting = Result<UnixMeeting>;

constexpr auto kSoon = 300s;

using auth::secret_of;

struct Host {
  UnixListener listener = open_unix_listener().value();
  auth::Digest secret = secret_of(1);

  UnixMeetingRequest as_host(std::vector<int> guests) const {
    UnixMeetingRequest request{secret, 0, &listener, {}, {}, Deadline::of(kSoon)};
    for (const int guest : guests) request.guests.push_back({guest, ""});
    return request;
  }
  UnixMeetingRequest as_guest(int index) const {
    return {secret, index, nullptr, {}, {{0, listener.name}}, Deadline::of(kSoon)};
  }
  std::future<Meeting> visit(int index) const {
    return std::async(std::launch::async, [=, this] { return meet_by_unix(as_guest(index)); });
  }
};

// All of these guests arrive, and no others.
void expect_all_joined(const Host& host, const std::vector<int>& indexes) {
  std::vector<std::future<Meeting>> guests;
  for (const int index : indexes) guests.push_back(host.visit(index));
  const Meeting joined = meet_by_unix(host.as_host(indexes));
  ASSERT_TRUE(joined.ok()) << joined.error().text;
  EXPECT_EQ(joined->missing(), "");
  for (std::size_t g = 0; g < guests.size(); ++g) {
    const Meeting there = guests[g].get();
    ASSERT_TRUE(there.ok()) << there.error().text;
    ASSERT_EQ(there->missing(), "");
    ASSERT_TRUE(send_fds(there->hosts[0].socket.get(), 70 + indexes[g], {}, Deadline::of(kSoon)));
    const auto received = receive_fds(joined->guests[g].socket.get(), Deadline::of(kSoon));
    ASSERT_TRUE(received.ok()) << received.error().text;
    EXPECT_EQ(received->value, 70 + indexes[g]);
  }
}

net::Socket stranger(const Host& host) {
  UnixConnection made = connect_unix(host.listener.name);
  EXPECT_EQ(made.error, 0);
  return std::move(made.fd);
}

void send_to(const net::Socket& to, const Bytes& bytes) {
  EXPECT_GT(send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), 0);
}

// A visitor without the secret receives only a challenge, and never a descriptor.
void expect_turned_away(const net::Socket& visitor) {
  for (;;) {
    pollfd entry{visitor.get(), POLLIN, 0};
    ASSERT_GT(poll(&entry, 1, 300'000), 0);
    char data[4096];
    alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptors * sizeof(int))];
    iovec part{data, sizeof(data)};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t got = recvmsg(visitor.get(), &message, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno == ECONNRESET)) return;
    ASSERT_GT(got, 0);
    EXPECT_EQ(CMSG_FIRSTHDR(&message), nullptr);
    EXPECT_LE(got, 512);
  }
}

// The bytes that a guest with the secret sends. Empty: the host dropped it, because it was slow.
Bytes genuine_bytes(const Host& host, int index) {
  Bytes sent_bytes;
  const net::Socket socket = stranger(host);
  auto shake = auth::Handshake::connector(host.secret, host.listener.name);
  while (shake.state() != auth::Handshake::State::kProven) {
    const auto out = shake.unsent();
    sent_bytes.insert(sent_bytes.end(), out.begin(), out.end());
    if (shake.state() == auth::Handshake::State::kTurn)
      shake.answer(std::as_bytes(std::span(&index, 1)));
    else if (!auth::move(shake, socket.get()).ok())
      return {};
  }
  return sent_bytes;
}

TEST(UnixMeeting, BringsAStarTogether) { expect_all_joined(Host(), {1, 2, 3, 7}); }

TEST(UnixMeeting, BringsAllTogetherWithAll) {
  constexpr int kAll = 4;
  Host hosts[kAll];
  std::vector<std::future<Meeting>> meetings;
  for (int self = 0; self < kAll; ++self) {
    meetings.push_back(std::async(std::launch::async, [&, self] {
      UnixMeetingRequest request = hosts[self].as_host({});
      request.self = self;
      for (int other = 0; other < kAll; ++other) {
        if (other == self) continue;
        request.guests.push_back({other, ""});
        request.hosts.push_back({other, hosts[other].listener.name});
      }
      return meet_by_unix(request);
    }));
  }
  for (auto& meeting : meetings) {
    const Meeting joined = meeting.get();
    ASSERT_TRUE(joined.ok()) << joined.error().text;
    EXPECT_EQ(joined->missing(), "");
  }
}

TEST(UnixMeeting, SilentVisitorsHoldNobodyUp) {
  const Host host;
  std::vector<net::Socket> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(stranger(host));
  expect_all_joined(host, {1, 2, 3});
}

TEST(UnixMeeting, StrangersAreTurnedAwayWithoutADescriptor) {
  const Host host;
  Bytes garbage(5000, std::byte{0xa5});
  const net::Socket garbler = stranger(host), thief = stranger(host), ghost = stranger(host);
  send_to(garbler, garbage);
  const int own[1] = {thief.get()};
  ASSERT_TRUE(send_fds(thief.get(), 1, own, Deadline::of(kSoon)).ok());
  auto other = auth::Handshake::connector(secret_of(2), host.listener.name);
  ASSERT_TRUE(auth::move(other, ghost.get()).ok());
  expect_all_joined(host, {1, 2});
  for (const auto* visitor : {&garbler, &thief, &ghost}) expect_turned_away(*visitor);
}

TEST(UnixMeeting, WhatAGuestSentIsOfNoUseToAnother) {
  const Host host;
  auto joined = std::async(std::launch::async, [&] { return meet_by_unix(host.as_host({1})); });
  Bytes sent_bytes;
  while (sent_bytes.empty() && joined.wait_for(0s) == std::future_status::timeout)
    sent_bytes = genuine_bytes(host, 1);
  ASSERT_TRUE(joined.get().ok());
  ASSERT_GT(sent_bytes.size(), 64u);
  const net::Socket replayer = stranger(host);
  send_to(replayer, sent_bytes);
  expect_all_joined(host, {1});
  expect_turned_away(replayer);
}

// A man in the middle that only forwards the bytes of both sides is refused.
TEST(UnixMeeting, AGuestIsNotLetInByAnotherDoor) {
  const Host host, between;
  auto guest = between.visit(1);
  const net::Socket received([&] {
    pollfd entry{between.listener.fd.get(), POLLIN, 0};
    poll(&entry, 1, 300'000);
    return accept4(between.listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC);
  }());
  std::byte hello[512];
  const ssize_t bytes = recv(received.get(), hello, sizeof(hello), 0);
  ASSERT_GT(bytes, 0);
  // Before the host looks, which drops a visitor that is slow.
  const net::Socket onward = stranger(host);
  ASSERT_EQ(send(onward.get(), hello, static_cast<std::size_t>(bytes), MSG_NOSIGNAL), bytes);
  auto joined = std::async(std::launch::async, [&] { return meet_by_unix(host.as_host({1})); });
  std::byte challenge[512];
  pollfd entry{onward.get(), POLLIN, 0};
  ASSERT_GT(poll(&entry, 1, 300'000), 0);
  const ssize_t got = recv(onward.get(), challenge, sizeof(challenge), 0);
  ASSERT_GT(got, 0);
  ASSERT_EQ(send(received.get(), challenge, static_cast<std::size_t>(got), MSG_NOSIGNAL), got);
  const Meeting refused = guest.get();
  ASSERT_TRUE(refused.ok()) << refused.error().text;
  EXPECT_NE(refused->missing(), "");
  EXPECT_TRUE(host.visit(1).get().ok());
  EXPECT_EQ(joined.get()->missing(), "");
}

TEST(UnixMeeting, WrongNumbersAndSecondOnesAreDropped) {
  Host host;
  auto unexpected = host.visit(9);
  auto first = host.visit(1), second = host.visit(1);
  const auto last = std::async(std::launch::async, [&] {
    for (const auto* one : {&unexpected, &first, &second}) one->wait();  // the host has seen them
    return host.visit(2).get()->missing();
  });
  const Meeting joined = meet_by_unix(host.as_host({1, 2}));
  ASSERT_TRUE(joined.ok()) << joined.error().text;
  EXPECT_EQ(joined->missing(), "");
  const Meeting one = first.get(), two = second.get(), other = unexpected.get();
  const auto let_in = [](const Meeting& visit) {
    const net::Socket& socket = visit->hosts[0].socket;
    char byte = 0;
    return socket.valid() && recv(socket.get(), &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN;
  };
  EXPECT_NE(let_in(one), let_in(two));
  EXPECT_FALSE(let_in(other));
}

TEST(UnixMeeting, MissingHostsAndGuestsAreDistinguished) {
  Host host;
  UnixListener there = open_unix_listener().value(), gone = open_unix_listener().value();
  gone.fd.reset();
  UnixMeetingRequest request = host.as_host({});
  request.guests = {{1, there.name}, {2, gone.name}};
  auto meeting = std::async(std::launch::async, [&] { return meet_by_unix(request); });
  EXPECT_EQ(meeting.wait_for(100ms), std::future_status::timeout);
  there.fd.reset();  // the guest gives up
  ASSERT_EQ(meeting.wait_for(kSoon), std::future_status::ready);
  const Meeting joined = meeting.get();
  ASSERT_TRUE(joined.ok()) << joined.error().text;
  for (const auto& guest : joined->guests) EXPECT_NE(guest.why_not, "");
  host.listener.fd.reset();
  const Meeting missed = host.visit(1).get();
  ASSERT_TRUE(missed.ok()) << missed.error().text;
  EXPECT_NE(missed->missing().find("Connection refused"), std::string::npos) << missed->missing();
}

// Runs body in a child as another user; returns 0 if body returned true.
int as_user(uid_t uid, const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    if (setgid(uid) != 0 || setuid(uid) != 0) _exit(2);
    _exit(body() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 3;
}

TEST(UnixMeeting, OtherUsersMayComeWhereRondoUnixUidsNamesThem) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  constexpr uid_t kNobody = 65534;
  const Host host;
  for (const char* named : {"", "1,65533", "65534x", "12,65534"}) {
    const bool may = std::string_view(named) == "12,65534";
    setenv("RONDO_UNIX_UIDS", named, 1);
    std::promise<void> stop;
    UnixMeetingRequest request = host.as_host({1});
    request.deadline = Deadline::of(kSoon, [&, over = stop.get_future().share()] {
      return over.wait_for(0s) == std::future_status::ready;
    });
    auto meeting = std::async(std::launch::async, [&] { return meet_by_unix(request); });
    const auto comes_in = [&] {
      UnixConnection made = connect_unix(host.listener.name);
      auto shake = auth::Handshake::connector(host.secret, host.listener.name);
      const int index = 1;
      const auto payload = std::as_bytes(std::span(&index, 1));
      return made.error == 0 &&
             auth::complete(
                 shake, made.fd.get(), [&] { return Bytes(payload.begin(), payload.end()); },
                 Deadline::of(60s), "shaking hands")
                 .ok();
    };
    const int child = as_user(kNobody, [&] {
      bool in = comes_in();
      for (int turn = 1; may && !in && turn < 20; ++turn)
        in = comes_in();  // retries, as a slow guest does
      return in == may;
    });
    EXPECT_EQ(child, 0) << named;
    if (!may) {
      EXPECT_EQ(meeting.wait_for(50ms), std::future_status::timeout) << named;
      stop.set_value();
    }
    EXPECT_EQ(meeting.get().ok(), may) << named;
  }
  unsetenv("RONDO_UNIX_UIDS");
}

TEST(UnixMeeting, AHostOfAnotherUserIsNotVisited) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const Host host;
  EXPECT_EQ(as_user(65534,
                    [&] {
                      const Meeting joined = meet_by_unix(host.as_guest(1));
                      return joined.ok() &&
                             joined->missing().find("RONDO_UNIX_UIDS=0") != std::string::npos;
                    }),
            0);
}

// Leaves this process without free descriptors during its lifetime.
class FullTable {
 public:
  explicit FullTable(int room = 0) {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit tight = before_;
    const Fd next(open("/dev/null", O_RDONLY | O_CLOEXEC));
    tight.rlim_cur = static_cast<rlim_t>(next.get() + room);
    setrlimit(RLIMIT_NOFILE, &tight);
  }
  ~FullTable() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST(UnixMeeting, WaitsForDescriptorsAndNamesTheLimit) {
  const Host host;
  auto full = std::make_unique<FullTable>();
  UnixMeetingRequest brief = host.as_guest(1);
  brief.deadline = Deadline::of(100ms);
  const Meeting late = meet_by_unix(brief);
  ASSERT_EQ(late.code(), StatusCode::kSystemError);
  EXPECT_NE(late.error().text.find("ulimit -n"), std::string::npos) << late.error().text;
  auto guest = host.visit(1);
  EXPECT_EQ(guest.wait_for(100ms), std::future_status::timeout);
  full.reset();
  EXPECT_EQ(meet_by_unix(host.as_host({1}))->missing(), "");
  EXPECT_EQ(guest.get()->missing(), "");
}

TEST(PassedDescriptors, WaitInTheSocketWhileTheTableIsFull) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const Fd near(ends[0]), far(ends[1]);
  const int sent[4] = {near.get(), far.get(), near.get(), far.get()};
  ASSERT_TRUE(send_fds(near.get(), 5, sent, Deadline::of(kSoon)).ok());
  ASSERT_TRUE(send_fds(near.get(), 6, {}, Deadline::of(kSoon)).ok());
  auto full = std::make_unique<FullTable>(2);
  const auto late = receive_fds(far.get(), Deadline::of(60ms));
  ASSERT_EQ(late.code(), StatusCode::kSystemError);
  EXPECT_NE(late.error().text.find("ulimit -n"), std::string::npos) << late.error().text;
  auto receiving =
      std::async(std::launch::async, [&] { return receive_fds(far.get(), Deadline::of(kSoon)); });
  EXPECT_EQ(receiving.wait_for(60ms), std::future_status::timeout);
  full.reset();
  const auto got = receiving.get();
  ASSERT_TRUE(got.ok()) << got.error().text;
  EXPECT_EQ(got->value, 5);
  EXPECT_EQ(got->fds.size(), 4u);
  EXPECT_EQ(receive_fds(far.get(), Deadline::of(kSoon))->value, 6);
}

}  // namespace
}  // namespace rondo::shm
