// SPDX-License-Identifier: Apache-2.0
// Any messages over a Unix socket from a process that was accepted, of any length and with any
// files. Accepted shared memory cannot shrink and is as long as required, a place outside of the
// sender's arena is an error, and no descriptor leaks.
//
// The input is a list of messages: number of bytes, selection of files, the bytes.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "transport/shm/host_segment.h"
#include "transport/shm/neighbour.h"
#include "transport/shm/unix_socket.h"

namespace {

using namespace rondo;
using namespace rondo::shm;

void require(bool condition) {
  if (!condition) std::abort();
}

const SegmentShape kShape{2, 4096 * 8, 4096, 2};
constexpr std::size_t kFiles = 6;

// Files that an attacker can have; each may replace the shared memory.
int file(std::size_t which, std::size_t bytes) {
  static const auto segment = HostSegment::create(kShape).value();
  static const Fd sealed = create_memfd("fuzz", kArenaPiece).value();
  static const Fd small = create_memfd("fuzz", 4096).value();
  switch (which) {
    case 0:
      return dup(segment->fd());
    case 1:
      return dup(sealed.get());
    case 2:
      return dup(small.get());
    case 3: {
      const int shrinkable = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
      require(ftruncate(shrinkable, static_cast<off_t>(bytes)) == 0);
      return shrinkable;
    }
    case 4:
      return open("/dev/zero", O_RDWR | O_CLOEXEC);
    default:
      return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  }
}

// Can also send what send_fds() would refuse: any length, and more files than fit.
void send_message(int socket, const std::uint8_t* bytes, std::size_t length, std::size_t files,
                  std::size_t first) {
  alignas(cmsghdr) char control[CMSG_SPACE(64 * sizeof(int))] = {};
  iovec data{const_cast<std::uint8_t*>(bytes), length};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  int fds[64];
  for (std::size_t i = 0; i < files; ++i) fds[i] = file((first + i) % kFiles, first * 4096);
  if (files > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(files * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(files * sizeof(int));
    std::memcpy(CMSG_DATA(header), fds, files * sizeof(int));
  }
  (void)sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  for (std::size_t i = 0; i < files; ++i) close(fds[i]);
}

int lowest_free() {
  const Fd probe(open("/dev/null", O_RDONLY | O_CLOEXEC));
  return probe.get();
}

void use_as_neighbour(FdMessage& message, std::uint64_t place) {
  static std::uint64_t process = 0;
  const Fd arena(dup(message.fds[1].get()));
  const auto made =
      Neighbour::of({++process, 0}, std::move(message.fds[0]), std::move(message.fds[1]));
  if (!made.ok() || !(*made)->reach(place).ok()) return;
  require((*made)->mapped() <= sealed_bytes(arena.get()).value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (std::size_t each = 0; each < 3; ++each) close(file(each, 0));  // before they are counted
  const int before = lowest_free();
  {
    int ends[2];
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    const Fd here(ends[0]);
    Fd there(ends[1]);
    std::uint64_t place = 0;
    if (size >= sizeof(place)) std::memcpy(&place, data + size - sizeof(place), sizeof(place));
    for (int turn = 0; turn < 8 && size >= 2; ++turn) {
      const std::size_t files = data[0] % 40, first = data[1] % 32;
      data += 2, size -= 2;
      const std::size_t length = std::min<std::size_t>(1 + data[-1] % 8, size);
      if (length == 0) break;
      send_message(there.get(), data, length, files, first);
      data += length, size -= length;
    }
    there.reset();
    for (;;) {
      auto received = receive_fds(here.get(), Deadline::of(std::chrono::milliseconds(1)));
      if (!received.ok()) break;
      require(received->fds.size() <= kMaxDescriptors);
      if (received->fds.size() == 1) {
        (void)HostSegment::map(std::move(received->fds[0]), kShape).ok();
      } else if (received->fds.size() == 2) {
        use_as_neighbour(*received, place);
      }
    }
  }
  require(lowest_free() == before);
  return 0;
}
