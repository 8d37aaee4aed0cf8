/* launch_env.h: which rank a program is, and how it meets its peers, whoever launched it.
 *
 * Header only, C and C++ (gnu11 or later, Linux). Understands rondo run and torchrun (RANK,
 * WORLD_SIZE), Open MPI (OMPI_COMM_WORLD_*), MPICH (PMI_*, MPI_LOCAL*) and Slurm (SLURM_*).
 * rondo_launch_broadcast() carries a few bytes, usually an ncclUniqueId, from rank 0 to the others
 * without MPI: over an abstract Unix socket where all ranks are on this host (peers of other users
 * are refused), otherwise over TCP to MASTER_ADDR:MASTER_PORT (plain text: a trusted network).
 * Every wait is bounded. Nothing is left behind.
 *
 *   rondo_launch_t me;
 *   if (rondo_launch_read(&me) < 0) exit(1);                    // the reason was printed
 *   ncclUniqueId id;
 *   if (me.rank == 0) ncclGetUniqueId(&id);
 *   if (rondo_launch_broadcast(&me, &id, sizeof id, 60.0)) exit(1);
 *   ncclCommInitRank(&comm, me.size, id, me.rank);
 */
#ifndef RONDO_LAUNCH_ENV_H_
#define RONDO_LAUNCH_ENV_H_

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

typedef struct {
  int rank, size;             /* 0 of 1 where nobody launched this program as one of several */
  int local_rank, local_size; /* on this host; -1 where the launcher does not say */
  const char* source;         /* "RANK", "OMPI_COMM_WORLD_RANK", ...; "" where none is set */
  uint32_t rounds;            /* broadcasts so far */
} rondo_launch_t;

static inline int rondo_launch_int_(const char* name, int fallback) {
  const char* text = getenv(name);
  char* end = NULL;
  if (text == NULL || *text == '\0') return fallback;
  long value = strtol(text, &end, 10);
  return *end == '\0' && value >= 0 && value < 1 << 24 ? (int)value : fallback;
}

/* 1: launched as one of several; 0: alone; -1: the variables contradict each other (printed). */
static inline int rondo_launch_read(rondo_launch_t* me) {
  static const char* const kNames[][4] = {
      {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
       "OMPI_COMM_WORLD_LOCAL_SIZE"},
      {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
      {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"},
      {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"},
  };
  me->rank = 0, me->size = 1, me->local_rank = -1, me->local_size = -1;
  me->source = "", me->rounds = 0;
  for (size_t i = 0; i < sizeof(kNames) / sizeof(kNames[0]); ++i) {
    const char* const* names = kNames[i];
    if (getenv(names[0]) == NULL || getenv(names[1]) == NULL) continue;
    me->rank = rondo_launch_int_(names[0], -1);
    me->size = rondo_launch_int_(names[1], -1);
    me->local_rank = rondo_launch_int_(names[2], -1);
    me->local_size = rondo_launch_int_(names[3], -1);
    me->source = names[0];
    if (me->rank < 0 || me->size < 1 || me->rank >= me->size) {
      fprintf(stderr, "%s='%s' and %s='%s' are not a rank and a number of ranks above it\n",
              names[0], getenv(names[0]), names[1], getenv(names[1]));
      return -1;
    }
    return me->size > 1;
  }
  return 0;
}

static inline double rondo_launch_now_(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* 1: all ranks are on this host as far as the launcher says. */
static inline int rondo_launch_one_host(const rondo_launch_t* me) {
  if (me->local_size == me->size) return 1;
  if (me->local_size > 0) return 0;
  if (getenv("SLURM_NNODES") != NULL) return rondo_launch_int_("SLURM_NNODES", 0) == 1;
  return getenv("MASTER_ADDR") == NULL;
}

/* The name of this job: equal on its ranks, different from that of other jobs. */
static inline uint64_t rondo_launch_job(void) {
  static const char* const kNames[] = {"RONDO_JOB",
                                       "MASTER_ADDR",
                                       "MASTER_PORT",
                                       "TORCHELASTIC_RUN_ID",
                                       "PMIX_NAMESPACE",
                                       "PMI_JOBID",
                                       "PMI_FD_KVS",
                                       "TORCHELASTIC_RESTART_COUNT",
                                       "OMPI_MCA_ess_base_jobid",
                                       "SLURM_JOB_ID",
                                       "SLURM_STEP_ID"};
  uint64_t hash = 14695981039346656037u;
  int found = 0;
  char parent[24];
  for (size_t i = 0; i <= sizeof(kNames) / sizeof(kNames[0]); ++i) {
    const char* text = NULL;
    if (i < sizeof(kNames) / sizeof(kNames[0])) {
      text = getenv(kNames[i]);
      if (text == NULL) continue;
      found = 1;
    } else if (!found) {
      snprintf(parent, sizeof parent, "%d", (int)getppid());
      text = parent;
    } else {
      break;
    }
    for (; *text; ++text) hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    hash = (hash ^ 0xff) * 1099511628211u;
  }
  return hash;
}

/* Where rank 0 serves. Returns the length of the address, 0 if it is not known (printed). */
static inline socklen_t rondo_launch_address_(const rondo_launch_t* me,
                                              struct sockaddr_storage* address) {
  memset(address, 0, sizeof *address);
  if (rondo_launch_one_host(me)) {
    struct sockaddr_un* local = (struct sockaddr_un*)address;
    local->sun_family = AF_UNIX;
    int length = snprintf(local->sun_path + 1, sizeof(local->sun_path) - 1, "rondo-launch-%u-%llx",
                          (unsigned)geteuid(), (unsigned long long)rondo_launch_job());
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
  }
  const char* host = getenv("MASTER_ADDR");
  int port = rondo_launch_int_("MASTER_PORT", 0);
  if (host == NULL || port == 0) {
    fprintf(stderr,
            "ranks on several hosts need MASTER_ADDR and MASTER_PORT (a free port of rank "
            "0's host) in their environment\n");
    return 0;
  }
  /* There the launcher's own store owns the port. */
  const char* agent = getenv("TORCHELASTIC_USE_AGENT_STORE");
  if (agent != NULL && strcmp(agent, "True") == 0) port += 1;
  char service[16];
  snprintf(service, sizeof service, "%d", port);
  struct addrinfo hints, *found = NULL;
  memset(&hints, 0, sizeof hints);
  hints.ai_socktype = SOCK_STREAM;
  int error = getaddrinfo(host, service, &hints, &found);
  if (error != 0) {
    fprintf(stderr, "MASTER_ADDR='%s' cannot be resolved: %s\n", host, gai_strerror(error));
    return 0;
  }
  socklen_t length = found->ai_addrlen;
  memcpy(address, found->ai_addr, length);
  freeaddrinfo(found);
  return length;
}

static inline int rondo_launch_same_user_(int fd, int family) {
  struct {
    pid_t pid;
    uid_t uid;
    gid_t gid;
  } peer;
  socklen_t length = sizeof peer;
  if (family != AF_UNIX) return 1;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

/* Moves size bytes by the given time; 0 on success. */
static inline int rondo_launch_move_(int fd, void* bytes, size_t size, int writing, double until) {
  char* at = (char*)bytes;
  while (size > 0) {
    double left = until - rondo_launch_now_();
    struct pollfd wait = {fd, (short)(writing ? POLLOUT : POLLIN), 0};
    if (left <= 0) return -1;
    int ready = poll(&wait, 1, (int)(left * 1000) + 1);
    if (ready < 0 && errno != EINTR) return -1;
    if (ready <= 0) continue;
    ssize_t moved = writing ? send(fd, at, size, MSG_NOSIGNAL | MSG_DONTWAIT)
                            : recv(fd, at, size, MSG_DONTWAIT);
    if (moved == 0 || (moved < 0 && errno != EAGAIN && errno != EINTR)) return -1;
    if (moved > 0) at += moved, size -= (size_t)moved;
  }
  return 0;
}

/* Rank 0: a listening socket, or -1 (printed). Close it when all have been served. */
static inline int rondo_launch_listen(const rondo_launch_t* me) {
  struct sockaddr_storage address;
  socklen_t length = rondo_launch_address_(me, &address);
  if (length == 0) return -1;
  int yes = 1;
  int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && address.ss_family != AF_UNIX)
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (fd < 0 || bind(fd, (struct sockaddr*)&address, length) != 0 || listen(fd, 4096) != 0) {
    fprintf(stderr, "rank 0 cannot serve its peers (%s): %s\n",
            address.ss_family == AF_UNIX ? "abstract Unix socket" : "MASTER_ADDR:MASTER_PORT",
            strerror(errno));
    if (fd >= 0) close(fd);
    return -1;
  }
  return fd;
}

/* Rank 0: the next peer of this user, or -1 when the time is over. */
static inline int rondo_launch_accept(int listener, double until) {
  for (;;) {
    double left = until - rondo_launch_now_();
    struct pollfd wait = {listener, POLLIN, 0};
    if (left <= 0) return -1;
    if (poll(&wait, 1, (int)(left * 1000) + 1) <= 0) continue;
    struct sockaddr_storage peer;
    socklen_t length = sizeof peer;
    int fd = accept(listener, (struct sockaddr*)&peer, &length);
    if (fd >= 0 && rondo_launch_same_user_(fd, peer.ss_family)) return fd;
    if (fd >= 0) close(fd);
  }
}

/* Other ranks: a connection to rank 0, or -1 when the time is over. Retries while nobody listens.
 */
static inline int rondo_launch_dial(const rondo_launch_t* me, double until) {
  struct sockaddr_storage address;
  socklen_t length = rondo_launch_address_(me, &address);
  if (length == 0) return -1;
  do {
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    if (connect(fd, (struct sockaddr*)&address, length) == 0 &&
        rondo_launch_same_user_(fd, address.ss_family))
      return fd;
    close(fd);
    struct timespec pause = {0, 2 * 1000 * 1000};
    nanosleep(&pause, NULL);
  } while (rondo_launch_now_() < until);
  return -1;
}

/* Gives rank 0's bytes to all ranks; all call it in the same order. 0 on success, else printed. */
static inline int rondo_launch_broadcast(rondo_launch_t* me, void* bytes, size_t size,
                                         double seconds) {
  struct {
    uint64_t job;
    uint32_t rank, round;
  } hello, peer;
  const double until = rondo_launch_now_() + seconds;
  int served = 1, listener = -1;
  memset(&hello, 0, sizeof hello);
  hello.job = rondo_launch_job(), hello.rank = (uint32_t)me->rank, hello.round = ++me->rounds;
  if (me->size == 1) return 0;
  if (me->rank == 0 && (listener = rondo_launch_listen(me)) < 0) return -1;
  while (me->rank == 0 && served < me->size) {
    int fd = rondo_launch_accept(listener, until);
    if (fd < 0) break;
    /* A stranger, or a peer that is already one round ahead, is dropped; the latter comes back. */
    if (rondo_launch_move_(fd, &peer, sizeof peer, 0, rondo_launch_now_() + 2) == 0 &&
        peer.job == hello.job && peer.round == hello.round &&
        rondo_launch_move_(fd, bytes, size, 1, until) == 0)
      ++served;
    close(fd);
  }
  if (me->rank == 0) {
    close(listener);
    if (served < me->size)
      fprintf(stderr, "only %d of %d ranks came within %g s\n", served, me->size, seconds);
    return served == me->size ? 0 : -1;
  }
  while (rondo_launch_now_() < until) {
    int fd = rondo_launch_dial(me, until);
    if (fd < 0) break;
    int failed = rondo_launch_move_(fd, &hello, sizeof hello, 1, until) != 0 ||
                 rondo_launch_move_(fd, bytes, size, 0, until) != 0;
    close(fd);
    if (!failed) return 0;
  }
  fprintf(stderr, "rank %d: no word from rank 0 within %g s\n", me->rank, seconds);
  return -1;
}

#endif
