// GPU memory that one process exports and another imports.
#include "transport/memory/memory_registry.h"

#include <sys/socket.h>

#include "tests/gpu/process_bodies.h"

namespace rondo::test {
namespace {

constexpr std::size_t kBlockBytes = 1 << 20;

// Plain data goes through one socket pair, files through another; both exist before the fork.
struct Channel {
  Channel() {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, plain), 0);
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, files), 0);
  }
  ~Channel() {
    for (const int fd : {plain[0], plain[1], files[0], files[1]}) close(fd);
  }
  void give(const void* pointer) const {
    auto handle = gpu::memory_registry().export_range(pointer, 1);
    ASSERT_TRUE(handle.ok()) << handle.error().text;
    ASSERT_EQ(write(plain[0], &handle->plain, sizeof(handle->plain)),
              static_cast<ssize_t>(sizeof(handle->plain)));
    EXPECT_TRUE(gpu::send_files(files[0], {&*handle}, deadline()).ok());
  }
  Result<gpu::ImportedMemory> take() const {
    gpu::PlainHandle told;
    if (read(plain[1], &told, sizeof(told)) != sizeof(told))
      return fail(StatusCode::kRemoteError, "no handle");
    RONDO_TRY(const auto handles, gpu::receive_handles(files[1], {&told}, deadline()));
    const int device = 0;
    return gpu::memory_registry().import_memory(handles[0], {&device, 1});
  }
  static net::Deadline deadline() { return net::Deadline::of(std::chrono::seconds(30)); }

  int plain[2], files[2];
};

TEST(MemoryRegistry, MapsABlockOnceWhileItIsHeldAndAnewAfterIt) {
  const Channel channel;
  run_job(as_processes(2, Gpus::kOne), [&](NcclRank& seat) {
    if (seat.rank == 0) {
      DeviceBuffer first(kBlockBytes, 0, true), second(kBlockBytes, 0, true), plain(kBlockBytes, 0);
      for (int i = 0; i < 3; ++i) channel.give(first.data());
      channel.give(second.data());
      for (int i = 0; i < 2; ++i) channel.give(plain.data());
      char told = 0;
      EXPECT_EQ(read(channel.plain[0], &told, 1), 1);
      return;
    }
    auto one = channel.take(), same = channel.take();
    ASSERT_TRUE(one.ok() && same.ok());
    EXPECT_EQ(one->get(), same->get());
    const std::weak_ptr<std::byte> mapped = *one;
    one->reset();
    EXPECT_FALSE(mapped.expired());
    same->reset();
    EXPECT_TRUE(mapped.expired());
    auto anew = channel.take(), other = channel.take();
    ASSERT_TRUE(anew.ok() && other.ok());
    EXPECT_NE(anew->get(), other->get());
    // Memory that is in no registry has no number by which it could be recognized.
    const auto unknown = channel.take();
    ASSERT_TRUE(unknown.ok()) << unknown.error().text;
    EXPECT_EQ(unknown->use_count(), 1);
    if (const auto again = channel.take(); again.ok()) {
      EXPECT_EQ(again->use_count(), 1);
    }
    EXPECT_EQ(write(channel.plain[1], "", 1), 1);
  });
}

// Properties of memory known without a query, from its beginning to its announced end.
TEST(MemoryRegistry, KnowsMemoryUntilItsEnd) {
  run_job(as_processes(1, Gpus::kOne), [](NcclRank&) {
    gpu::MemoryRegistry& all = gpu::memory_registry();
    const auto as_the_driver_says = [&](const std::byte* at) {
      const auto known = all.known_at(at);
      GpuPointer info;
      return known && gpu_api()->pointer_info(&info, at) == kGpuSuccess &&
             known->device == info.device && known->own_access == info.own_access;
    };
    DeviceBuffer plain(kBlockBytes, 0);
    EXPECT_FALSE(all.known_at(plain.data()));
    const std::uint64_t whole = all.add(plain.data(), kBlockBytes);
    const std::uint64_t half = all.add(plain.data(), kBlockBytes / 2);
    EXPECT_TRUE(as_the_driver_says(plain.data()));
    EXPECT_TRUE(as_the_driver_says(plain.data() + kBlockBytes - 1));
    EXPECT_FALSE(all.known_at(plain.data() + kBlockBytes));
    EXPECT_FALSE(all.known_at(plain.data() - 1));
    all.remove(half);
    EXPECT_TRUE(as_the_driver_says(plain.data()));
    all.remove(whole);
    EXPECT_FALSE(all.known_at(plain.data()));

    const std::uint64_t beyond = all.add(plain.data(), 64 * kBlockBytes);  // ends elsewhere
    EXPECT_FALSE(all.known_at(plain.data()));
    all.remove(beyond);
    Bytes host(kBlockBytes);
    const std::uint64_t of_host = all.add(host.data(), kBlockBytes);
    EXPECT_FALSE(all.known_at(host.data()));
    all.remove(of_host);

    const std::byte* freed = nullptr;
    {
      const DeviceBuffer ours(kBlockBytes, 0, true);
      EXPECT_TRUE(as_the_driver_says(ours.data()));
      freed = ours.data();
    }
    EXPECT_FALSE(all.known_at(freed));
  });
}

}  // namespace
}  // namespace rondo::test
