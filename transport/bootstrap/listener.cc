#include "transport/bootstrap/listener.h"

#include <cassert>

#include "transport/bootstrap/id_contents.h"

namespace rondo::bootstrap {

Result<std::shared_ptr<Listener>> Listener::open() {
  RONDO_TRY(const IdContents contents, own_contents());
  return std::shared_ptr<Listener>(new Listener(encode_id(contents)));
}

UniqueId Listener::id_for(std::span<const std::byte> context) const {
  auto id = child_id(base_, context);
  assert(id.ok() && "a listener's own id is well formed");
  return *id;
}

}  // namespace rondo::bootstrap
