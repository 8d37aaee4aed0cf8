// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/ibverbs/queue_pair.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <random>

namespace rondo::verbs {
namespace {

// Retries without limit while the receiver has no room: the writer has its own deadline.
constexpr std::uint8_t kAskAgainForEver = 7;
constexpr std::uint8_t kPauseOf640us = 12;  // between two retries

struct Remedy {
  ibv_wc_status status;
  const char* text;
};
constexpr Remedy kRemedies[] = {
    {IBV_WC_RETRY_EXC_ERR,
     "the peer or the path to it is gone: check its log and the switch; on RoCE a firewall must "
     "pass UDP port 4791; if the network is only slow, raise NCCL_IB_TIMEOUT or NCCL_IB_RETRY_CNT"},
    {IBV_WC_WR_FLUSH_ERR,
     "it had failed before, at either end, or its port went down: see the peer's log and `rdma "
     "link`"},
    {IBV_WC_REM_ACCESS_ERR, "the memory no longer belongs to the peer: see the peer's log"},
    {IBV_WC_REM_OP_ERR, "the peer ended or failed during the transfer: see the peer's log"},
    {IBV_WC_REM_ABORT_ERR, "the peer ended or failed during the transfer: see the peer's log"},
    {IBV_WC_LOC_PROT_ERR, "memory was freed while it was being sent"},
};
constexpr const char* kAnyOther = "see dmesg and the peer's log";

const char* remedy(ibv_wc_status status) {
  for (const Remedy& row : kRemedies)
    if (row.status == status) return row.text;
  return kAnyOther;
}

ibv_mtu mtu_of(std::uint16_t bytes) {
  int mtu = IBV_MTU_256;
  for (std::uint16_t each = 256; each < bytes; each = static_cast<std::uint16_t>(each * 2)) ++mtu;
  return static_cast<ibv_mtu>(mtu);
}

}  // namespace

QueuePair::QueuePair(DeviceContext& device, ibv_qp* pair)
    : device_(device), pair_(pair), own_(device.endpoint()) {
  own_.queue_pair = pair->qp_num;
  own_.packet = std::random_device()() & 0xffffff;
}

QueuePair::~QueuePair() { device_.verbs().destroy_qp(pair_); }

Result<std::unique_ptr<QueuePair>> QueuePair::create(DeviceContext& device, Depth depth) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = device.completions();
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap.max_send_wr = static_cast<std::uint32_t>(depth.sends);
  wanted.cap.max_recv_wr = static_cast<std::uint32_t>(depth.receives);
  wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
  wanted.cap.max_inline_data = kMaxInlined;
  ibv_qp* const made = device.verbs().create_qp(device.domain(), &wanted);
  if (made == nullptr)
    return fail_errno(errno, "cannot create a queue pair of {} sends and {} receives on {}",
                      depth.sends, depth.receives, device.name());
  std::unique_ptr<QueuePair> pair(new QueuePair(device, made));
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = static_cast<std::uint8_t>(device.port().number);
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
                               (depth.is_read ? static_cast<unsigned>(IBV_ACCESS_REMOTE_READ) : 0u);
  RONDO_CHECK_OK(pair->change(
      attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT"));
  return pair;
}

Status QueuePair::change(ibv_qp_attr attributes, int mask, const char* what) {
  if (const int error = device_.verbs().modify_qp(pair_, &attributes, mask); error != 0)
    return fail_errno(error,
                      "{} cannot change to state {}; NCCL_IB_TIMEOUT={}, NCCL_IB_GID_INDEX={}",
                      text(), what, device_.options().timeout, device_.options().gid_index);
  return ok_status();
}

Status QueuePair::connect(const Endpoint& peer) {
  peer_ = peer;
  if (peer.ethernet != own_.ethernet)
    return fail(StatusCode::kInvalidUsage,
                "{}: one end is InfiniBand, the other RoCE; choose ports of one kind by "
                "NCCL_IB_HCA on all hosts",
                text());
  const Options& options = device_.options();
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = mtu_of(std::min(own_.mtu, peer.mtu));
  attributes.dest_qp_num = peer.queue_pair;
  attributes.rq_psn = peer.packet;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = kPauseOf640us;
  attributes.ah_attr.port_num = static_cast<std::uint8_t>(device_.port().number);
  attributes.ah_attr.sl = static_cast<std::uint8_t>(options.service_level);
  attributes.ah_attr.dlid = peer.lid;
  if (peer.ethernet) {
    attributes.ah_attr.is_global = 1;
    std::memcpy(attributes.ah_attr.grh.dgid.raw, peer.gid.data(), peer.gid.size());
    attributes.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(device_.gid_index());
    attributes.ah_attr.grh.hop_limit = 255;
    attributes.ah_attr.grh.traffic_class = static_cast<std::uint8_t>(options.traffic_class);
  }
  RONDO_CHECK_OK(change(attributes,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                            IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                        "RTR"));
  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = own_.packet;
  attributes.timeout = static_cast<std::uint8_t>(options.timeout);
  attributes.retry_cnt = static_cast<std::uint8_t>(options.retries);
  attributes.rnr_retry = kAskAgainForEver;
  attributes.max_rd_atomic = 1;
  return change(attributes,
                IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
                "RTS");
}

Status QueuePair::post(std::span<const Write> writes) {
  assert(!writes.empty() && writes.size() <= kMaxWrites);
  std::array<ibv_send_wr, kMaxWrites> requests{};
  std::array<ibv_sge, kMaxWrites> pieces{};
  for (std::size_t i = 0; i < writes.size(); ++i) {
    const Write& write = writes[i];
    assert(!write.inlined || write.from.size() <= kMaxInlined);
    pieces[i] = {reinterpret_cast<std::uintptr_t>(write.from.data()),
                 static_cast<std::uint32_t>(write.from.size()), write.local_key};
    ibv_send_wr& request = requests[i];
    request.wr_id = write.id;
    request.next = i + 1 < writes.size() ? &requests[i + 1] : nullptr;
    request.sg_list = &pieces[i];
    request.num_sge = write.from.empty() ? 0 : 1;
    request.opcode = write.rings ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
    request.send_flags = (write.inlined ? static_cast<unsigned>(IBV_SEND_INLINE) : 0u) |
                         (write.completes ? static_cast<unsigned>(IBV_SEND_SIGNALED) : 0u);
    request.imm_data = htonl(write.rings.value_or(0));
    request.wr.rdma.remote_addr = write.to;
    request.wr.rdma.rkey = write.remote_key;
  }
  ibv_send_wr* refused = nullptr;
  if (const int error = ibv_post_send(pair_, requests.data(), &refused); error != 0)
    return fail_errno(error, "{} accepts no more writes", text());
  return ok_status();
}

Status QueuePair::post_read(const Read& read) {
  ibv_sge piece{reinterpret_cast<std::uintptr_t>(read.into.data()),
                static_cast<std::uint32_t>(read.into.size()), read.local_key};
  ibv_send_wr request{}, *refused = nullptr;
  request.wr_id = read.id;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_READ;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma.remote_addr = read.from;
  request.wr.rdma.rkey = read.remote_key;
  if (const int error = ibv_post_send(pair_, &request, &refused); error != 0)
    return fail_errno(error, "{} accepts no more reads", text());
  return ok_status();
}

Status QueuePair::post_receives(int count, std::uint64_t id) {
  ibv_recv_wr request{}, *refused = nullptr;
  request.wr_id = id;
  for (int i = 0; i < count; ++i)
    if (const int error = ibv_post_recv(pair_, &request, &refused); error != 0)
      return fail_errno(error, "{} accepts no more receives", text());
  return ok_status();
}

// Ignores an error: the pair is in that state already, or the device has failed.
void QueuePair::stop() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  (void)device_.verbs().modify_qp(pair_, &attributes, IBV_QP_STATE);
}

Error QueuePair::failure_of(const ibv_wc& completion) const {
  return fail(StatusCode::kRemoteError, "{}: {} (status {}, vendor's {:#x}){}: {}", text(),
              device_.verbs().wc_status_str(completion.status), static_cast<int>(completion.status),
              completion.vendor_err, device_.port_is_down() ? ", the port is down" : "",
              remedy(completion.status));
}

std::string QueuePair::text() const {
  std::string text = fmt::format("RDMA port {} ({}), queue pair {}", device_.name(),
                                 address_text(own_), own_.queue_pair);
  if (peer_.queue_pair != 0)
    text += fmt::format(" to {}, queue pair {}", address_text(peer_), peer_.queue_pair);
  return text;
}

}  // namespace rondo::verbs
