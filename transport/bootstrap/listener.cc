#include "transport/bootstrap/listener.h"

#include "transport/bootstrap/id_contents.h"

namespace rondo::bootstrap {

Result<std::shared_ptr<Listener>> Listener::open(std::span<const net::SocketAddress> met_at) {
  RONDO_TRY(const IdContents contents, own_contents(met_at));
  return std::shared_ptr<Listener>(new Listener(encode_id(contents)));
}

}  // namespace rondo::bootstrap
