// SPDX-License-Identifier: Apache-2.0
// The shared memory of a CTA that runs a channel: its ends, and the jobs of its groups.
//
// A group is a pipeline of three kinds of warps. The control warp runs the algorithm: for every
// verb it waits until slots are full or free and writes a job. Workers move the job's data. The
// signal warp signals the peers. Jobs pass from one to the next through a ring (job_ring.h).
#pragma once

#include "kernels/algorithms/tree.h"
#include "kernels/cuda/connected_args.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/kernel_wait.h"

namespace rondo::cuda {

// A job, in words of 8 bytes. An address is 0 if the verb does not use it.
enum JobWord : std::uint32_t {
  kFrom,                      // two: slots to read
  kTo = kFrom + 2,            // two: slots to write
  kOwn = kTo + 2,             // this rank's operand
  kKeep,                      // address of the stored result
  kCount,                     // elements
  kHow,                       // How bits
  kFromFlags,                 // two: LL, LL128: flags of the incoming slots (LL uses 32 bits)
  kToFlags = kFromFlags + 2,  // two: flags of the outgoing slots
  kFromPeers = kToFlags + 2,  // ranks that send the incoming slots, 32 bits each
  kStep,                      // step of the first incoming slot
  kPosts,                     // four pairs: address of a peer's counter (or 0), its new value
  kJobWords = kPosts + 8
};
enum How : std::uint32_t {
  kLast = 1,        // the last job: all warps leave
  kReduces = 2,     // arithmetic, not only a copy
  kFinishes = 4,    // last step of an average: divide
  kFillsSlot0 = 8,  // LL: the whole slot gets the new flag, so that no old one remains
  kFillsSlot1 = 16,
};
// Jobs per group: the usual number of slots of a connection, which a rank may fill before a peer
// has emptied one.
inline constexpr unsigned kJobs = 4;
inline constexpr unsigned kGroups = 2;
enum JobBarrier : std::uint32_t { kFull, kDone, kFree, kJobBarriers };

// Positions in words, after the words of waits.
inline constexpr std::uint32_t kEndWords = sizeof(DeviceEnd) / 8;
inline constexpr std::uint32_t kEndsAt = kWaitShared / 8;
inline constexpr std::uint32_t kJobsAt = kEndsAt + kDirections * kEnds * kEndWords;
inline constexpr std::uint32_t kJobBarriersAt = kJobsAt + kGroups * kJobs * kJobWords;
inline constexpr std::uint32_t kNumbersAt =  // numbers of the next jobs
    kJobBarriersAt + kGroups * kJobs * kJobBarriers;
inline constexpr std::uint32_t kSliceAt =
    kNumbersAt + kGroups;                                 // begin and count of the channel's part
inline constexpr std::uint32_t kLaunchAt = kSliceAt + 2;  // LaunchCount
// The call that the CTA runs (CtaCall): its index in the list, the call, the rank's buffers, the
// rank.
inline constexpr std::uint32_t kNumberAt = kLaunchAt + 2;
inline constexpr std::uint32_t kCallAt = kNumberAt + 1;
inline constexpr std::uint32_t kCallWords = sizeof(ConnectedArgs::Call) / 8;
inline constexpr std::uint32_t kBuffersAt = kCallAt + kCallWords;
inline constexpr std::uint32_t kBuffersWords = sizeof(ConnectedArgs::Buffers) / 8;
inline constexpr std::uint32_t kLateAt = kBuffersAt + kBuffersWords;
inline constexpr std::uint32_t kStationAt = kLateAt + 1;
inline constexpr std::uint32_t kStationWords = sizeof(ConnectedArgs::Station) / 8;
inline constexpr std::uint32_t kChannelAt = kStationAt + kStationWords;
// The order of the ranks on the channel: its address (0: rank order), and this rank's position.
inline constexpr std::uint32_t kOrderAt = kChannelAt + 1;
inline constexpr std::uint32_t kPositionAt = kOrderAt + 1;
inline constexpr std::uint32_t kWordsInUse = kPositionAt + 1;
static_assert(8 * kWordsInUse <= kConnectedShared);

RONDO_FN inline std::uint64_t read_word(std::uint32_t word) {
  return device::load_shared<std::uint64_t>(8 * word);
}
RONDO_FN inline void write_word(std::uint32_t word, std::uint64_t value) {
  device::store_shared<std::uint64_t>(8 * word, value);
}

// One end, in shared memory during a launch.
struct EndAt {
  std::uint32_t at;

  RONDO_FN std::uint64_t field(std::uint32_t offset) const { return read_word(at + offset / 8); }
  RONDO_FN std::byte* slot() const {
    return reinterpret_cast<std::byte*>(field(offsetof(DeviceEnd, connection.buffer))) +
           next_slot() * slot_bytes();
  }
  RONDO_FN std::uint64_t slot_bytes() const {
    return field(offsetof(DeviceEnd, connection.slot_bytes));
  }
  RONDO_FN std::uint64_t slot_count() const {
    return field(offsetof(DeviceEnd, connection.slot_count));
  }
  RONDO_FN std::uint64_t* tail() const {
    return reinterpret_cast<std::uint64_t*>(field(offsetof(DeviceEnd, connection.tail)));
  }
  RONDO_FN std::uint64_t* head() const {
    return reinterpret_cast<std::uint64_t*>(field(offsetof(DeviceEnd, connection.head)));
  }
  // The array in which an outgoing end stores the bytes of each slot, for a net proxy to another
  // host; or null.
  RONDO_FN std::uint64_t* used() const {
    return reinterpret_cast<std::uint64_t*>(field(offsetof(DeviceEnd, connection.used)));
  }
  RONDO_FN int peer() const {
    return static_cast<int>(field(offsetof(DeviceEnd, connection.peer)) & 0xffffffff);
  }
  RONDO_FN int lane() const {
    return static_cast<int>(field(offsetof(DeviceEnd, lane)) & 0xffffffff);
  }
  RONDO_FN unsigned next_slot() const {
    return static_cast<unsigned>(field(offsetof(DeviceEnd, lane)) >> 32);
  }
  RONDO_FN void turn() const {
    const std::uint64_t next = next_slot() + 1 == slot_count() ? 0 : next_slot() + 1;
    write_word(at + offsetof(DeviceEnd, lane) / 8, static_cast<std::uint32_t>(lane()) | next << 32);
  }
  RONDO_FN std::uint64_t step() const { return field(offsetof(DeviceEnd, step)); }
  RONDO_FN std::uint64_t known() const { return field(offsetof(DeviceEnd, known)); }
  RONDO_FN void set_step(std::uint64_t value) const {
    write_word(at + offsetof(DeviceEnd, step) / 8, value);
  }
  RONDO_FN void set_known(std::uint64_t value) const {
    write_word(at + offsetof(DeviceEnd, known) / 8, value);
  }
};
static_assert(offsetof(DeviceEnd, connection.peer) % 8 == 0 && offsetof(DeviceEnd, lane) % 8 == 0);

RONDO_FN inline EndAt end_at(int direction, int index) {
  return {kEndsAt + static_cast<std::uint32_t>(direction * kEnds + index) * kEndWords};
}

// The call that the CTA runs and its rank's buffers, as open() has stored them in shared memory. In
// a list they have no fixed address, and an address would take another register of every thread.
struct CtaCall {
  using Call = ConnectedArgs::Call;
  using Buffers = ConnectedArgs::Buffers;
  using Station = ConnectedArgs::Station;

  static RONDO_FN int number() { return static_cast<int>(read_word(kNumberAt)); }
  static RONDO_FN std::uint64_t count() { return of_call(offsetof(Call, count)); }
  // Rounds::tree of the channel.
  static RONDO_FN int tree() {
    if (!of_call<bool>(offsetof(Call, one_tree))) return kBothTrees;
    return tree_of_channel(channel(), of_call<std::uint8_t>(offsetof(Call, channels)));
  }
  static RONDO_FN std::uint64_t per_round() { return of_call(offsetof(Call, per_round)); }
  static RONDO_FN std::uint64_t slice() { return of_call(offsetof(Call, slice)); }
  static RONDO_FN Algorithm algorithm() { return of_call<Algorithm>(offsetof(Call, algorithm)); }
  static RONDO_FN Protocol protocol() { return of_call<Protocol>(offsetof(Call, protocol)); }
  static RONDO_FN Collective collective() {
    return of_call<Collective>(offsetof(Call, record.collective));
  }
  static RONDO_FN RedOp op() { return of_call<RedOp>(offsetof(Call, record.op)); }
  static RONDO_FN DataType type() { return of_call<DataType>(offsetof(Call, record.type)); }
  static RONDO_FN int root() {
    return of_call<std::int32_t>(offsetof(Call, record) + CallRecord::kRootWordAt) >>
           CallRecord::kRootShift;
  }

  static RONDO_FN std::uint64_t input() { return read_word(kBuffersAt); }
  static RONDO_FN std::uint64_t output() { return read_word(kBuffersAt + 1); }
  static RONDO_FN std::uint64_t scalar() { return read_word(kBuffersAt + 2); }
  static RONDO_FN bool is_late() { return read_word(kLateAt) != 0; }

  static RONDO_FN DeviceEnd* ends() { return pointer<DeviceEnd>(offsetof(Station, ends)); }
  static RONDO_FN Control* control() { return pointer<Control>(offsetof(Station, control)); }
  static RONDO_FN std::uint64_t* launches() {
    return pointer<std::uint64_t>(offsetof(Station, launches));
  }
  static RONDO_FN int rank() {
    return device::load_shared<std::int32_t>(8 * kStationAt + offsetof(Station, rank));
  }
  static RONDO_FN int channel() { return static_cast<int>(read_word(kChannelAt)); }
  static RONDO_FN int position() { return static_cast<int>(read_word(kPositionAt)); }

 private:
  template <class T = std::uint64_t>
  static RONDO_FN T of_call(std::uint32_t offset) {
    return device::load_shared<T>(8 * kCallAt + offset);
  }
  template <class T>
  static RONDO_FN T* pointer(std::uint32_t offset) {
    return reinterpret_cast<T*>(read_word(kStationAt + offset / 8));
  }
};

// The rank at every position of the channel's order. Not inlined: algorithms use it often.
struct CtaCallOrder {
  RONDO_FN int operator[](int position) const { return rank_at(position); }
  static RONDO_FN RONDO_NO_INLINE int rank_at(int position) {
    const auto* const order = reinterpret_cast<const std::int32_t*>(read_word(kOrderAt));
    return order == nullptr ? position : device::load(order + position);
  }
};

// The call's record, for reports of waits.
struct CtaCallRecord {};
RONDO_FN inline std::uint64_t record_word(CtaCallRecord, unsigned which) {
  return read_word(kCallAt + which);
}
static_assert(offsetof(ConnectedArgs::Call, record) == 0);

// This thread's place in its group.
struct Group {
  unsigned number;
  unsigned threads;  // number of threads of the group
  unsigned warp;     // index of this thread's warp in the group

  static RONDO_FN Group of_thread(unsigned groups) {
    const unsigned threads = device::thread_count() / groups;
    const unsigned number = device::thread_index() / threads;
    return {number, threads, device::warp_index() - number * threads / device::kWarp};
  }
  RONDO_FN unsigned workers() const { return threads - kServiceWarps * device::kWarp; }
  RONDO_FN unsigned worker() const {
    return (warp - kServiceWarps) * device::kWarp + device::lane_index();
  }
};

}  // namespace rondo::cuda
