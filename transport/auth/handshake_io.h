// Moves the bytes of a handshake over a socket.
#pragma once

#include <functional>
#include <string_view>

#include "transport/auth/handshake.h"
#include "transport/socket/deadline.h"

namespace rondo::auth {

// Moves what can move now. kRemoteError: the connection ended or broke, or the handshake was
// refused; the text says why.
Status move(Handshake& handshake, int socket);

// A connector's whole handshake; `payload` is asked when the other side has proved itself.
Status complete(Handshake& handshake, int socket, const std::function<Bytes()>& payload,
                const net::Deadline& deadline, std::string_view what);

}  // namespace rondo::auth
