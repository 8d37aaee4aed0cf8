// SPDX-License-Identifier: Apache-2.0
// Thread: a thread of the library, and the only way in which the library starts one.
//
// Guarantees: no signal handler of the program runs in it. An exception of its body goes to
// on_error, then the thread ends normally. If the system refuses a thread, start() returns an
// error. As with std::thread, join or detach it.
//
//   RONDO_TRY(thread_, Thread::start("the watch of rank 3", [this] { serve(); },
//                                    [this](const Error& error) { abort(error); }));
#pragma once

#include <pthread.h>
#include <signal.h>

#include <cerrno>
#include <cstddef>
#include <system_error>
#include <thread>
#include <utility>

#include "base/guard.h"

namespace rondo {

class Thread {
 public:
  Thread() = default;

  // what: for error texts, and the thread's name (debuggers and `top -H` show 15 characters); must
  // live as long as the thread.
  template <class Body, class OnError>
  static Result<Thread> start(const char* what, Body body, OnError on_error) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    auto started = guarded(what, [&]() -> Result<Thread> {
      Thread made;
      try {
        made.thread_ =
            std::thread([what, body = std::move(body), on_error = std::move(on_error)]() mutable {
              show_name(what);
              const Status ended = guarded(what, [&] { return body(), ok_status(); });
              if (!ended.ok())
                (void)guarded(what, [&] { return on_error(ended.error()), ok_status(); }).ok();
            });
      } catch (const std::system_error& error) {
        return fail_errno(error.code().value(),
                          "cannot start a thread for {} (ulimit -u, a cgroup's pids.max)", what);
      }
      return made;
    });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return started;
  }

  bool joinable() const { return thread_.joinable(); }
  void join() { thread_.join(); }
  void detach() { thread_.detach(); }
  bool is_this_thread() const { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  static void show_name(const char* what) {
    char name[16] = "";
    for (std::size_t i = 0; i + 1 < sizeof(name) && what[i] != '\0'; ++i) name[i] = what[i];
    pthread_setname_np(pthread_self(), name);
  }

  std::thread thread_;
};

}  // namespace rondo
