/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_device_copies.h: sums and copies of memory that a kernel reaches, and the LLA2A session, for
 * kernels. Included by nccl_device_code.h.
 *
 * Sums add in the element's type, in the order of the sources: ranks 0, 1, ... of the team, or
 * from(0), from(1), ...; the same bits on all GPUs. None of these functions synchronises: peers'
 * data must be complete (a barrier of the Lsa team), and the caller's own threads meet by
 * coop.sync(). Elements move 16 bytes at a time where every address is a multiple of 16.
 *
 *   barrier.sync(coop, cuda::memory_order_acq_rel);
 *   ncclLsaReduceSum<float>(coop, window, offset, sums, count, comm);
 */
#ifndef NCCL_DEVICE_COPIES_H_
#define NCCL_DEVICE_COPIES_H_

#include <string.h>

namespace rondo_device {

template <class T>
struct alignas(16) Pack {
  static constexpr int kElements = static_cast<int>(16 / sizeof(T));
  T element[kElements];
};

struct Sum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

// to(0), to(1), ... = of(from(0), from(1), ...), for all elements; by all threads of the group.
template <class T, class Coop, class From, class To, class Of, class Count>
__device__ void reduce_copy(Coop coop, From from, int sources, To to, int targets, const Of& of,
                            Count count) {
  const auto n = static_cast<size_t>(count), step = static_cast<size_t>(coop.size());
  const auto me = static_cast<size_t>(coop.thread_rank());
  uintptr_t bits = 0;
  for (int s = 0; s < sources; ++s) bits |= reinterpret_cast<uintptr_t>(from(s));
  for (int t = 0; t < targets; ++t) bits |= reinterpret_cast<uintptr_t>(to(t));
  size_t first = 0;  // element that no pack has
  if (bits % 16 == 0 && 16 % sizeof(T) == 0) {
    using Packed = Pack<T>;
    const size_t packs = n / Packed::kElements;
    for (size_t p = me; p < packs; p += step) {
      Packed sum = load(reinterpret_cast<const Packed*>(from(0)) + p);
      for (int s = 1; s < sources; ++s) {
        const Packed next = load(reinterpret_cast<const Packed*>(from(s)) + p);
        for (int e = 0; e < Packed::kElements; ++e)
          sum.element[e] = of(sum.element[e], next.element[e]);
      }
      for (int t = 0; t < targets; ++t) store(reinterpret_cast<Packed*>(to(t)) + p, sum);
    }
    first = packs * Packed::kElements;
  }
  for (size_t i = first + me; i < n; i += step) {
    T sum = load(from(0) + i);
    for (int s = 1; s < sources; ++s) sum = of(sum, load(from(s) + i));
    for (int t = 0; t < targets; ++t) store(to(t) + i, sum);
  }
}

// Addresses of a window's copies, by rank of the team.
template <class T>
struct InTeam {
  ncclWindow_t window;
  size_t offset;
  ncclTeam team;
  __device__ T* operator()(int rank) const {
    return static_cast<T*>(ncclGetPeerPointer(window, offset, team, rank));
  }
};
template <class T>
struct Single {
  T* at;
  __device__ T* operator()(int) const { return at; }
};
template <class T>
struct Strided {
  T* at;
  size_t elements;
  __device__ T* operator()(int index) const { return at + static_cast<size_t>(index) * elements; }
};

}  // namespace rondo_device

// ---- By addresses: from(i) and to(i) are functions of an index ----------------------------------

template <class T, class Coop, class From, class To, class Of, class Count,
          int kUnroll = 4 * 16 / static_cast<int>(sizeof(T))>
__device__ void ncclLsaReduceLsaCopy(Coop coop, From from, int sources, To to, int targets,
                                     const Of& of, Count count) {
  rondo_device::reduce_copy<T>(coop, from, sources, to, targets, of, count);
}
template <class T, class Coop, class From, class To, class Count,
          int kUnroll = 4 * 16 / static_cast<int>(sizeof(T))>
__device__ void ncclLsaReduceSumLsaCopy(Coop coop, From from, int sources, To to, int targets,
                                        Count count) {
  rondo_device::reduce_copy<T>(coop, from, sources, to, targets, rondo_device::Sum{}, count);
}
template <class T, class Coop, class From, class Count,
          int kUnroll = 4 * 16 / static_cast<int>(sizeof(T))>
__device__ void ncclLsaReduceSum(Coop coop, From from, int sources, T* to, Count count) {
  rondo_device::reduce_copy<T>(coop, from, sources, rondo_device::Single<T>{to}, 1,
                               rondo_device::Sum{}, count);
}
template <class T, class Coop, class From, class Count,
          int kUnroll = 4 * 16 / static_cast<int>(sizeof(T))>
__device__ void ncclLocalReduceSum(Coop coop, From from, int sources, T* to, Count count) {
  ncclLsaReduceSum<T>(coop, from, sources, to, count);
}
template <class T, class Coop, class To, class Count,
          int kUnroll = 4 * 16 / static_cast<int>(sizeof(T))>
__device__ void ncclLsaCopy(Coop coop, T* from, To to, int targets, Count count) {
  rondo_device::reduce_copy<T>(coop, rondo_device::Single<T>{from}, 1, to, targets,
                               rondo_device::Sum{}, count);
}
template <class T, class Coop, class To, class Count,
          int kUnroll = 4 * 16 / static_cast<int>(sizeof(T))>
__device__ void ncclLocalCopy(Coop coop, T* from, To to, int targets, Count count) {
  ncclLsaCopy<T>(coop, from, to, targets, count);
}
// `sources` blocks, each `stride` elements behind the one before; the same for targets.
template <class T, class Coop, class Count, int kUnroll = 4 * 16 / static_cast<int>(sizeof(T))>
__device__ void ncclLocalReduceSum(Coop coop, int sources, T* from, size_t stride, T* to,
                                   Count count) {
  ncclLsaReduceSum<T>(coop, rondo_device::Strided<T>{from, stride}, sources, to, count);
}
template <class T, class Coop, class Count, int kUnroll = 4 * 16 / static_cast<int>(sizeof(T))>
__device__ void ncclLocalCopy(Coop coop, T* from, int targets, T* to, size_t stride, Count count) {
  ncclLsaCopy<T>(coop, from, rondo_device::Strided<T>{to, stride}, targets, count);
}

// ---- By windows: of all ranks of a team, or of the Lsa team -------------------------------------

template <class T, class Coop, class Count, int kUnroll = 4 * 16 / static_cast<int>(sizeof(T))>
__device__ void ncclLsaReduceSum(Coop coop, ncclWindow_t window, size_t offset, T* to, Count count,
                                 ncclTeam team) {
  ncclLsaReduceSum<T>(coop, rondo_device::InTeam<T>{window, offset, team}, team.nRanks, to, count);
}
template <class T, class Coop, class Count, int kUnroll = 4 * 16 / static_cast<int>(sizeof(T))>
__device__ void ncclLsaReduceSum(Coop coop, ncclWindow_t window, size_t offset, T* to, Count count,
                                 const ncclDevComm& comm) {
  ncclLsaReduceSum<T>(coop, window, offset, to, count, ncclTeamLsa(comm));
}
template <class T, class Coop, class Count, int kUnroll = 4 * 16 / static_cast<int>(sizeof(T))>
__device__ void ncclLsaCopy(Coop coop, T* from, ncclWindow_t window, size_t offset, Count count,
                            ncclTeam team) {
  ncclLsaCopy<T>(coop, from, rondo_device::InTeam<T>{window, offset, team}, team.nRanks, count);
}
template <class T, class Coop, class Count, int kUnroll = 4 * 16 / static_cast<int>(sizeof(T))>
__device__ void ncclLsaCopy(Coop coop, T* from, ncclWindow_t window, size_t offset, Count count,
                            const ncclDevComm& comm) {
  ncclLsaCopy<T>(coop, from, window, offset, count, ncclTeamLsa(comm));
}
template <class T, class Coop, class Count, int kUnroll = 4 * 16 / static_cast<int>(sizeof(T))>
__device__ void ncclLsaReduceSumCopy(Coop coop, ncclWindow_t source, size_t source_at,
                                     ncclWindow_t target, size_t target_at, Count count,
                                     ncclTeam team) {
  ncclLsaReduceSumLsaCopy<T>(coop, rondo_device::InTeam<T>{source, source_at, team}, team.nRanks,
                             rondo_device::InTeam<T>{target, target_at, team}, team.nRanks, count);
}
template <class T, class Coop, class Count, int kUnroll = 4 * 16 / static_cast<int>(sizeof(T))>
__device__ void ncclLsaReduceSumCopy(Coop coop, ncclWindow_t source, size_t source_at,
                                     ncclWindow_t target, size_t target_at, Count count,
                                     const ncclDevComm& comm) {
  ncclLsaReduceSumCopy<T>(coop, source, source_at, target, target_at, count, ncclTeamLsa(comm));
}

// ---- LLA2A: small values with flags -------------------------------------------------------------

// Every rank sends values to slots of its peers, and receives from its own slots. A slot is two
// words, each 4 bytes of data and the number of the epoch, so no fence is needed. Epochs use two
// sets of slots in turn. In each epoch a rank must send to every rank of the team, and receive what
// each of them has sent; so nobody fills a slot that is still to be read. A value of more than 8
// bytes takes several slots, `maxElts` apart. Waits end after an abort, with an undefined value.
template <class Coop>
class ncclLLA2ASession {
 public:
  __device__ ncclLLA2ASession(Coop coop, const ncclDevComm& comm, ncclTeam team,
                              ncclLLA2AHandle handle, uint32_t block, int maxElts,
                              bool multimem = false, ncclMultimemHandle memory = {})
      : coop_(coop),
        comm_(comm),
        team_(team),
        handle_(handle),
        first_line_(block * (1 + 2 * handle.nSlots)),
        pitch_(static_cast<uint32_t>(maxElts)) {
    (void)multimem, (void)memory;  // stores to each peer do the same
    begin_epoch(rondo_device::load(kept_epoch()));
  }
  __device__ ~ncclLLA2ASession() {
    if (coop_.thread_rank() == 0) rondo_device::store(kept_epoch(), epoch_ - 1);
    coop_.sync();
  }
  ncclLLA2ASession(const ncclLLA2ASession&) = delete;
  ncclLLA2ASession& operator=(const ncclLLA2ASession&) = delete;

  // By any thread. peer: of the team.
  template <class T>
  __device__ void send(int peer, int slot, T data) {
    uint32_t words[kWords<T>] = {};
    memcpy(words, &data, sizeof(T));
    for (int i = 0; i < kWords<T>; ++i)
      rondo_device::store_system64(word_at(peer, slot, i), uint64_t{epoch_} << 32 | words[i]);
  }
  template <class T>
  __device__ void bcast(int slot, T data) {
    for (int peer = 0; peer < team_.nRanks; ++peer) send(peer, slot, data);
  }
  template <class T>
  __device__ T recv(int slot) {
    uint32_t words[kWords<T>] = {};
    for (int i = 0; i < kWords<T>; ++i) words[i] = wait_for(word_at(team_.rank, slot, i));
    T data;
    memcpy(&data, words, sizeof(T));
    return data;
  }
  // Slots first, first + stride, ...; count of them, which is kLeast to kMax.
  template <int kLeast, int kMax, class T>
  __device__ void recvUnrolled(int first, int count, int stride, T (&values)[kMax]) {
    static_assert(kLeast >= 0 && kLeast <= kMax, "recvUnrolled: a range of counts");
    for (int i = 0; i < count; ++i) values[i] = recv<T>(first + i * stride);
  }
  // of(of(to_sum(slot 0), to_sum(slot 1)), ...), in this order; count is 1 or more.
  template <int kUnroll, class T, class ToSum, class Of>
  __device__ auto recvReduce(int first, int count, int stride, ToSum to_sum, Of of) {
    auto sum = to_sum(recv<T>(first));
    for (int i = 1; i < count; ++i) sum = of(sum, to_sum(recv<T>(first + i * stride)));
    return sum;
  }
  // By all threads of the group.
  __device__ void endEpoch(Coop) {
    coop_.sync();
    begin_epoch(epoch_);
  }

 private:
  template <class T>
  static constexpr int kWords = static_cast<int>((sizeof(T) + 3) / 4);

  __device__ char* line(char* buffer, uint32_t number) const {
    return buffer + size_t{first_line_ + number} * 16;
  }
  __device__ uint32_t* kept_epoch() const {
    return reinterpret_cast<uint32_t*>(
        line(static_cast<char*>(ncclGetResourceBufferLocalPointer(comm_, handle_.bufHandle)), 0));
  }
  // Memory is zeroed, so no epoch has number 0. Numbers wrap to one of the same set of slots.
  __device__ void begin_epoch(uint32_t last) { epoch_ = last + 1 == 0 ? 2 : last + 1; }
  __device__ uint64_t* word_at(int rank, int slot, int word) const {
    char* const buffer =
        static_cast<char*>(ncclGetResourceBufferPeerPointer(comm_, handle_.bufHandle, team_, rank));
    const uint32_t of_epoch = 1 + epoch_ % 2 * handle_.nSlots;
    const uint32_t number = static_cast<uint32_t>(slot) + static_cast<uint32_t>(word / 2) * pitch_;
    return reinterpret_cast<uint64_t*>(line(buffer, of_epoch + number)) + word % 2;
  }
  __device__ uint32_t wait_for(uint64_t* at) const {
    for (uint32_t looks = 1;; ++looks) {
      const uint64_t found = rondo_device::load_system64(at);
      if (found >> 32 == epoch_) return static_cast<uint32_t>(found);
      if (looks % 256 == 0 && comm_.abortFlag != nullptr &&
          rondo_device::load_system(comm_.abortFlag, cuda::memory_order_relaxed) != 0)
        return 0;
      rondo_device::pause();
    }
  }

  Coop coop_;
  const ncclDevComm& comm_;
  ncclTeam team_;
  ncclLLA2AHandle handle_;
  uint32_t first_line_, pitch_;
  uint32_t epoch_ = 0;  // the current one
};

#endif
