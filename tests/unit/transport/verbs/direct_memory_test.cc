// SPDX-License-Identifier: Apache-2.0
// GPU memory with simulated RDMA ports: the arguments of a dmabuf registration, the fallback after
// a refusal, and the flush before received data count as received.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#ifdef RONDO_VERBS

#include "tests/unit/transport/verbs/fake_verbs.h"
#include "transport/verbs/ibverbs/sides.h"

namespace rondo::verbs {
namespace {

using testing::HasSubstr;

class DirectMemory : public OnFakeVerbs {
 protected:
  // GPU memory: an address that the host cannot access.
  static net::Memory file(std::function<Status()> flush = {}) {
    return {{reinterpret_cast<std::byte*>(0x7000'0000'0000), 8192},
            net::Memory::Kind::kDmabuf,
            17,
            4096,
            std::move(flush)};
  }
};

TEST_F(DirectMemory, IsDescribedByFileAndOffsetUnderItsOwnAddresses) {
  const auto adapters = open();
  const net::Memory memory = file();
  const auto key = adapters->register_memory(memory);
  ASSERT_TRUE(key.ok());
  ASSERT_EQ(fake_.registrations.size(), 1u);
  const FakeVerbs::Registration& registrations = fake_.registrations[0];
  EXPECT_EQ(registrations.offset, 4096u);
  EXPECT_EQ(registrations.bytes, 8192u);
  EXPECT_EQ(registrations.iova, 0x7000'0000'0000u);
  EXPECT_EQ(registrations.file, 17);
  EXPECT_EQ(registrations.access,
            static_cast<unsigned>(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                  IBV_ACCESS_RELAXED_ORDERING));
  EXPECT_NE(adapters->find(*key, memory.bytes.subspan(100, 200)), nullptr);
  EXPECT_FALSE(adapters->needs_flush(*key));
  adapters->deregister_memory(*key);
  EXPECT_EQ(adapters->find(*key, memory.bytes), nullptr);
}

// After a refusal the link uses host memory, and needs all registrations undone.
TEST_F(DirectMemory, ThatOnePortRefusesIsRegisteredWithNone) {
  const auto adapters = open(fake_functions(), 2);
  fake_.refused_by = 1;
  const std::size_t before = fake_.registered;
  const auto key = adapters->register_memory(file());
  ASSERT_FALSE(key.ok());
  EXPECT_THAT(key.error().text, HasSubstr("8192 bytes of a dmabuf file cannot be registered with "
                                          "nic1:1"));
  EXPECT_THAT(key.error().text, HasSubstr(std::strerror(EOPNOTSUPP)));
  EXPECT_EQ(fake_.registrations.size(), 1u);
  EXPECT_EQ(fake_.registered, before);
}

TEST_F(DirectMemory, NeedsALibraryThatKnowsFiles) {
  Ibverbs older = fake_functions();
  older.reg_dmabuf_mr = nullptr;
  const auto adapters = open(older);
  const auto key = adapters->register_memory(file());
  ASSERT_FALSE(key.ok());
  EXPECT_THAT(key.error().text, HasSubstr("rdma-core 34"));
}

// A receiving end on a port; this test acts as its peer.
class FlushedReceives : public DirectMemory, public RailOwner {
 public:
  ~FlushedReceives() override {
    side_.reset();
    rails_.clear();
    adapters_.reset();
  }

 protected:
  void SetUp() override {
    DirectMemory::SetUp();
    adapters_ = open();
    auto rail = Rail::make(*this, adapters_->at(0), 0, 1);
    ASSERT_TRUE(rail.ok());
    rails_.push_back(std::move(rail).value());
    ASSERT_TRUE(rails_[0]->connect(0, rails_[0]->end(0)).ok());
    ASSERT_TRUE(rails_[0]->ack_ready().ok());
    side_ = std::make_unique<ReceiveSide>(*adapters_);
  }
  std::uint64_t receive(const net::Memory& memory, net::MemoryKey key) {
    return side_->push(record_, memory.bytes, *adapters_->find(key, memory.bytes), key);
  }
  void offer() {
    const Way ways[] = {{rails_[0].get(), 0}};
    side_->offer(ways, rails_);
  }
  std::optional<std::string> arrive(std::uint64_t number) {
    const Header header{{}, 100, 0, static_cast<std::uint16_t>(number), 1};
    std::memcpy(rails_[0]->rings().data() + Rings::header_at(0, number), &header, sizeof(header));
    return side_->arrived(*rails_[0], 0,
                          {Ring::Kind::kMessage, static_cast<std::uint32_t>(number), 0});
  }

  std::unique_ptr<Adapters> adapters_;
  ReceiveSide::Rails rails_;
  std::unique_ptr<ReceiveSide> side_;
  CallRecord record_{};

 private:
  std::optional<std::string> rung(Rail&, std::size_t, Ring) override { return std::nullopt; }
  void sent(Rail&, std::uint16_t) override {}
  void put(Rail&, std::uint16_t) override {}
};

TEST_F(FlushedReceives, AreThereOnceTheGpuSeesThem) {
  int flushes = 0;
  bool too_early = false;
  std::uint64_t first = 0;
  const net::Memory memory = file([&] {
    too_early |= side_->test(first).done;
    return ++flushes, ok_status();
  });
  const net::MemoryKey key = adapters_->register_memory(memory).value();
  first = receive(memory, key);
  const std::uint64_t second = receive(memory, key);
  offer();
  EXPECT_EQ(arrive(second), std::nullopt);  // not received before the first one
  EXPECT_EQ(flushes, 0);
  EXPECT_EQ(arrive(first), std::nullopt);
  EXPECT_EQ(flushes, 1) << "one does for all that has come";
  EXPECT_FALSE(too_early);
  EXPECT_TRUE(side_->test(first).done && side_->test(second).done);
}

TEST_F(FlushedReceives, IntoMemoryThatNeedsNoFlushGetNone) {
  const net::Memory memory = file();
  const net::MemoryKey key = adapters_->register_memory(memory).value();
  const std::uint64_t number = receive(memory, key);
  offer();
  EXPECT_EQ(arrive(number), std::nullopt);
  EXPECT_TRUE(side_->test(number).done);
}

TEST_F(FlushedReceives, ThatCannotBeFlushedAreAnError) {
  const net::Memory memory =
      file([] { return Status(fail(StatusCode::kUnhandledCudaError, "the GPU is lost")); });
  const net::MemoryKey key = adapters_->register_memory(memory).value();
  const std::uint64_t number = receive(memory, key);
  offer();
  EXPECT_EQ(arrive(number), "the GPU is lost");
  EXPECT_FALSE(side_->test(number).done);
}

}  // namespace
}  // namespace rondo::verbs

#endif
