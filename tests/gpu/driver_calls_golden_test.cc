// SPDX-License-Identifier: Apache-2.0
// Number of CUDA calls and threads that a communicator and its calls use on the emulated GPU, per
// process: tests/golden/files/driver_calls.txt. The numbers may only fall.
#include <dirent.h>
#include <sys/mman.h>

#include "tests/golden/golden.h"
#include "tests/simt/device/table.h"
#include "tests/support/nccl_rank.h"

namespace rondo::test {
namespace {

constexpr int kRanks = 4;
constexpr int kRepeats = 8;     // of every call; counts cover all of them
constexpr int kMaxCounts = 96;  // calls of the table, and threads
constexpr std::size_t kBytes = 8 << 20;

using Counts = std::map<std::string, std::uint64_t>;

// Counts what every call uses, and what a communicator makes once. Calls that grow with the staging
// memory (vmm_*, allocate) run at random moments and are not counted.
bool is_counted(const std::string& name) {
  static const std::set<std::string> kCounted = {
      "capture_info", "copy",       "create_event",  "create_stream",     "fill",
      "get_device",   "launch",     "launch_host",   "load_kernel",       "pointer_info",
      "record_event", "set_device", "stream_wait32", "stream_wait_event", "stream_write32"};
  return kCounted.contains(name);
}

std::uint64_t threads_now() {
  std::uint64_t threads = 0;
  DIR* const tasks = opendir("/proc/self/task");
  while (const dirent* const task = readdir(tasks)) threads += task->d_name[0] != '.';
  closedir(tasks);
  return threads;
}

Counts counts_now() {
  Counts counts;
  for (const simt::CallCount* one = simt::call_counts(); one != nullptr; one = one->next)
    if (is_counted(one->name)) counts[one->name] = one->calls.load();
  return counts;
}

struct Step {
  const char* name;
  std::function<ncclResult_t(NcclRank& seat, std::byte* memory)> call;
};

ncclResult_t sum(NcclRank& seat, std::byte* memory, std::size_t bytes) {
  return ncclAllReduce(memory, memory, bytes / 4, ncclFloat32, ncclSum, seat.comm, seat.stream);
}

ncclResult_t grouped_sums(NcclRank& seat, std::byte* memory) {
  ncclGroupStart();
  for (int i = 0; i < 4; ++i) sum(seat, memory + i * 4096, 4096);
  return ncclGroupEnd();
}

ncclResult_t round_a_ring(NcclRank& seat, std::byte* memory, std::size_t bytes) {
  ncclGroupStart();
  ncclSend(memory, bytes, ncclUint8, (seat.rank + 1) % seat.size, seat.comm, seat.stream);
  ncclRecv(memory + kBytes / 2, bytes, ncclUint8, (seat.rank + seat.size - 1) % seat.size,
           seat.comm, seat.stream);
  return ncclGroupEnd();
}

const Step kSteps[] = {
    {"all_reduce_4_KiB", [](NcclRank& s, std::byte* m) { return sum(s, m, 4 << 10); }},
    {"all_reduce_1_MiB", [](NcclRank& s, std::byte* m) { return sum(s, m, 1 << 20); }},
    {"four_all_reduces_in_a_group", grouped_sums},
    {"broadcast_64_KiB",
     [](NcclRank& s, std::byte* m) {
       return ncclBroadcast(m, m, 64 << 10, ncclUint8, 0, s.comm, s.stream);
     }},
    {"all_gather_64_KiB",
     [](NcclRank& s, std::byte* m) {
       return ncclAllGather(m, m + kBytes / 2, 64 << 10, ncclUint8, s.comm, s.stream);
     }},
    {"round_a_ring_4_KiB", [](NcclRank& s, std::byte* m) { return round_a_ring(s, m, 4 << 10); }},
    {"round_a_ring_1_MiB", [](NcclRank& s, std::byte* m) { return round_a_ring(s, m, 1 << 20); }},
};
const Step kRegisteredStep = {"all_reduce_4_KiB_registered",
                              [](NcclRank& s, std::byte* m) { return sum(s, m, 4 << 10); }};
constexpr int kStepCount = std::size(kSteps) + 3;  // the steps, that one, creation and end

// Counts of a process in each step.
struct Counted {
  struct {
    char name[32];
    std::uint64_t count;
  } of[kRanks][kStepCount][kMaxCounts];
};

const NamedLayout kCountedLayouts[] = {
    {"one_rank", {{{0}}}},
    {"two_threads_one_gpu", {{{0, 0}}}},
    {"threads_one_gpu", {{{0, 0, 0, 0}}}},
    {"two_threads_own_gpus", {{{0, 1}}}},
    {"threads_own_gpus", {{{0, 1, 2, 3}}}},
    {"processes_one_gpu", as_processes(kRanks, Gpus::kOne)},
    {"processes_own_gpus", as_processes(kRanks, Gpus::kOneEach)},
    {"processes_gpus_apart", as_processes(kRanks, Gpus::kOneEach, {{"NCCL_P2P_DISABLE", "1"}})},
    {"mixed_own_gpus", {{{0, 1}, {2, 3}}}},
    {"gpus_of_hosts", {{{0}, {1}, {2}, {3}}, {"a", "a", "b", "b"}}},
};

class DriverCalls : public testing::TestWithParam<NamedLayout> {
 protected:
  void SetUp() override {
    if (gpus_there() < kRanks) GTEST_SKIP() << "too few GPUs";
    counted_ = new (mmap(nullptr, sizeof(Counted), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Counted{};
  }
  void TearDown() override {
    if (counted_ != nullptr) munmap(counted_, sizeof(Counted));
  }

  // first: the first rank of the process.
  void keep(int first, int step, const Counts& before, std::uint64_t threads) {
    int at = 0;
    auto& to = counted_->of[first][step];
    const auto put = [&](const std::string& name, std::uint64_t count) {
      if (count == 0) return;
      ASSERT_LT(at, kMaxCounts);
      std::strncpy(to[at].name, name.c_str(), sizeof(to[at].name) - 1);
      to[at++].count = count;
    };
    for (const auto& [name, count] : counts_now()) {
      // It is random which thread opens what all need, and for which device.
      if (step == 0 && name == "set_device") continue;
      put(name, count - before.at(name));
    }
    put("threads", threads);
  }

  // One thread makes the calls of all ranks of its process, grouped: with several threads, a random
  // order of turns would give other waits.
  void run(Ranks<NcclRank>& ranks) {
    int step = 0;
    std::vector<void*> memory(static_cast<std::size_t>(ranks.size()));
    for (int i = 0; i < ranks.size(); ++i) {
      ranks[i].prepare();
      GPU_OK(gpu_api()->allocate(&memory[i], kBytes));
    }
    const auto once = [&](const std::function<ncclResult_t(NcclRank&, std::byte*)>& call) {
      NCCL_OK(ncclGroupStart());
      for (int i = 0; i < ranks.size(); ++i) {
        GPU_OK(gpu_api()->set_device(ranks[i].device));
        NCCL_OK(call(ranks[i], static_cast<std::byte*>(memory[i])));
      }
      NCCL_OK(ncclGroupEnd());
      for (int i = 0; i < ranks.size(); ++i) GPU_OK(gpu_api()->synchronize_stream(ranks[i].stream));
    };
    const auto measure = [&](const std::function<void()>& body) {
      ASSERT_TRUE(ranks.meet());
      const Counts before = counts_now();
      const std::uint64_t threads = threads_now();
      body();
      ASSERT_TRUE(ranks.meet());
      const std::uint64_t now = threads_now();
      keep(ranks[0].rank, step++, before, now > threads ? now - threads : 0);
      ASSERT_TRUE(ranks.meet());  // a rank that continues would request slots from others
    };
    measure([&] {
      once([](NcclRank& one, std::byte*) {
        return ncclCommInitRank(&one.comm, one.size, one.id(), one.rank);
      });
    });
    const auto measure_step = [&](const Step& each) {
      once(each.call);  // the first call makes what all of them need
      measure([&] {
        for (int i = 0; i < kRepeats; ++i) once(each.call);
      });
    };
    for (const Step& each : kSteps) measure_step(each);
    // Other processes would map it at a random moment.
    if (ranks.size() == ranks[0].size)
      once([](NcclRank& one, std::byte* at) {
        void* handle = nullptr;
        return ncclCommRegister(one.comm, at, kBytes, &handle);
      });
    measure_step(kRegisteredStep);
    measure([&] {
      NCCL_OK(ncclGroupStart());
      for (int i = 0; i < ranks.size(); ++i) NCCL_OK(ncclCommDestroy(ranks[i].comm));
      NCCL_OK(ncclGroupEnd());
    });
  }

  Counted* counted_ = nullptr;
};

TEST_P(DriverCalls, DoNotGrow) {
  const Layout layout = GetParam().layout.under({{"NCCL_RAS_ENABLE", "0"}});  // another thread
  run_job(layout, [&](Ranks<NcclRank>& ranks) { run(ranks); });
  if (HasFailure()) return;
  GoldenCounts golden("driver_calls.txt", GetParam().name);
  for (int process = 0; process < static_cast<int>(layout.processes.size()); ++process) {
    const std::string where = ", process " + std::to_string(process);
    for (int step = 0; step < kStepCount; ++step) {
      Counts counts;
      for (const auto& one : counted_->of[layout.first_of(process)][step])
        if (one.name[0] != '\0') counts[one.name] = one.count;
      const char* const name = step == 0                ? "making"
                               : step == kStepCount - 1 ? "ending"
                               : step == kStepCount - 2 ? kRegisteredStep.name
                                                        : kSteps[step - 1].name;
      golden.expect(name + where, counts);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Placements, DriverCalls, testing::ValuesIn(kCountedLayouts),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace rondo::test
