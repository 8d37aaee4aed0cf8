#include "base/process_memory.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

namespace rondo {
namespace {

constexpr std::size_t kMaxRead = std::size_t{1} << 30;  // the kernel's limit is just below 2 GiB

}  // namespace

int ProcessMemory::read(void* to, std::uint64_t from, std::size_t bytes) const {
  auto* target = static_cast<std::byte*>(to);
  for (std::size_t done = 0;;) {
    const std::size_t part = std::min(bytes - done, kMaxRead);
    ProcessId found{};
    const iovec here[] = {{target + done, part}, {&found, sizeof(found)}};
    const iovec there[] = {{reinterpret_cast<void*>(from + done), part},
                           {reinterpret_cast<void*>(id_at), sizeof(found)}};
    const ssize_t got = process_vm_readv(pid, here, 2, there, 2, 0);
    if (got < 0) return errno;
    if (static_cast<std::size_t>(got) != part + sizeof(found)) return EFAULT;
    if (found != id) return ESRCH;
    done += part;
    if (done == bytes) return 0;
  }
}

}  // namespace rondo
