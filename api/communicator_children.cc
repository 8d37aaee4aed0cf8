// SPDX-License-Identifier: Apache-2.0
// Communicators created from a parent: split, shrink, grow.
//
// The creation takes its turn in the parent's queue. Configuration and options that the caller does
// not give are inherited from the parent.
#include <algorithm>
#include <cstring>
#include <vector>

#include "api/arguments.h"
#include "api/config.h"
#include "api/errors.h"
#include "api/export.h"
#include "api/group.h"
#include "api/grow_ticket.h"

using namespace rondo;
using namespace rondo::api;

namespace {

// A parent may be revoked or failed, but must be fully created and not finalized.
Result<CommPin> find_parent(ncclComm_t comm, const char* function) {
  RONDO_TRY(CommPin pin, find_made_comm(comm, function));
  if (pin->finalized.load())
    return fail(StatusCode::kInvalidUsage, "{} : comm {} has been finalized", function,
                fmt::ptr(comm));
  return pin;
}

Result<NewComm> inherit(CommPin parent, const ncclConfig_t* config) {
  NewComm child;
  RONDO_TRY(child.config, parse_config(config, &parent->config));
  child.options = parent->engine()->options();
  child.options.name = child.config.comm_name;
  child.options.network = child.config.net_name;
  child.parent = std::move(parent);
  return child;
}

Status check_excluded(const Comm& parent, const int* ranks, int count) {
  constexpr const char* kFunction = "CommShrink";
  if (count < 0 || count >= parent.size)
    return fail(StatusCode::kInvalidArgument, "{} : cannot leave out {} of {} ranks", kFunction,
                count, parent.size);
  if (count > 0) RONDO_CHECK_OK(not_null(ranks, kFunction, "excludeRanksList"));
  for (int i = 0; i < count; ++i) {
    if (ranks[i] < 0 || ranks[i] >= parent.size)
      return fail(StatusCode::kInvalidArgument, "{} : excludeRanksList[{}] = {} is not in 0..{}",
                  kFunction, i, ranks[i], parent.size - 1);
    if (ranks[i] == parent.rank)
      return fail(StatusCode::kInvalidArgument,
                  "{} : rank {} is on its own list; only ranks that stay call this", kFunction,
                  parent.rank);
    if (std::find(ranks, ranks + i, ranks[i]) != ranks + i)
      return fail(StatusCode::kInvalidArgument, "{} : rank {} is listed twice", kFunction,
                  ranks[i]);
  }
  return ok_status();
}

Result<NewComm> describe_split(ncclComm_t comm, int color, ncclComm_t* out,
                               const ncclConfig_t* config) {
  constexpr const char* kFunction = "CommSplit";
  RONDO_TRY(CommPin parent, find_parent(comm, kFunction));
  RONDO_CHECK_OK(not_null(out, kFunction, "newcomm"));
  if (color < NCCL_SPLIT_NOCOLOR)
    return fail(StatusCode::kInvalidArgument, "{} : invalid color {}: use 0 or more, or {}",
                kFunction, color, "NCCL_SPLIT_NOCOLOR");
  RONDO_TRY(NewComm child, inherit(std::move(parent), config));
  child.member = color != NCCL_SPLIT_NOCOLOR;
  return child;
}

Result<NewComm> describe_shrink(ncclComm_t comm, const int* excluded, int count, ncclComm_t* out,
                                const ncclConfig_t* config, int flags) {
  constexpr const char* kFunction = "CommShrink";
  RONDO_TRY(CommPin parent, find_parent(comm, kFunction));
  RONDO_CHECK_OK(not_null(out, kFunction, "newcomm"));
  RONDO_CHECK_OK(check_excluded(*parent, excluded, count));
  if (flags != NCCL_SHRINK_DEFAULT && flags != NCCL_SHRINK_ABORT)
    return fail(StatusCode::kInvalidArgument, "{} : invalid flags {:#x}", kFunction, flags);
  return inherit(std::move(parent), config);
}

struct GrowArguments {
  ncclComm_t comm;
  int ranks;
  const ncclUniqueId* ticket;
  int rank;
  ncclComm_t* out;
  const ncclConfig_t* config;
};

Result<NewComm> describe_newcomer(const GrowArguments& arguments, CreateRequest* request) {
  constexpr const char* kFunction = "CommGrow";
  RONDO_CHECK_OK(not_null(arguments.ticket, kFunction, "uniqueId"));
  RONDO_CHECK_OK(rank_in_range(arguments.rank, arguments.ranks));
  NewComm member;
  RONDO_TRY(member.config, parse_config(arguments.config, nullptr));
  RONDO_TRY(member.options, make_options(member.config, nullptr));
  request->rank = arguments.rank;
  request->id = from_ticket(*arguments.ticket);
  return member;
}

Result<NewComm> describe_old_rank(const GrowArguments& arguments, CreateRequest* request) {
  constexpr const char* kFunction = "CommGrow";
  RONDO_TRY(CommPin parent, find_parent(arguments.comm, kFunction));
  if (arguments.rank != -1 && arguments.rank != parent->rank)
    return fail(StatusCode::kInvalidArgument, "{} : rank {} keeps its number; pass -1, not {}",
                kFunction, parent->rank, arguments.rank);
  if (arguments.ranks <= parent->size)
    return fail(StatusCode::kInvalidArgument,
                "{} : the new size {} is not larger than the current size {}", kFunction,
                arguments.ranks, parent->size);
  request->rank = parent->rank;
  return inherit(std::move(parent), arguments.config);
}

ncclResult_t grow(const GrowArguments& arguments) {
  if (auto checked = not_null(arguments.out, "CommGrow", "newcomm"); !checked.ok())
    return note_in_group(report(checked));
  if (auto checked = ranks_in_range(arguments.ranks); !checked.ok())
    return note_in_group(report(checked));
  CreateRequest request;
  auto member = arguments.comm == nullptr ? describe_newcomer(arguments, &request)
                                          : describe_old_rank(arguments, &request);
  if (!member.ok()) return note_in_group(report(member.error()));
  request.size = arguments.ranks;
  request.options = member->options;
  Comm* parent = member->parent.get();  // pinned while the maker runs
  const bool has_ticket = arguments.ticket != nullptr;
  const ncclUniqueId ticket = has_ticket ? *arguments.ticket : ncclUniqueId{};
  return make_comm(arguments.out, std::move(*member), [=](std::function<bool()> aborted) -> Made {
    CreateRequest own = request;
    if (parent != nullptr) {
      RONDO_TRY(own.id, agree_on_ticket(*parent, has_ticket ? &ticket : nullptr));
      parent->ticket_open.store(false);
    }
    own.aborted = std::move(aborted);
    return Communicator::create(own);
  });
}

Status new_ticket_of(ncclComm_t comm, ncclUniqueId* out) {
  constexpr const char* kFunction = "CommGetUniqueId";
  RONDO_TRY(CommPin pin, find_parent(comm, kFunction));
  RONDO_CHECK_OK(not_null(out, kFunction, "uniqueId"));
  if (pin->ticket_open.exchange(true))
    return fail(StatusCode::kInvalidUsage,
                "{} : the last unique id of this communicator has not been used by ncclCommGrow",
                kFunction);
  const auto ticket = new_grow_ticket(*pin);
  if (!ticket.ok()) {
    pin->ticket_open.store(false);
    return ticket.error();
  }
  *out = *ticket;
  return ok_status();
}

}  // namespace

RONDO_API_FUNCTION(ncclResult_t, CommSplit, ncclComm_t comm, int color, int key,
                   ncclComm_t* newcomm, ncclConfig_t* config) {
  RONDO_ENTER(CommSplit);
  auto child = describe_split(comm, color, newcomm, config);
  if (!child.ok()) return note_in_group(report(child.error()));
  Comm* parent = child->parent.get();
  const CommOptions options = child->options;
  return make_comm(newcomm, std::move(*child), [=](std::function<bool()> aborted) {
    return parent->engine()->split(color, key, options, std::move(aborted));
  });
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, CommShrink, ncclComm_t comm, int* excludeRanksList,
                   int excludeRanksCount, ncclComm_t* newcomm, ncclConfig_t* config,
                   int shrinkFlags) {
  RONDO_ENTER(CommShrink);
  auto child =
      describe_shrink(comm, excludeRanksList, excludeRanksCount, newcomm, config, shrinkFlags);
  if (!child.ok()) return note_in_group(report(child.error()));
  Comm* parent = child->parent.get();
  const CommOptions options = child->options;
  std::vector<int> excluded(excludeRanksList, excludeRanksList + excludeRanksCount);
  // Before the child takes its turn: otherwise it would wait for the calls that are to be ended.
  if (shrinkFlags == NCCL_SHRINK_ABORT && !parent->engine()->fault() && !parent->order.idle()) {
    parent->revoked.store(true);
    parent->engine()->revoke();
  }
  return make_comm(newcomm, std::move(*child), [=](std::function<bool()> aborted) {
    return parent->engine()->shrink(excluded, options, std::move(aborted));
  });
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, CommGetUniqueId, ncclComm_t comm, ncclUniqueId* uniqueId) {
  RONDO_ENTER(CommGetUniqueId);
  return report(new_ticket_of(comm, uniqueId));
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, CommGrow, ncclComm_t comm, int nRanks,
                   const ncclUniqueId* uniqueId, int rank, ncclComm_t* newcomm,
                   ncclConfig_t* config) {
  RONDO_ENTER(CommGrow);
  return grow({comm, nRanks, uniqueId, rank, newcomm, config});
}
RONDO_CATCH
