// SPDX-License-Identifier: Apache-2.0
// Memory handles sent over a Unix socket: each file arrives with its own plain part.
#include "transport/memory/memory_handle.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "transport/shm/memfd.h"

namespace rondo::gpu {
namespace {

constexpr std::size_t kPage = 4096;

struct Ends {
  Ends() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    near.reset(fds[0]);
    far.reset(fds[1]);
  }
  Fd near, far;
};

net::Deadline soon() { return net::Deadline::of(std::chrono::minutes(5)); }

// `count` handles, every third without a file. The file of handle i has i + 1 pages.
std::vector<MemoryHandle> some_handles(std::size_t count) {
  std::vector<MemoryHandle> handles(count);
  for (std::size_t i = 0; i < count; ++i) {
    handles[i].plain.base = i;
    handles[i].plain.kind = i % 3 == 2 ? PlainHandle::kIpc : PlainHandle::kFile;
    if (i % 3 != 2) handles[i].file = *shm::create_memfd("test", (i + 1) * kPage);
  }
  return handles;
}

class PassedHandles : public testing::TestWithParam<std::size_t> {};

TEST_P(PassedHandles, KeepTheirFilesHoweverMany) {
  const Ends ends;
  const std::vector<MemoryHandle> handles = some_handles(GetParam());
  std::vector<const MemoryHandle*> sent;
  std::vector<const PlainHandle*> plain;
  for (const MemoryHandle& handle : handles) {
    sent.push_back(&handle);
    plain.push_back(&handle.plain);
  }
  ASSERT_TRUE(send_files(ends.near.get(), sent, soon()).ok());
  const auto received = receive_handles(ends.far.get(), plain, soon());
  ASSERT_TRUE(received.ok()) << received.error().text;
  ASSERT_EQ(received->size(), handles.size());
  for (std::size_t i = 0; i < handles.size(); ++i) {
    EXPECT_EQ((*received)[i].plain.base, i);
    ASSERT_EQ((*received)[i].file.valid(), handles[i].file.valid()) << i;
    if (!handles[i].file) continue;
    struct stat info {};
    ASSERT_EQ(fstat((*received)[i].file.get(), &info), 0);
    EXPECT_EQ(static_cast<std::size_t>(info.st_size), (i + 1) * kPage);
  }
}

INSTANTIATE_TEST_SUITE_P(Counts, PassedHandles, testing::Values(0, 1, 3, 48, 49, 150));

TEST(PassedHandles, WithoutTheFilesTheyNameHaveNone) {
  const Ends ends;
  const PlainHandle named{.kind = PlainHandle::kFile};
  ASSERT_TRUE(send_files(ends.near.get(), {}, soon()).ok());
  const auto received = receive_handles(ends.far.get(), {&named, &named}, soon());
  ASSERT_TRUE(received.ok()) << received.error().text;
  for (const MemoryHandle& handle : *received) EXPECT_FALSE(handle.file.valid());
}

TEST(PassedHandles, EndWithTheirSender) {
  Ends ends;
  ends.near.reset();
  EXPECT_EQ(receive_handles(ends.far.get(), {}, soon()).code(), StatusCode::kRemoteError);
}

}  // namespace
}  // namespace rondo::gpu
