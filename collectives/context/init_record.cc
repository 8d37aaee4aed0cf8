// SPDX-License-Identifier: Apache-2.0
#include "collectives/context/init_record.h"

#include "base/bytes.h"
#include "base/printable.h"
#include "topology/graph/graph.h"
#include "transport/connection.h"
#include "transport/networks/network_agreement.h"
#include "transport/shm/unix_socket.h"

namespace rondo {
namespace {

// A word of flags, then the rates that were measured.
void put(ByteWriter& writer, const gpu::DeviceCosts& costs) {
  writer.put(costs.measured);
  for (const gpu::DeviceRateInfo& info : gpu::kDeviceRateTable)
    if (costs.is_measured(info.rate)) writer.put(costs.of(info.rate));
}
gpu::DeviceCosts get_device_costs(ByteReader& reader) {
  gpu::DeviceCosts costs;
  costs.measured = reader.get<std::uint32_t>();
  for (const gpu::DeviceRateInfo& info : gpu::kDeviceRateTable)
    if (costs.is_measured(info.rate)) costs.set(info.rate, reader.get<double>());
  return costs;
}

}  // namespace

std::vector<std::byte> InitRecord::encode() const {
  ByteWriter writer;
  writer.put(kLayoutVersion);
  writer.put(facts.rank);
  writer.put(facts.process);
  writer.put(facts.host);
  writer.put(facts.pid);
  writer.put(facts.pid_namespace);
  writer.put(facts.id_at);
  writer.put_string(facts.hostname);
  writer.put_string(facts.socket);
  writer.put(facts.address);
  writer.put(algorithms.allowed);
  writer.put(protocols.allowed);
  writer.put(static_cast<std::uint8_t>(reproducible));
  writer.put(reads);
  writer.put(verify_every);
  writer.put(clock_rounds);
  writer.put(cpu_set);
  writer.put(cores);
  writer.put(buffer_bytes);
  writer.put(core_cache);
  writer.put(shared_cache);
  writer.put(static_cast<std::uint8_t>(fences_host));
  writer.put(static_cast<std::uint8_t>(costs.measured));
  if (costs.measured) writer.put(costs.ns);
  put(writer, device_costs);
  writer.put_string(network);
  writer.put(device);
  writer.put_string(bus_id);
  writer.put(nonce);
  writer.put(secret_name);
  return writer.take();
}

Result<InitRecord> InitRecord::decode(std::span<const std::byte> blob, int rank) {
  ByteReader reader(blob);
  const auto layout = reader.get<std::uint32_t>();
  if (reader.ok() && layout != kLayoutVersion)
    return fail(
        StatusCode::kInvalidUsage,
        "rank {} runs another build of Rondo (layout {}, here {}): use one build everywhere", rank,
        layout, kLayoutVersion);
  InitRecord record;
  RankFacts& facts = record.facts;
  facts.rank = reader.get<int>();
  facts.process = reader.get<ProcessId>();
  facts.host = record.machine = reader.get<std::uint64_t>();
  facts.pid = reader.get<int>();
  facts.pid_namespace = reader.get<std::uint32_t>();
  facts.id_at = reader.get<std::uint64_t>();
  facts.hostname = printable(reader.get_string());
  facts.socket = reader.get_string();
  facts.address = reader.get<bootstrap::UniqueId>();
  record.algorithms.allowed = reader.get<FunctionSets>();
  record.protocols.allowed = reader.get<FunctionSets>();
  const auto reproducible = reader.get<std::uint8_t>();
  record.reproducible = reproducible != 0;
  record.reads = reader.get<MemoryReads>();
  record.verify_every = reader.get<std::uint64_t>();
  record.clock_rounds = reader.get<std::uint8_t>();
  record.cpu_set = reader.get<std::uint64_t>();
  record.cores = reader.get<std::int32_t>();
  record.buffer_bytes = reader.get<std::uint64_t>();
  record.core_cache = reader.get<std::uint64_t>();
  record.shared_cache = reader.get<std::uint64_t>();
  const auto fences_host = reader.get<std::uint8_t>();
  record.fences_host = fences_host != 0;
  const auto measured = reader.get<std::uint8_t>();
  record.costs.measured = measured != 0;
  if (record.costs.measured) record.costs.ns = reader.get<decltype(HostCosts::ns)>();
  record.device_costs = get_device_costs(reader);
  record.network = reader.get_string();
  record.device = reader.get<std::int32_t>();
  record.bus_id = reader.get_string();
  record.nonce = reader.get<bootstrap::Digest>();
  record.secret_name = reader.get<bootstrap::Digest>();
  if (!reader.ok() || reader.left() != 0 || facts.rank != rank || reproducible > 1 ||
      fences_host > 1 || record.clock_rounds > kMaxClockRounds ||
      record.reads > MemoryReads::kAlways || measured > 1 || !record.costs.plausible() ||
      !record.device_costs.plausible() || record.cores < 1 || record.device < -1 ||
      facts.socket.size() > shm::kMaxSocketName || record.network.size() > kMaxNetworkName ||
      topology::normal_bus_id(record.bus_id) != record.bus_id)
    return fail(StatusCode::kRemoteError, "rank {} sent a record that cannot be read", rank);
  return record;
}

Result<bootstrap::Secret> secret_of_ranks(const bootstrap::Secret& joined,
                                          std::span<const InitRecord> records) {
  const bootstrap::Digest name = name_of(joined);
  ByteWriter nonces;
  for (const InitRecord& record : records) {
    if (record.secret_name != name)
      return fail(StatusCode::kInvalidUsage,
                  "rank {} has a different secret than this rank: give all ranks the same unique "
                  "id (or NCCL_COMM_ID) and the same RONDO_SECRET",
                  record.facts.rank);
    nonces.put(record.nonce);
  }
  return joined.derive("communicator", nonces.take());
}

bootstrap::Digest name_of(const bootstrap::Secret& secret) { return secret.derive("name").bytes(); }

}  // namespace rondo
