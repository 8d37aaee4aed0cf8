// SPDX-License-Identifier: Apache-2.0
// The example of a mixture of experts (api/examples/moe.h) on the emulated GPU, against a serial
// layer: the same bits for any placement, seed and order of arrival, in a replayed graph too.
#include "api/examples/moe.h"

#include "tests/gpu/joint_graph.h"
#include "tests/simt/device_fixture.h"
#include "tests/support/processes.h"

namespace rondo::test {
namespace {

template <class Body>
struct ForEach {
  std::size_t n;
  Body body;
  void operator()() const {
    const std::size_t threads = device::thread_count() * device::cta_count();
    for (std::size_t i = device::cta_index() * device::thread_count() + device::thread_index();
         i < n; i += threads)
      body(i);
  }
};
struct Launch {
  GpuStream on;
  template <class Body>
  void operator()(std::size_t n, Body body) const {
    GPU_OK(simt::TestDevice::launch("for_each", {.ctas = 2, .threads = 64}, on,
                                    ForEach<Body>{n, body}));
  }
  cudaStream_t stream() const { return reinterpret_cast<cudaStream_t>(on); }
};

struct Sizes {
  std::size_t tokens = 24, width = 16, choices = 2;
};
float value_of(int rank, unsigned round, std::size_t i) {
  return static_cast<float>((i * 37 + static_cast<std::size_t>(rank) * 11 + round * 5) % 101) / 7;
}
// Different for each choice of a token. Odd rounds are skewed: nearly all go to two ranks.
int expert_of(int rank, unsigned round, std::size_t token, std::size_t choice, int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t first =
      round % 2 == 1 && token > 0 ? 0 : token * token / 5 + static_cast<std::size_t>(rank) + round;
  return static_cast<int>((first + choice * (1 + (round % 2 == 1 ? 0 : token % (n - 1)))) % n);
}
float weight_of(std::size_t token, std::size_t choice) {
  return choice == 0 ? 1.0f / static_cast<float>(2 + token) : 0.3f;
}
float expert(int rank, float x) { return fmaf(x, 1.5f + static_cast<float>(rank), -1.0f / 3); }

// Pinned memory: the example's lambdas load and store as on a real GPU, and the emulated one's own
// memory is not there for plain loads and stores.
template <class T>
T* pinned(std::size_t n) {
  void* at = nullptr;
  EXPECT_EQ(gpu_api()->allocate_host(&at, n * sizeof(T), 0), kGpuSuccess);
  return static_cast<T*>(at);
}

// The layer of one rank, and its inputs and results.
class Layer {
 public:
  Layer(NcclRank& seat, const Sizes& sizes)
      : seat_(seat),
        sizes_(sizes),
        moe_(memory_, seat.size, sizes.tokens, sizes.width, sizes.choices) {}
  ~Layer() {
    for (void* at :
         {static_cast<void*>(memory_.out), static_cast<void*>(memory_.in),
          static_cast<void*>(memory_.sent), static_cast<void*>(memory_.came),
          static_cast<void*>(memory_.row), static_cast<void*>(x_), static_cast<void*>(y_),
          static_cast<void*>(weights_), static_cast<void*>(experts_)})
      gpu_api()->free_host(at);
  }
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  void fill(unsigned round) {
    GPU_OK(gpu_api()->synchronize_stream(seat_.stream));
    for (std::size_t i = 0; i < values(); ++i) x_[i] = value_of(seat_.rank, round, i);
    for (std::size_t i = 0; i < choices(); ++i) {
      experts_[i] =
          expert_of(seat_.rank, round, i / sizes_.choices, i % sizes_.choices, seat_.size);
      weights_[i] = weight_of(i / sizes_.choices, i % sizes_.choices);
    }
  }
  void run() {
    const Launch launch{seat_.stream};
    NCCL_OK(moe_.dispatch(x_, experts_, seat_.comm, launch));
    moe_.run_expert(launch, [rank = seat_.rank](float x) { return expert(rank, x); });
    NCCL_OK(moe_.combine(y_, weights_, experts_, seat_.comm, launch));
  }
  void check(unsigned round) {
    GPU_OK(gpu_api()->synchronize_stream(seat_.stream));
    for (std::size_t i = 0; i < values(); ++i) {
      const std::size_t token = i / sizes_.width;
      float sum = 0;
      for (std::size_t c = 0; c < sizes_.choices; ++c)
        sum = fmaf(weight_of(token, c),
                   expert(expert_of(seat_.rank, round, token, c, seat_.size),
                          value_of(seat_.rank, round, i)),
                   sum);
      ASSERT_EQ(y_[i], sum) << "rank " << seat_.rank << " value " << i << " round " << round;
    }
  }

 private:
  std::size_t values() const { return sizes_.tokens * sizes_.width; }
  std::size_t choices() const { return sizes_.tokens * sizes_.choices; }
  std::size_t places() const {
    return static_cast<std::size_t>(seat_.size) * sizes_.tokens * sizes_.width;
  }

  NcclRank& seat_;
  const Sizes sizes_;
  const MoeMemory memory_{pinned<float>(places()), pinned<float>(places()),
                          pinned<std::size_t>(static_cast<std::size_t>(seat_.size)),
                          pinned<std::size_t>(static_cast<std::size_t>(seat_.size)),
                          pinned<unsigned>(choices())};
  float *const x_ = pinned<float>(values()), *const y_ = pinned<float>(values()),
               *const weights_ = pinned<float>(choices());
  int* const experts_ = pinned<int>(choices());
  const Moe<Launch> moe_;
};

const NamedLayout kMoePlaces[] = {
    {"two", as_processes(2, Gpus::kOneEach)},
    {"four", as_processes(4, Gpus::kOneEach)},
    {"eight", as_processes(8, Gpus::kOneEach)},
    {"weak", as_processes(3, Gpus::kOneEach, {{"RONDO_SIMT", "mode=weak"}})},
    {"threads", {{{0, 1, 2}}}},
    {"one_gpu", {{{0, 0, 0, 0}}}},
    {"hosts", {{{0}, {1}, {2}}, {"a", "a", "b"}}},
};
class MixtureOfExperts : public testing::TestWithParam<NamedLayout> {};
INSTANTIATE_TEST_SUITE_P(Places, MixtureOfExperts, testing::ValuesIn(kMoePlaces),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(MixtureOfExperts, HasTheBitsOfASerialLayer) {
  run_job(GetParam().layout, [](NcclRank& seat) {
    Layer layer(seat, {});
    for (unsigned round = 0; round < 2; ++round) {
      layer.fill(round);
      ASSERT_TRUE(seat.board.meet());
      layer.run();
      layer.check(round);
      if (testing::Test::HasFailure()) return;
    }
    // One graph, whose replays route otherwise.
    JointGraph graph(seat, GetParam().layout);
    graph.capture([&] { layer.run(); });
    for (unsigned round = 2; round < 4; ++round) {
      layer.fill(round);
      graph.replay();
      layer.check(round);
      if (testing::Test::HasFailure()) return;
    }
  });
}

}  // namespace
}  // namespace rondo::test
