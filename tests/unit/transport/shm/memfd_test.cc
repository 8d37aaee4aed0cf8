// Memory files that came from another process are mapped only where no page of them can be gone.
#include "transport/shm/memfd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

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
    EXPECT_EQ(mapping.status(), Status::kRemoteError) << "seals " << seals;
  }
}

TEST(ReceivedMemory, IsRefusedWhereItIsShorterOrLongerThanAnnounced) {
  for (const std::size_t bytes : {std::size_t{0}, kBytes - 4096, kBytes + 4096}) {
    const Fd fd = file_of(bytes, F_SEAL_SHRINK | F_SEAL_SEAL);
    const auto mapping = map_received(fd.get(), kBytes);
    ASSERT_EQ(mapping.status(), Status::kRemoteError) << bytes;
    EXPECT_NE(mapping.error().text.find(std::to_string(bytes)), std::string::npos)
        << mapping.error().text;
  }
}

TEST(ReceivedMemory, IsNoFileOfAnotherKind) {
  for (const char* path : {"/dev/zero", "/proc/self/exe", "/"}) {
    const Fd fd(open(path, O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(fd.valid()) << path;
    EXPECT_EQ(sealed_bytes(fd.get()).status(), Status::kRemoteError) << path;
  }
  EXPECT_EQ(sealed_bytes(-1).status(), Status::kRemoteError);
}

}  // namespace
}  // namespace rondo::shm
