// SPDX-License-Identifier: Apache-2.0
// The records that ranks exchange at init: the secret derived from them, and the printable texts.
#include "collectives/context/init_record.h"

#include <gtest/gtest.h>

#include <limits>

#include "collectives/faults/fault.h"
#include "transport/bootstrap/messages.h"

namespace rondo {
namespace {

using bootstrap::Secret;

TEST(InitRecord, MakesASecretThatIsFreshEachTimeAndTheSameOnAllRanks) {
  const Secret joined = Secret::random();
  std::vector<InitRecord> records(2);
  for (std::size_t r = 0; r < records.size(); ++r) {
    records[r].facts.rank = static_cast<int>(r);
    records[r].nonce = auth::random_digest();
    records[r].secret_name = name_of(joined);
  }
  const auto first = secret_of_ranks(joined, records);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->bytes(), secret_of_ranks(joined, records)->bytes());
  EXPECT_NE(first->bytes(), joined.bytes());
  records[1].nonce = auth::random_digest();
  EXPECT_NE(first->bytes(), secret_of_ranks(joined, records)->bytes());
  records[1].secret_name = name_of(Secret::random());
  const auto different = secret_of_ranks(joined, records);
  ASSERT_FALSE(different.ok());
  EXPECT_EQ(different.code(), StatusCode::kInvalidUsage);
  EXPECT_NE(different.error().text.find("rank 1 has a different secret"), std::string::npos);
}

TEST(InitRecord, CarriesCostsThatWereMeasuredAndNoneThatCannotBe) {
  InitRecord record;
  const std::size_t untuned = record.encode().size();
  record.costs.measured = true;
  record.costs.ns[2] = 77;
  EXPECT_EQ(record.encode().size(), untuned + sizeof(record.costs.ns));
  const auto decoded = InitRecord::decode(record.encode(), 0);
  ASSERT_TRUE(decoded.ok()) << decoded.error().text;
  EXPECT_TRUE(decoded->costs.measured);
  EXPECT_EQ(decoded->costs.ns, record.costs.ns);
  for (const double bad : {0.0, -1.0, 1e300, std::numeric_limits<double>::quiet_NaN()}) {
    record.costs.ns[2] = bad;
    EXPECT_FALSE(InitRecord::decode(record.encode(), 0).ok()) << bad;
  }
}

TEST(InitRecord, CarriesOfGpusTheRatesThatWereMeasured) {
  InitRecord record;
  const std::size_t untuned = record.encode().size();
  record.device_costs.set(gpu::DeviceRate::kLaunch, 5000);
  record.device_costs.set(gpu::DeviceRate::kHostByte, 0.25);
  EXPECT_EQ(record.encode().size(), untuned + 2 * sizeof(double));
  const auto decoded = InitRecord::decode(record.encode(), 0);
  ASSERT_TRUE(decoded.ok()) << decoded.error().text;
  EXPECT_EQ(decoded->device_costs, record.device_costs);
  record.device_costs.set(gpu::DeviceRate::kLaunch, std::numeric_limits<double>::quiet_NaN());
  EXPECT_FALSE(InitRecord::decode(record.encode(), 0).ok());
  record.device_costs = gpu::kDevicePriors;
  record.device_costs.measured = 1u << gpu::kDeviceRates;
  EXPECT_FALSE(InitRecord::decode(record.encode(), 0).ok()) << "a rate that there is not";
}

constexpr char kHostile[] = "host\x1b[2J\nnode7:1:1 [-1] NCCL WARN forged";

TEST(InitRecord, ShowsAHostNameWithoutControlCharacters) {
  InitRecord record;
  record.facts.hostname = kHostile;
  const auto decoded = InitRecord::decode(record.encode(), 0);
  ASSERT_TRUE(decoded.ok()) << decoded.error().text;
  EXPECT_EQ(decoded->facts.hostname, "host\\x1b[2J\\nnode7:1:1 [-1] NCCL WARN forged");
}

TEST(PeersTexts, KeepTheirLinesAndPretendToBeNoneOfOurs) {
  const std::string shown = "host\\x1b[2J\n node7:1:1 [-1] NCCL WARN forged";
  Fault fault;
  fault.status = StatusCode::kRemoteError;
  fault.text = kHostile;
  EXPECT_EQ(decode_fault(encode_fault(fault), 2).text, shown);
  const auto error =
      bootstrap::decode_error(bootstrap::encode_error({StatusCode::kRemoteError, kHostile}));
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->text, shown);
}

}  // namespace
}  // namespace rondo
