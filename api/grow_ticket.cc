// SPDX-License-Identifier: Apache-2.0
#include "api/grow_ticket.h"

#include <cstring>
#include <optional>

#include "base/bytes.h"

namespace rondo::api {
namespace {

// The secret of a ticket. Every rank of the parent can compute it.
bootstrap::Secret secret_of_ticket(const Communicator& parent, int maker, std::uint64_t number) {
  ByteWriter context;
  context.put(maker);
  context.put(number);
  return parent.secret().derive("grow", context.take());
}

// What the ranks exchange about the ticket; it does not contain the secret.
struct TicketNote {
  enum : std::uint64_t { kNone, kMine, kStrange } has = kNone;
  std::uint64_t number = 0;
  bootstrap::UniqueId address;
};

Result<TicketNote> note_of(const Comm& parent, const ncclUniqueId* mine) {
  TicketNote note;
  if (mine == nullptr) return note;
  note.number = parent.tickets.load();
  const bootstrap::UniqueId id = from_ticket(*mine);
  RONDO_TRY(note.address, bootstrap::address_of(id));
  const auto secret = secret_of_ticket(*parent.engine(), parent.rank, note.number);
  RONDO_TRY(const bootstrap::UniqueId own, bootstrap::child_id(note.address, secret));
  note.has = std::memcmp(own.bytes, id.bytes, sizeof(id.bytes)) == 0 ? TicketNote::kMine
                                                                     : TicketNote::kStrange;
  return note;
}

}  // namespace

Result<ncclUniqueId> new_grow_ticket(Comm& parent) {
  const std::uint64_t number = parent.tickets.fetch_add(1) + 1;
  const auto secret = secret_of_ticket(*parent.engine(), parent.rank, number);
  RONDO_TRY(const bootstrap::UniqueId id, bootstrap::make_unique_id(secret));
  return to_ticket(id);
}

Result<bootstrap::UniqueId> agree_on_ticket(const Comm& parent, const ncclUniqueId* mine) {
  auto note = note_of(parent, mine);
  if (!note.ok()) note = TicketNote{TicketNote::kStrange, 0, {}};
  RONDO_TRY(const auto all,
            parent.engine()->exchange("CommGrow", std::as_bytes(std::span(&*note, 1))));
  std::optional<bootstrap::UniqueId> found;
  int maker = -1;
  for (std::size_t r = 0; r < all.size(); ++r) {
    TicketNote theirs;
    std::memcpy(&theirs, all[r].data(), sizeof(theirs));
    if (theirs.has == TicketNote::kNone) continue;
    if (maker >= 0)
      return fail(StatusCode::kInvalidUsage,
                  "CommGrow : ranks {} and {} both gave a unique id; only the rank that made it "
                  "must give it",
                  maker, r);
    maker = static_cast<int>(r);
    if (theirs.has != TicketNote::kMine)
      return fail(StatusCode::kInvalidUsage,
                  "CommGrow : rank {} gave a unique id that is not its last one of "
                  "ncclCommGetUniqueId for this communicator",
                  maker);
    const auto secret = secret_of_ticket(*parent.engine(), maker, theirs.number);
    RONDO_TRY(found, bootstrap::child_id(theirs.address, secret));
  }
  if (!found)
    return fail(StatusCode::kInvalidUsage,
                "CommGrow : no rank gave a unique id; the rank that called ncclCommGetUniqueId "
                "must give it");
  return *found;
}

}  // namespace rondo::api
