// SPDX-License-Identifier: Apache-2.0
// Memory files from another process are mapped only if none of their pages can disappear.
#include "transport/shm/memfd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <array>

#include "tests/support/in_child.h"
#include "transport/shm/arena.h"

namespace rondo::shm {
namespace {

constexpr std::size_t kBytes = 64 << 10;

Fd file_of(std::size_t bytes, int seals) {
  Fd fd(memfd_create("received", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
      (seals != 0 && fcntl(fd.get(), F_ADD_SEALS, seals) != 0))
    ADD_FAILURE() << "cannot make a memory file";
  return fd;
}

TEST(ReceivedMemory, IsMappedWhereItIsWholeAndSealed) {
  const auto fd = create_memfd("whole", kBytes);
  ASSERT_TRUE(fd.ok());
  EXPECT_EQ(*sealed_bytes(fd->get()), kBytes);
  const auto mapping = map_received(fd->get(), kBytes);
  ASSERT_TRUE(mapping.ok()) << mapping.error().text;
  mapping->data()[kBytes - 1] = std::byte{1};
}

TEST(ReceivedMemory, IsRefusedWhereItMayShrinkLater) {
  for (const int seals : {0, F_SEAL_GROW, F_SEAL_SHRINK, F_SEAL_SEAL | F_SEAL_GROW}) {
    const Fd fd = file_of(kBytes, seals);
    const auto mapping = map_received(fd.get(), kBytes);
    EXPECT_EQ(mapping.code(), StatusCode::kRemoteError) << "seals " << seals;
  }
}

TEST(ReceivedMemory, IsRefusedWhereItIsShorterOrLongerThanAnnounced) {
  for (const std::size_t bytes : {std::size_t{0}, kBytes - 4096, kBytes + 4096}) {
    const Fd fd = file_of(bytes, F_SEAL_SHRINK | F_SEAL_SEAL);
    const auto mapping = map_received(fd.get(), kBytes);
    ASSERT_EQ(mapping.code(), StatusCode::kRemoteError) << bytes;
    EXPECT_NE(mapping.error().text.find(std::to_string(bytes)), std::string::npos)
        << mapping.error().text;
  }
}

TEST(ReceivedMemory, IsNoFileOfAnotherKind) {
  for (const char* path : {"/dev/zero", "/proc/self/exe", "/"}) {
    const Fd fd(open(path, O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(fd.valid()) << path;
    EXPECT_EQ(sealed_bytes(fd.get()).code(), StatusCode::kRemoteError) << path;
  }
  EXPECT_EQ(sealed_bytes(-1).code(), StatusCode::kRemoteError);
}

// Sets `ulimit -f` to this many bytes.
bool limit_files(std::size_t bytes) {
  const rlimit limit{bytes, bytes};
  return setrlimit(RLIMIT_FSIZE, &limit) == 0;
}

TEST(LimitedFiles, AreAnErrorThatNamesBothSizesWhereTheyAreTooShort) {
  EXPECT_EQ(test::in_child([]() -> std::string {
              if (!limit_files(kBytes - 1)) return "no limit";
              const auto fd = create_memfd("rondo-test", kBytes);
              return fd.ok() ? "made" : fd.error().text;
            }),
            "shared memory \"rondo-test\" is a file of 65536 bytes, and ulimit -f allows this "
            "process files of 65535 bytes at most: raise it (ulimit -f unlimited)");
  EXPECT_EQ(test::in_child([]() -> std::string {
              if (!limit_files(kBytes)) return "no limit";
              const auto fd = create_memfd_if_permitted("rondo-test", kBytes);
              return fd.ok() ? "made" : fd.error().text;
            }),
            "made");
}

TEST(LimitedFiles, LeaveTheArenaWhatTheyAllow) {
  const auto allocate = [](std::size_t limit, std::size_t bytes) {
    return test::in_child([&]() -> std::string {
      if (!limit_files(limit)) return "no limit";
      const auto arena = Arena::of_process();
      if (!arena.ok()) return arena.error().text;
      const auto memory = (*arena)->allocate(bytes);
      return memory.ok() ? "allocated" : memory.error().text;
    });
  };
  EXPECT_EQ(allocate(2 * kArenaPiece + 1, kArenaPiece), "allocated");
  for (const std::size_t limit : {std::size_t{0}, kBytes, kArenaPiece}) {
    const std::string message = allocate(limit, kArenaPiece + 1);
    EXPECT_NE(message.find("which ulimit -f limits: raise it"), std::string::npos) << message;
  }
}

// Also with pages of 64 KiB: unit.pages_64k.
TEST(ArenaPages, BelongToOneBufferEach) {
  EXPECT_EQ(test::in_child([]() -> std::string {
              const auto arena = Arena::of_process();
              if (!arena.ok()) return arena.error().text;
              std::array<std::byte*, 3> buffers{};
              for (std::byte*& buffer : buffers) {
                const auto memory = (*arena)->allocate(100);
                if (!memory.ok()) return memory.error().text;
                buffer = static_cast<std::byte*>(*memory);
                *buffer = std::byte{7};
              }
              const Status cut = (*arena)->cut_off(buffers[1], 100);
              if (!cut.ok()) return cut.error().text;
              if ((*arena)->is_reachable(buffers[1], 1)) return "still reachable";
              for (const int other : {0, 2})
                if (!(*arena)->is_reachable(buffers[other], 100)) return "another one is cut off";
              for (std::byte* const buffer : buffers) {
                if (*buffer != std::byte{7}) return "lost its content";
                if (const Status freed = (*arena)->free(buffer); !freed.ok())
                  return freed.error().text;
              }
              return "";
            }),
            "");
}

}  // namespace
}  // namespace rondo::shm
