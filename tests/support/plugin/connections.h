// SPDX-License-Identifier: Apache-2.0
/* The test plugin's connections: loopback TCP sockets, which serve requests one after the other. */
#ifndef RONDO_TEST_PLUGIN_CONNECTIONS_H_
#define RONDO_TEST_PLUGIN_CONNECTIONS_H_

#include "tests/support/plugin/interface.h"

result_t start_listening(void* handle, void** listener);
result_t try_connect(void* handle, void** connection, void** offload);
result_t try_accept(void* listener, void** connection, void** offload);
result_t register_memory(void* connection, void* data, size_t bytes, int kind, void** memory);
result_t register_dmabuf(void* connection, void* data, size_t bytes, int kind, uint64_t offset,
                         int file, void** memory);
result_t deregister_memory(void* connection, void* memory);
result_t start_send(void* connection, void* data, size_t bytes, void* memory, void** request);
result_t start_receive(void* connection, int count, void** data, size_t bytes, void** memory,
                       void** request);
result_t start_flush(void* connection, int count, void** data, int* bytes, void** memory,
                     void** request);
result_t test_request(void* request, int* done, int* bytes);
result_t close_send(void* connection);
result_t close_receive(void* connection);
result_t close_listener(void* listener);

#endif
