// SPDX-License-Identifier: Apache-2.0
#include "bench/lane.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace rondo::bench {

Status Lane::allocate(const Options& options, std::size_t send_bytes, std::size_t recv_bytes) {
  const std::size_t more = options.unalign * 8 + Area::kGuard;
  RONDO_CHECK_OK(send_.allocate(*backend_, std::max(send_bytes, options.rotate) + more,
                                options.library_memory));
  RONDO_CHECK_OK(recv_.allocate(*backend_, std::max(recv_bytes, options.rotate) + more,
                                options.library_memory));
  return ok_status();
}

Status Lane::register_buffers(const Options& options) {
  if (options.local_register == 0) return ok_status();
  for (Area* area : {&send_, &recv_}) {
    const ncclResult_t result =
        backend_->register_buffer(area->whole(), area->whole_bytes(), options.local_register == 2);
    if (result != ncclSuccess)
      return fail(static_cast<StatusCode>(result), "registering {} bytes: {}", area->whole_bytes(),
                  backend_->last_error());
  }
  return ok_status();
}

Status Lane::begin(const Test& test, const Options& options, std::size_t bytes) {
  test_ = test;
  layout_ = layout_of({test.kind, test.type, rank_, ranks_, test.root, options.spread}, bytes);
  element_ = info(test.type).size;
  shift_ = options.unalign * element_;
  send_at_ = shift_ + (test.in_place ? layout_.in_place_send * element_ : 0);
  recv_at_ = shift_ + (test.in_place ? layout_.in_place_recv * element_ : 0);
  const std::size_t longest =
      std::max({layout_.send_count, layout_.recv_count, layout_.in_place_count, std::size_t{1}}) *
      element_;
  stride_ = (longest + 4095) / 4096 * 4096;
  turns_ = std::max<std::size_t>(1, options.rotate / stride_);
  op_ = test.op == Op::kMulSum ? ncclSum : handle(test.op);
  if (test.op == Op::kMulSum) {
    const ncclResult_t made = backend_->make_mulsum(test.type, mulsum_factor(rank_), &op_);
    if (made != ncclSuccess)
      return fail(static_cast<StatusCode>(made), "mulsum: {}", backend_->last_error());
  }
  return ok_status();
}

void Lane::end() {
  if (test_.op == Op::kMulSum) backend_->destroy_op(op_);
  test_.op = Op::kNone;
}

Call Lane::call(std::size_t turn) const {
  Area& in = const_cast<Area&>(test_.in_place ? recv_ : send_);
  Area& out = const_cast<Area&>(recv_);
  const std::size_t offset = turns_ > 1 ? turn % turns_ * stride_ : 0;
  return {test_.kind,
          &layout_,
          in.place() + send_at_ + offset,
          out.place() + recv_at_ + offset,
          test_.type,
          op_,
          test_.root};
}

void Lane::fill_in(const Recipe& recipe) {
  recipe_ = recipe;
  recipe_.ranks = ranks_;  // only those of this group
  const std::size_t used = test_.in_place ? layout_.in_place_count : layout_.recv_count;
  std::byte* out = recv_.data() + shift_;
  std::memset(out, 0x5a, used * element_);
  Area::guard(out, used * element_);
  std::byte* in = (test_.in_place ? recv_.data() : send_.data()) + send_at_;
  if (!test_.in_place) Area::guard(in, layout_.send_count * element_);
  fill(recipe_, rank_, 0, layout_.send_count, in);
}

Status Lane::prepare(const Recipe& recipe) {
  fill_in(recipe);
  return send();
}

Status Lane::prepare_timed(const Recipe& recipe) {
  fill_in(recipe);
  if (accumulates()) std::memset(recv_.data() + shift_, 0, layout_.in_place_count * element_);
  return send();
}

Status Lane::send() {
  const std::size_t used = test_.in_place ? layout_.in_place_count : layout_.recv_count;
  RONDO_CHECK_OK(recv_.send(recv_.data() + shift_, used * element_));
  if (test_.in_place) return ok_status();
  return send_.send(send_.data() + send_at_, layout_.send_count * element_);
}

Status Lane::fetch() {
  const std::size_t used = test_.in_place ? layout_.in_place_count : layout_.recv_count;
  RONDO_CHECK_OK(recv_.fetch(recv_.data() + shift_, used * element_));
  if (test_.in_place) return ok_status();
  return send_.fetch(send_.data() + send_at_, layout_.send_count * element_);
}

std::size_t Lane::wrong_zeros(std::string* example) const {
  const std::byte* bytes = const_cast<Area&>(recv_).data() + recv_at_;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < layout_.recv_count; ++i)
    wrong += std::any_of(bytes + i * element_, bytes + (i + 1) * element_,
                         [](std::byte b) { return b != std::byte{0}; });
  if (wrong > 0 && example->empty())
    *example = fmt::format("{} elements are not the zeros that timed calls leave", wrong);
  return wrong;
}

Result<std::size_t> Lane::wrong(bool timed, std::string* example) {
  RONDO_CHECK_OK(fetch());
  std::size_t wrong = 0;
  if (!test_.in_place) {
    std::string changed;
    const std::size_t inputs =
        count_wrong(recipe_, rank_, 0, layout_.send_count, send_.data() + send_at_, &changed);
    if (inputs > 0 && example->empty()) *example = "the send buffer was changed: " + changed;
    wrong += inputs;
  }
  if (timed && accumulates()) {
    wrong += wrong_zeros(example);
  } else {
    for (const Piece& piece : layout_.pieces)
      wrong += count_wrong(recipe_, piece.source, piece.source_offset, piece.count,
                           recv_.data() + recv_at_ + piece.recv_offset * element_, example);
  }
  const std::size_t used = test_.in_place ? layout_.in_place_count : layout_.recv_count;
  std::size_t damaged = Area::damaged(recv_.data() + shift_, used * element_);
  if (!test_.in_place)
    damaged += Area::damaged(send_.data() + send_at_, layout_.send_count * element_);
  if (damaged > 0 && example->empty())
    *example = fmt::format("{} bytes beyond the buffers were overwritten", damaged);
  return wrong + damaged;
}

}  // namespace rondo::bench
