/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_device_lsa.h: teams, addresses (ncclSymPtr too) and barriers of ranks that load and store
 * each other's memory, for kernels. Included by nccl_device_code.h, which says how to use it. */
#ifndef NCCL_DEVICE_LSA_H_
#define NCCL_DEVICE_LSA_H_

// A window, in device memory: an ncclWindow_t is its address.
struct ncclWindow_vidmem {
  void* winHost;
  char* lsaFlatBase;
  int lsaRank, worldRank;
  uint32_t stride4G;    // from rank to rank, in 4 GiB
  uint32_t mcOffset4K;  // in multicast memory, in 4 KiB
  uint32_t ginOffset4K, winFlags;
  ncclGinWindow_t ginWinsDefaultBackend[NCCL_GIN_MAX_CONNECTIONS];
  void* ginMultiSegmentWins;
  int numSegments, cftFlatRank;
  ncclCftLeId_t ucLeIdBase;
};

// ---- Teams -----------------------------------------------------------------------------------

inline __device__ ncclTeam ncclTeamWorld(const ncclDevComm& comm) {
  return {comm.nRanks, comm.rank, 1};
}
inline __device__ ncclTeam ncclTeamLsa(const ncclDevComm& comm) {
  return {comm.lsaSize, comm.lsaRank, 1};
}
inline __device__ ncclTeam ncclTeamRail(const ncclDevComm& comm) {
  return {comm.nRanks / comm.lsaSize, comm.rank / comm.lsaSize, comm.lsaSize};
}
inline __device__ int ncclTeamRankToWorld(const ncclDevComm& comm, ncclTeam team, int rank) {
  return comm.rank + (rank - team.rank) * team.stride;
}
inline __device__ int ncclTeamRankToLsa(const ncclDevComm& comm, ncclTeam team, int rank) {
  return comm.lsaRank + (rank - team.rank) * team.stride;
}
// Of a team: each `size` neighbours; every size-th.
NCCL_HOST_DEVICE_INLINE ncclTeam ncclTeamInnerFactor(ncclTeam team, int size) {
  return {size, team.rank % size, team.stride};
}
NCCL_HOST_DEVICE_INLINE ncclTeam ncclTeamOuterFactor(ncclTeam team, int size) {
  return {team.nRanks / size, team.rank / size, team.stride * size};
}
// Of two teams that both hold this rank: whether rank `rank` of b is in a, and its number there.
NCCL_HOST_DEVICE_INLINE bool ncclTeamRankIsMember(ncclTeam a, ncclTeam b, int rank) {
  const int away = (rank - b.rank) * b.stride;  // from this rank, in ranks of the communicator
  const int in_a = a.rank + away / a.stride;
  return away % a.stride == 0 && in_a >= 0 && in_a < a.nRanks;
}
NCCL_HOST_DEVICE_INLINE int ncclTeamRankToTeam(ncclTeam a, ncclTeam b, int rank) {
  return a.rank + (rank - b.rank) * b.stride / a.stride;
}
// The n-th rank of `all` that is not in `some`, whose ranks are all in `all`.
NCCL_HOST_DEVICE_INLINE int ncclTeamRankInDifference(ncclTeam all, ncclTeam some, int n) {
  const int step = some.stride / all.stride;
  const int behind_first = n - (all.rank - some.rank * step);
  if (behind_first < 0) return n;
  const int before = step == 1 ? some.nRanks : behind_first / (step - 1) + 1;  // of `some`
  return n + (before < some.nRanks ? before : some.nRanks);
}

// ---- Addresses -------------------------------------------------------------------------------

namespace rondo_device {

inline __device__ char* at_stride(char* base, int rank, uint32_t stride4G) {
  return base + static_cast<int64_t>(rank) * (static_cast<int64_t>(stride4G) << 32);
}
inline __device__ char* in_window(ncclWindow_t window, int lsa_rank, size_t offset) {
  return at_stride(load(&window->lsaFlatBase), lsa_rank, load(&window->stride4G)) + offset;
}
inline __device__ char* in_resources(const ncclDevComm& comm, int lsa_rank,
                                     ncclDevResourceHandle handle) {
  const ncclResourceWindow_vidmem& window = comm.resourceWindow_inlined;
  return at_stride(window.lsaFlatBase, lsa_rank, window.stride4G) + size_t{handle} * 128;
}
inline __device__ char* in_multicast(ncclMultimemHandle memory, uint32_t offset4K, size_t offset) {
  return static_cast<char*>(memory.mcBasePtr) + (size_t{offset4K} << 12) + offset;
}

}  // namespace rondo_device

inline __device__ void* ncclGetLocalPointer(ncclWindow_t window, size_t offset) {
  return rondo_device::in_window(window, rondo_device::load(&window->lsaRank), offset);
}
inline __device__ void* ncclGetLsaPointer(ncclWindow_t window, size_t offset, int peer) {
  return rondo_device::in_window(window, peer, offset);
}
// peer: of the communicator, and in the Lsa team.
inline __device__ void* ncclGetPeerPointer(ncclWindow_t window, size_t offset, int peer) {
  const int lsa = rondo_device::load(&window->lsaRank);
  return rondo_device::in_window(window, lsa + peer - rondo_device::load(&window->worldRank),
                                 offset);
}
inline __device__ void* ncclGetPeerPointer(ncclWindow_t window, size_t offset, ncclTeam team,
                                           int peer) {
  const int lsa = rondo_device::load(&window->lsaRank);
  return rondo_device::in_window(window, lsa + (peer - team.rank) * team.stride, offset);
}
inline __device__ void* ncclGetMultimemPointer(ncclWindow_t window, size_t offset,
                                               ncclMultimemHandle memory) {
  return rondo_device::in_multicast(memory, rondo_device::load(&window->mcOffset4K), offset);
}
inline __device__ void* ncclGetLsaMultimemPointer(ncclWindow_t window, size_t offset,
                                                  const ncclDevComm& comm) {
  return ncclGetMultimemPointer(window, offset, comm.lsaMultimem);
}

inline __device__ size_t ncclGetResourceBufferOffset(ncclDevResourceHandle handle) {
  return size_t{handle} * 128;
}
inline __device__ void* ncclGetResourceBufferLocalPointer(const ncclDevComm& comm,
                                                          ncclDevResourceHandle handle) {
  return rondo_device::in_resources(comm, comm.lsaRank, handle);
}
inline __device__ void* ncclGetResourceBufferLsaPointer(const ncclDevComm& comm,
                                                        ncclDevResourceHandle handle, int peer) {
  return rondo_device::in_resources(comm, peer, handle);
}
inline __device__ void* ncclGetResourceBufferPeerPointer(const ncclDevComm& comm,
                                                         ncclDevResourceHandle handle,
                                                         ncclTeam team, int peer) {
  return rondo_device::in_resources(comm, ncclTeamRankToLsa(comm, team, peer), handle);
}
inline __device__ void* ncclGetResourceBufferMultimemPointer(const ncclDevComm& comm,
                                                             ncclDevResourceHandle handle,
                                                             ncclMultimemHandle memory) {
  return rondo_device::in_multicast(memory, comm.resourceWindow_inlined.mcOffset4K,
                                    ncclGetResourceBufferOffset(handle));
}
inline __device__ void* ncclGetResourceBufferLsaMultimemPointer(const ncclDevComm& comm,
                                                                ncclDevResourceHandle handle) {
  return ncclGetResourceBufferMultimemPointer(comm, handle, comm.lsaMultimem);
}
// A T in a window: its addresses in the memory of this rank and of others.
template <class T>
struct ncclSymPtr {
  using ElementType = T;
  ncclWindow_t window;
  size_t offset;  // in bytes

  NCCL_HOST_DEVICE_INLINE constexpr ncclSymPtr(ncclWindow_t in = nullptr, size_t at = 0)
      : window(in), offset(at) {}
  template <class U>
  NCCL_HOST_DEVICE_INLINE operator ncclSymPtr<U>() const {
    return {window, offset};
  }
  template <class Count>
  NCCL_HOST_DEVICE_INLINE ncclSymPtr& operator+=(Count n) {
    offset += static_cast<size_t>(n) * sizeof(T);  // negative numbers wrap to the right offset
    return *this;
  }
  template <class Count>
  NCCL_HOST_DEVICE_INLINE ncclSymPtr& operator-=(Count n) {
    offset -= static_cast<size_t>(n) * sizeof(T);
    return *this;
  }

  __device__ T* localPtr() const { return at(ncclGetLocalPointer(window, offset)); }
  __device__ T* lsaPtr(int peer) const { return at(ncclGetLsaPointer(window, offset, peer)); }
  __device__ T* peerPtr(int peer) const { return at(ncclGetPeerPointer(window, offset, peer)); }
  __device__ T* peerPtr(ncclTeam team, int peer) const {
    return at(ncclGetPeerPointer(window, offset, team, peer));
  }
  __device__ T* multimemPtr(ncclMultimemHandle memory) const {
    return at(ncclGetMultimemPointer(window, offset, memory));
  }
  __device__ T* lsaMultimemPtr(const ncclDevComm& comm) const {
    return at(ncclGetLsaMultimemPointer(window, offset, comm));
  }

 private:
  static __device__ T* at(void* address) { return static_cast<T*>(address); }
};
template <class T, class Count>
NCCL_HOST_DEVICE_INLINE ncclSymPtr<T> operator+(ncclSymPtr<T> pointer, Count n) {
  return pointer += n;
}
template <class T, class Count>
NCCL_HOST_DEVICE_INLINE ncclSymPtr<T> operator-(ncclSymPtr<T> pointer, Count n) {
  return pointer -= n;
}
template <class T>
NCCL_HOST_DEVICE_INLINE ptrdiff_t operator-(ncclSymPtr<T> a, ncclSymPtr<T> b) {
  return static_cast<ptrdiff_t>(a.offset - b.offset) / static_cast<ptrdiff_t>(sizeof(T));
}
template <class T>
NCCL_HOST_DEVICE_INLINE bool operator==(ncclSymPtr<T> a, ncclSymPtr<T> b) {
  return a.window == b.window && a.offset == b.offset;
}
template <class T>
NCCL_HOST_DEVICE_INLINE bool operator!=(ncclSymPtr<T> a, ncclSymPtr<T> b) {
  return !(a == b);
}

// ---- Barriers of the Lsa team ----------------------------------------------------------------

// The words of n barriers in each rank's resources: n epochs of multicast barriers, n others, n
// counters of multicast arrivals, and for each barrier an inbox of each rank. An arrival stores
// the number of the meeting in the peers' inboxes; a wait looks for it in its own.
template <class Coop>
class ncclLsaBarrierSession {
 public:
  __device__ ncclLsaBarrierSession(Coop coop, const ncclDevComm& comm, ncclTeam team,
                                   ncclLsaBarrierHandle handle, uint32_t index,
                                   bool multimem = false, ncclMultimemHandle memory = {})
      : coop_(coop),
        comm_(comm),
        team_(team),
        handle_(handle),
        index_(index),
        multimem_(multimem),
        memory_(memory) {
    epoch_ = rondo_device::load(kept_epoch());
  }
  __device__ ncclLsaBarrierSession(Coop coop, const ncclDevComm& comm, ncclTeamTagLsa,
                                   uint32_t index, bool multimem = false)
      : ncclLsaBarrierSession(coop, comm, ncclTeamLsa(comm), comm.lsaBarrier, index, multimem,
                              comm.lsaMultimem) {}
  __device__ ~ncclLsaBarrierSession() {
    if (coop_.thread_rank() == 0) rondo_device::store(kept_epoch(), epoch_);
    coop_.sync();
  }
  ncclLsaBarrierSession(const ncclLsaBarrierSession&) = delete;
  ncclLsaBarrierSession& operator=(const ncclLsaBarrierSession&) = delete;

  // All threads of the group call these.
  __device__ void arrive(Coop, cuda::memory_order order) {
    coop_.sync();  // so the release below covers what the other threads have written
    const bool release = order == cuda::memory_order_release ||
                         order == cuda::memory_order_acq_rel || order == cuda::memory_order_seq_cst;
    if (multimem_) {
      if (coop_.thread_rank() == 0)
        rondo_device::add_to_all(
            words(ncclGetResourceBufferMultimemPointer(comm_, handle_.bufHandle, memory_)) +
                2 * count() + index_,
            1, release);
      return;
    }
    for_each_peer([&](int peer) {
      rondo_device::store_system(inbox(peer, team_.rank), epoch_ + 1,
                                 release ? cuda::memory_order_release : cuda::memory_order_relaxed);
    });
  }
  __device__ void wait(Coop, cuda::memory_order order) { wait_for(order, 0); }
  // Ends with ncclTimeout after this many cycles, in the threads whose peers have not come: a
  // thread of the group waits for some of the peers. An abort ends both kinds of wait with
  // ncclSuccess in the first, ncclTimeout in this one.
  __device__ ncclResult_t wait(Coop, cuda::memory_order order, uint64_t cycles) {
    return wait_for(order, cycles);
  }
  __device__ void sync(Coop coop, cuda::memory_order order) {
    arrive(coop, order);
    wait(coop, order);
  }
  __device__ ncclResult_t sync(Coop coop, cuda::memory_order order, uint64_t cycles) {
    arrive(coop, order);
    return wait(coop, order, cycles);
  }

 private:
  static __device__ uint32_t* words(void* at) { return static_cast<uint32_t*>(at); }
  __device__ uint32_t count() const { return static_cast<uint32_t>(handle_.nBarriers); }
  __device__ uint32_t* own() const {
    return words(ncclGetResourceBufferLocalPointer(comm_, handle_.bufHandle));
  }
  __device__ uint32_t* kept_epoch() const { return own() + (multimem_ ? 0 : count()) + index_; }
  // In the memory of `owner`, for arrivals of `from`; ranks of the team.
  __device__ uint32_t* inbox(int owner, int from) const {
    return words(ncclGetResourceBufferPeerPointer(comm_, handle_.bufHandle, team_, owner)) +
           3 * count() + index_ * static_cast<uint32_t>(team_.nRanks) + static_cast<uint32_t>(from);
  }
  template <class Do>
  __device__ void for_each_peer(Do&& act) {
    for (int i = coop_.thread_rank(); i < team_.nRanks - 1; i += coop_.size())
      act(i < team_.rank ? i : i + 1);
  }
  __device__ bool looks_until(uint32_t* at, uint32_t number, cuda::memory_order order,
                              uint64_t cycles) {
    const bool acquire = order != cuda::memory_order_relaxed && order != cuda::memory_order_release;
    const uint64_t began = cycles == 0 ? 0 : rondo_device::cycles();
    // Numbers wrap.
    const auto has_come = [&] {
      return static_cast<int32_t>(rondo_device::load_system(at, cuda::memory_order_relaxed) -
                                  number) >= 0;
    };
    for (uint32_t looks = 1; !has_come(); ++looks) {
      if (cycles != 0 && rondo_device::cycles() - began >= cycles) return false;
      if (looks % 256 == 0 && comm_.abortFlag != nullptr &&
          rondo_device::load_system(comm_.abortFlag, cuda::memory_order_relaxed) != 0)
        return false;
      rondo_device::pause();
    }
    if (acquire) rondo_device::load_system(at, cuda::memory_order_acquire);
    return true;
  }
  __device__ ncclResult_t wait_for(cuda::memory_order order, uint64_t cycles) {
    bool came = true;
    if (multimem_) {
      const uint32_t number = epoch_ + static_cast<uint32_t>(team_.nRanks);
      if (coop_.thread_rank() == 0)
        came = looks_until(own() + 2 * count() + index_, number, order, cycles);
      epoch_ = number;
    } else {
      for_each_peer([&](int peer) {
        came = looks_until(inbox(team_.rank, peer), epoch_ + 1, order, cycles) && came;
      });
      epoch_ += 1;
    }
    coop_.sync();
    return came || cycles == 0 ? ncclSuccess : ncclTimeout;
  }

  Coop coop_;
  const ncclDevComm& comm_;
  ncclTeam team_;
  ncclLsaBarrierHandle handle_;
  uint32_t index_;
  bool multimem_;
  ncclMultimemHandle memory_;
  uint32_t epoch_ = 0;  // meetings so far
};

#endif
