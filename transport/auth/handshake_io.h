// Moves the bytes of a handshake over a socket.
#pragma once

#include <functional>
#include <string_view>

#include "transport/auth/handshake.h"
#include "transport/socket/deadline.h"

namespace rondo::auth {

// Sends and receives as far as possible now. kRemoteError: the connection ended or broke, or the
// handshake was refused; the text contains the reason.
Status move(Handshake& handshake, int socket);

// The whole handshake of a connector. Calls `payload` once the other side is proven.
Status complete(Handshake& handshake, int socket, const std::function<Bytes()>& payload,
                const net::Deadline& deadline, std::string_view what);

}  // namespace rondo::auth
