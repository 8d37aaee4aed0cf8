#include "transport/bootstrap/listener.h"

#include "transport/bootstrap/id_contents.h"

namespace rondo::bootstrap {

Result<std::shared_ptr<Listener>> Listener::open() {
  RONDO_TRY(const IdContents contents, own_contents());
  return std::shared_ptr<Listener>(new Listener(encode_id(contents)));
}

}  // namespace rondo::bootstrap
