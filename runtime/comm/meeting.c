/* meeting: how the ranks of a job without MPI find each other. Rank 0 listens at an address that all know; each other rank connects there, sends its number and the port where it
 * listens itself, and gets the addresses of the others. Then each connects to those of lower numbers. */
#include "ir/layout.h"
#include "runtime/comm/comm.h"
#include "runtime/comm/meeting.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static const double say_every_s = 10, retry_s = 0.05, hello_s = 10, unheard_s = 1;
static const double others_s =
    3; /* only the first rank of a node prints at once why it cannot meet: the others wait so long, and their launcher ends them sooner */
static const char magic[8] = "prun 4";

/* What a rank says of itself. */
typedef struct Hello {
    char magic[8];
    char job[64];
    Launcher launcher;
    int32_t rank, nranks, port;
} Hello;

/* What rank 0 answers: OK and the places, or why not. */
typedef struct Answer {
    int32_t ok, said;     /* said: rank 0 itself prints why, once for all */
    int32_t rank, nranks; /* which rank of how many the receiver is: the job may go on with fewer; -1: it is not needed */
    char why[240];
} Answer;

/* Where a rank listens. */
typedef struct Place {
    struct sockaddr_storage address; /* as rank 0 sees it; on rank 0's own machine perhaps a loopback */
    socklen_t n;
    int32_t port;
} Place;

/* ---------------------------------------------------------------- what the environment says */

static bool number_of(const char *name, long least, long most, int *value, Error *error) {
    const char *text = getenv(name);
    char *end = NULL;
    const long number = text ? strtol(text, &end, 10) : 0;
    if (!text || !*text || *end || number < least || number > most)
        return error_set(error, EXIT_USAGE, "%s=%s: a number from %ld to %ld is expected", name, text ? text : "", least, most);
    *value = (int)number;
    return true;
}

/* Reads LOCAL_RANK, or Slurm's variable for it; it stays -1 where there is none. */
static bool local_of(const char *name, Meeting *meeting, Error *error) {
    return !getenv(name) || number_of(name, 0, MAX_RANKS - 1, &meeting->local_rank, error);
}

/* The first host of a list as "node[01-04,07],other": node01. */
static void first_host(const char *list, char *host, size_t n) {
    const size_t plain = strcspn(list, ",[");
    int length = snprintf(host, n, "%.*s", (int)(plain < n ? plain : n - 1), list);
    if (list[plain] == '[' && length >= 0 && (size_t)length < n)
        snprintf(host + length, n - (size_t)length, "%.*s", (int)strspn(list + plain + 1, "0123456789"), list + plain + 1);
}

/* Whether srun has started this process: in a batch script and a shell of salloc the step number is one that srun never gives, or missing. */
static bool is_slurm_step(void) {
    const char *step = getenv("SLURM_STEP_ID");
    char *end = NULL;
    const unsigned long number = step ? strtoul(step, &end, 10) : 0;
    return step && *step && !*end && number < 0xfffffff0ul && getenv("SLURM_PROCID") && getenv("SLURM_NTASKS");
}

int meeting_slurm(bool *alone) {
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
    const bool step = is_slurm_step();
    *alone = !step && getenv("SLURM_JOB_ID");
    return step ? atoi(tasks ? tasks : getenv("SLURM_NTASKS")) : 0;
}

/* Takes rank and address from Slurm's variables; all ranks of a step compute the same port from its number. */
static bool find_slurm(Meeting *meeting, Error *error) {
    enum { FIRST_PORT = 20000, PORTS = 20000 };
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
    const char *nodes = getenv("SLURM_STEP_NODELIST"), *address = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
    int job = 0, step = 0;
    if (!number_of("SLURM_PROCID", 0, MAX_RANKS - 1, &meeting->rank, error) || !number_of(tasks, 1, MAX_RANKS, &meeting->nranks, error) ||
        !local_of("SLURM_LOCALID", meeting, error))
        return false;
    meeting->counts = tasks;
    if (!nodes) nodes = getenv("SLURM_NODELIST");
    if (!nodes && !address)
        return error_set(error, EXIT_USAGE, "Slurm does not say which nodes there are (SLURM_STEP_NODELIST); set MASTER_ADDR");
    if (address)
        snprintf(meeting->address, sizeof meeting->address, "%s", address);
    else
        first_host(nodes, meeting->address, sizeof meeting->address);
    if (port) return number_of("MASTER_PORT", 1, 65535, &meeting->port, error);
    if (!number_of("SLURM_JOB_ID", 0, INT32_MAX, &job, error)) return false;
    if (getenv("SLURM_STEP_ID")) step = atoi(getenv("SLURM_STEP_ID"));
    meeting->port = FIRST_PORT + (int)(((unsigned)job * 31u + (unsigned)step) % PORTS);
    return true;
}

bool meeting_find(Meeting *meeting, Error *error) {
    static const char *const names[] = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};
    int there = 0;
    error->text[0] = '\0';
    *meeting = (Meeting){.timeout_s = 300, .job = "", .listening = -1, .local_rank = -1, .counts = "WORLD_SIZE"};
    for (size_t i = 0; i < 4; i++)
        there += getenv(names[i]) != NULL;
    if (getenv("RANK") && there == 4) {
        snprintf(meeting->address, sizeof meeting->address, "%s", getenv("MASTER_ADDR"));
        bool ok = number_of("WORLD_SIZE", 1, MAX_RANKS, &meeting->nranks, error) &&
                  number_of("RANK", 0, meeting->nranks - 1, &meeting->rank, error) &&
                  number_of("MASTER_PORT", 1, 65535, &meeting->port, error) && local_of("LOCAL_RANK", meeting, error);
        return ok && meeting->nranks > 1;
    }
    if (!is_slurm_step()) return false;
    return find_slurm(meeting, error) && meeting->nranks > 1;
}

/* ---------------------------------------------------------------- sockets */

static void sleep_s(double seconds) {
    nanosleep(&(struct timespec){.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)}, NULL);
}

/* Sets the options that every socket here has, created or accepted; -1 stays -1. */
static int prepared(int fd) {
    const int on = 1;
    if (fd < 0) return -1;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    return fd;
}

static int socket_of(const struct sockaddr *address) {
    return prepared(socket(address->sa_family, SOCK_STREAM, 0));
}

static int connect_to(const struct sockaddr *address, socklen_t n) {
    int fd = socket_of(address);
    if (fd >= 0 && connect(fd, address, n) == 0) return fd;
    const int why = errno;
    if (fd >= 0) close(fd);
    errno = why;
    return -1;
}

/* Sends or receives all n bytes before `until`, 0: no limit; false where the other end is silent, or gone. */
static bool move_all(int fd, bool out, void *data, size_t n, double until) {
    for (size_t at = 0; at < n;) {
        const double left = until - now_seconds();
        struct pollfd one = {.fd = fd, .events = out ? POLLOUT : POLLIN};
        if (until > 0 && left <= 0) return false;
        if (poll(&one, 1, until > 0 ? (int)(left * 1e3) + 1 : -1) <= 0) continue;
        const ssize_t moved =
            out ? send(fd, (char *)data + at, n - at, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(fd, (char *)data + at, n - at, MSG_DONTWAIT);
        if (moved < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (moved <= 0) return false;
        at += (size_t)moved;
    }
    return true;
}

/* Listens on every address of this machine; port 0: at any port, which *port then tells. */
static int listen_at(int *port, int nranks) {
    struct sockaddr_in6 both = {.sin6_family = AF_INET6, .sin6_addr = in6addr_any, .sin6_port = htons((uint16_t)*port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY), .sin_port = htons((uint16_t)*port)};
    struct sockaddr_storage own;
    socklen_t n = sizeof own;
    int on = 1, off = 0, fd = socket_of((struct sockaddr *)&both);
    const bool six = fd >= 0;
    if (!six) fd = socket_of((struct sockaddr *)&four);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (six) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    bool ok = (six ? bind(fd, (struct sockaddr *)&both, sizeof both) : bind(fd, (struct sockaddr *)&four, sizeof four)) == 0 &&
              listen(fd, nranks) == 0 && getsockname(fd, (struct sockaddr *)&own, &n) == 0;
    if (ok) *port = ntohs(six ? ((struct sockaddr_in6 *)&own)->sin6_port : ((struct sockaddr_in *)&own)->sin_port);
    if (ok) return fd;
    const int why = errno;
    close(fd);
    errno = why;
    return -1;
}

int meeting_listen(int *port, int nranks, Error *error) {
    const int fd = listen_at(port, nranks);
    const char *why = fd < 0 && errno == EADDRINUSE ? "it is taken by another process" : strerror(errno);
    if (fd < 0 && *port > 0) error_set(error, EXIT_ENVIRONMENT, "port %d, where the ranks are to meet (MASTER_PORT): %s", *port, why);
    if (fd < 0 && *port == 0) error_set(error, EXIT_ENVIRONMENT, "no port where the ranks could meet: %s", why);
    return fd;
}

/* The socket of a connection that comes within wait_s; -1: none came. */
static int accept_one(int listening, double wait_s, struct sockaddr_storage *from, socklen_t *n) {
    struct pollfd one = {.fd = listening, .events = POLLIN};
    struct sockaddr_storage ignored;
    socklen_t most = sizeof ignored;
    if (poll(&one, 1, (int)(wait_s * 1e3) + 1) <= 0) return -1;
    return prepared(accept(listening, (struct sockaddr *)(from ? from : &ignored), n ? n : &most));
}

static bool is_loopback(const struct sockaddr_storage *address) {
    if (address->ss_family == AF_INET) return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
    const struct in6_addr *six = &((const struct sockaddr_in6 *)address)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127);
}

static void set_port(struct sockaddr_storage *address, int port) {
    if (address->ss_family == AF_INET)
        ((struct sockaddr_in *)address)->sin_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in6 *)address)->sin6_port = htons((uint16_t)port);
}

static Hello hello_of(const Meeting *meeting) {
    Hello hello = {.launcher = meeting->launcher, .rank = meeting->rank, .nranks = meeting->nranks};
    memcpy(hello.magic, magic, sizeof magic);
    snprintf(hello.job, sizeof hello.job, "%s", meeting->job);
    return hello;
}

/* ---------------------------------------------------------------- rank 0 */

/* "1, 3 to 5 and 9 more" */
static void put_missing(Text *text, const int *sockets, int nranks) {
    enum { SAID = 8 };
    int said = 0, more = 0;
    for (int r = 1; r < nranks; r++) {
        if (sockets[r] >= 0) continue;
        if (said++ < SAID)
            text_printf(text, "%s%d", said == 1 ? "" : ", ", r);
        else
            more++;
    }
    if (more > 0) text_printf(text, " and %d more", more);
}

/* Who has come to rank 0: of each rank its socket (-1: none), what it says, and where it listens. */
typedef struct Guests {
    int *sockets;
    Hello *hello;
    Place *places;
} Guests;

/* Forgets ranks that have ended meanwhile: they, or their nodes, may come again. */
static void drop_gone(Guests *guests, int nranks) {
    for (int r = 1; r < nranks; r++) {
        char byte;
        if (guests->sockets[r] < 0) continue;
        const ssize_t got = recv(guests->sockets[r], &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) continue;
        close(guests->sockets[r]);
        guests->sockets[r] = -1;
    }
}

static bool is_other(const Launcher *one, const Launcher *other) {
    return one->process != other->process || one->began_ns != other->began_ns || strcmp(one->host, other->host) != 0;
}

static bool refuse(const Hello *hello, const Meeting *meeting, const Guests *guests, char why[240]) {
    const bool first_node = meeting->per_node > 0 && hello->rank < meeting->per_node;
    if (strcmp(hello->job, meeting->job) != 0)
        snprintf(why, 240, "the job that meets there is called '%s', this one '%s' (--job)", meeting->job, hello->job);
    else if (first_node && is_other(&hello->launcher, &meeting->launcher))
        snprintf(why, 240, "it is of another launch (is this the port of another job?)");
    else if (hello->nranks != meeting->nranks)
        snprintf(why, 240, "its job has another number of ranks (is this the port of another job?)");
    else if (hello->rank < 1 || hello->rank >= meeting->nranks)
        snprintf(why, 240, "there is no such rank in this job");
    else if (guests->sockets[hello->rank] >= 0)
        snprintf(why, 240, "that rank has come already (is this the port of another job?)");
    else
        return false;
    return true;
}

/* Two launchers of one node belong to two launches, and nobody knows which is this job's. Returns the first rank of the node that came from another launcher; 0: there is none. */
static int find_rival(const Hello *hello, const Meeting *meeting, const Guests *guests) {
    if (meeting->per_node == 0 || hello->rank < meeting->per_node || hello->rank >= meeting->nranks) return 0;
    const int first = hello->rank / meeting->per_node * meeting->per_node;
    for (int r = first; r < first + meeting->per_node; r++)
        if (guests->sockets[r] >= 0 && is_other(&guests->hello[r].launcher, &hello->launcher)) return r;
    return 0;
}

/* Handles a new connection, of the job's ranks or of somebody else. False and *error: two launches cannot be told apart. */
static bool welcome(int fd, const struct sockaddr_storage *from, socklen_t n, const Meeting *meeting, Guests *guests, Error *error) {
    Hello hello;
    Answer answer = {.ok = 0};
    if (!move_all(fd, false, &hello, sizeof hello, now_seconds() + hello_s) || memcmp(hello.magic, magic, sizeof magic) != 0) {
        close(fd);
        return true;
    }
    hello.job[sizeof hello.job - 1] = hello.launcher.host[sizeof hello.launcher.host - 1] = '\0';
    const bool same = strcmp(hello.job, meeting->job) == 0 && hello.nranks == meeting->nranks;
    const int rival = same ? find_rival(&hello, meeting, guests) : 0;
    if (rival == 0 && !refuse(&hello, meeting, guests, answer.why)) {
        guests->sockets[hello.rank] = fd;
        guests->hello[hello.rank] = hello;
        guests->places[hello.rank] = (Place){.address = *from, .n = n, .port = hello.port};
        return true;
    }
    if (rival > 0) {
        const Launcher *one = &guests->hello[rival].launcher, *other = &hello.launcher;
        error_set(error, EXIT_ENVIRONMENT,
                  "two launches meet at %s:%d: node %d comes from prun %lld on %s and from prun %lld on %s: give each launch a port of its "
                  "own, or a name (--job)",
                  meeting->address, meeting->port, hello.rank / meeting->per_node, (long long)one->process, one->host,
                  (long long)other->process, other->host);
        comm_say(error);
    }
    answer.said = rival > 0;
    move_all(fd, true, &answer, sizeof answer, now_seconds() + hello_s);
    close(fd);
    return rival == 0;
}

/* With how many ranks the job goes on when only `there` of them have come; 0: it does not. */
static int enough(const Meeting *meeting, int there) {
    for (int i = 0; i < meeting->nfewer; i++)
        if (meeting->fewer[i] <= there) return meeting->fewer[i];
    return 0;
}

/* Appends what is wrong with the address where the ranks are to meet, seen from this host, which listens at all of its own: nothing, or "; .." */
static void put_wrong_address(Text *text, const Meeting *meeting) {
    const struct addrinfo want = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    bool own = false;
    const int failure = getaddrinfo(meeting->address, NULL, &want, &found);
    for (const struct addrinfo *at = failure ? NULL : found; at && !own; at = at->ai_next) {
        const int fd = socket(at->ai_family, SOCK_STREAM, 0);
        own = fd >= 0 && bind(fd, at->ai_addr, at->ai_addrlen) == 0; /* at any port */
        if (fd >= 0) close(fd);
    }
    if (found) freeaddrinfo(found);
    if (failure)
        text_printf(text, "; this host does not know %s (%s): is it misspelt?", meeting->address, gai_strerror(failure));
    else if (!own)
        text_printf(text, "; %s is no address of this host, where rank 0 is: is it misspelt?", meeting->address);
}

/* *going: with how many ranks the job goes on. */
static bool wait_for_all(int listening, const Meeting *meeting, Guests *guests, int *going, Error *error) {
    const double begin = now_seconds();
    double said = begin;
    *going = meeting->nranks;
    for (int there = 1; there < meeting->nranks;) {
        struct sockaddr_storage from;
        socklen_t n = sizeof from;
        Text missing = {0};
        const int fd = accept_one(listening, 0.5, &from, &n);
        const double now = now_seconds();
        drop_gone(guests, meeting->nranks);
        if (fd >= 0 && !welcome(fd, &from, n, meeting, guests, error)) return false;
        there = 1;
        for (int r = 1; r < meeting->nranks; r++)
            there += guests->sockets[r] >= 0;
        if (there == meeting->nranks) break;
        put_missing(&missing, guests->sockets, meeting->nranks);
        const bool late = meeting->timeout_s > 0 && now - begin > meeting->timeout_s;
        if (late || now - said > say_every_s) put_wrong_address(&missing, meeting);
        if (late) {
            *going = enough(meeting, there);
            error_set(error, EXIT_ENVIRONMENT, "of %d ranks %d did not come to %s:%d within %g s (--start-timeout): %s", meeting->nranks,
                      meeting->nranks - there, meeting->address, meeting->port, meeting->timeout_s, missing.at);
            if (*going > 0) fprintf(stderr, "prun: note: %s: going on with %d rank%s\n", error->text, *going, *going == 1 ? "" : "s");
        } else if (now - said > say_every_s) {
            fprintf(stderr, "prun: note: waiting at %s:%d for %d of %d ranks: %s\n", meeting->address, meeting->port,
                    meeting->nranks - there, meeting->nranks, missing.at);
            said = now;
        }
        text_finish(&missing);
        if (late) return *going > 0;
    }
    return true;
}

static bool answer_one(int fd, const Answer *answer, const Place *places) {
    const double until = now_seconds() + hello_s;
    Answer copy = *answer;
    return move_all(fd, true, &copy, sizeof copy, until) &&
           (!answer->ok || answer->rank < 0 || move_all(fd, true, (void *)places, (size_t)answer->nranks * sizeof *places, until));
}

/* The ranks that have come become ranks 0 to nranks - 1 in their order and are told so; those left over are told that they are not needed. */
static bool number_anew(int *sockets, Place *places, int there, int nranks, Error *error) {
    bool ok = true;
    int n = 1;
    for (int r = 1; r < there; r++) {
        const int fd = sockets[r];
        if (fd < 0) continue;
        sockets[r] = -1;
        if (n < nranks) {
            places[n] = places[r];
            sockets[n++] = fd;
            continue;
        }
        answer_one(fd, &(Answer){.ok = 1, .rank = -1}, NULL);
        close(fd);
    }
    for (int r = 1; r < nranks; r++)
        if (!answer_one(sockets[r], &(Answer){.ok = 1, .rank = r, .nranks = nranks}, places) && ok)
            ok = error_set(error, EXIT_ENVIRONMENT, "rank %d has gone before the job began", r);
    return ok;
}

/* Answers those that have connected and were not heard yet: they would take a closed socket for a rank 0 that has ended. */
static void answer_unheard(int listening, const Answer *answer) {
    Hello hello;
    for (int fd; (fd = accept_one(listening, 0, NULL, NULL)) >= 0; close(fd))
        if (move_all(fd, false, &hello, sizeof hello, now_seconds() + unheard_s)) answer_one(fd, answer, NULL);
}

static bool host_meeting(Meeting *meeting, int *sockets, Error *error) {
    const size_t n = (size_t)meeting->nranks;
    int port = meeting->port, going = 0;
    const int listening = meeting->listening >= 0 ? meeting->listening : meeting_listen(&port, meeting->nranks, error);
    if (listening < 0) return false;
    Guests guests = {sockets, calloc(n, sizeof *guests.hello), calloc(n, sizeof *guests.places)};
    bool ok = (guests.hello && guests.places) || error_set(error, EXIT_ENVIRONMENT, "no memory for %d ranks", meeting->nranks);
    ok = ok && wait_for_all(listening, meeting, &guests, &going, error);
    if (!ok) comm_say(error); /* at once: when another rank of the node hears of it and ends, the launcher ends this one */
    for (int r = 1; r < meeting->nranks && !ok; r++)
        if (sockets[r] >= 0) answer_one(sockets[r], &(Answer){.said = 1}, NULL);
    if (!ok) answer_unheard(listening, &(Answer){.said = 1});
    close(listening);
    ok = ok && number_anew(sockets, guests.places, meeting->nranks, going, error);
    if (ok) meeting->nranks = going;
    free(guests.hello);
    free(guests.places);
    return ok;
}

/* ---------------------------------------------------------------- the others */

/* Connects to rank 0, trying until it listens; *first: its address. */
static int reach_first(const Meeting *meeting, Place *first, double until, Error *error) {
    const struct addrinfo want = {.ai_socktype = SOCK_STREAM};
    char port[16];
    int failure = 0, why = 0;
    snprintf(port, sizeof port, "%d", meeting->port);
    do {
        struct addrinfo *found = NULL;
        failure = getaddrinfo(meeting->address, port, &want, &found);
        for (const struct addrinfo *at = failure ? NULL : found; at; at = at->ai_next) {
            const int fd = connect_to(at->ai_addr, at->ai_addrlen);
            why = errno;
            if (fd < 0) continue;
            memcpy(&first->address, at->ai_addr, at->ai_addrlen);
            first->n = at->ai_addrlen;
            freeaddrinfo(found);
            return fd;
        }
        if (found) freeaddrinfo(found);
        sleep_s(retry_s);
    } while (until == 0 || now_seconds() < until);
    error_set(error, EXIT_ENVIRONMENT, "rank %d cannot reach rank 0 at %s:%d within %g s (--start-timeout): %s", meeting->rank,
              meeting->address, meeting->port, meeting->timeout_s, failure ? gai_strerror(failure) : strerror(why));
    return -1;
}

/* Connects to a lower rank, which listens since before it came to rank 0. Rank 0 may know one on its own machine by a loopback, which means another machine here. */
static int reach(const Place *place, const Place *first) {
    Place at = is_loopback(&place->address) ? *first : *place;
    set_port(&at.address, place->port);
    return connect_to((struct sockaddr *)&at.address, at.n);
}

static bool join_lower(const Meeting *meeting, const Place *places, const Place *first, int *sockets, Error *error) {
    for (int r = 1; r < meeting->rank; r++) {
        Hello hello = hello_of(meeting);
        sockets[r] = reach(&places[r], first);
        if (sockets[r] < 0 || !move_all(sockets[r], true, &hello, sizeof hello, now_seconds() + hello_s))
            return error_set(error, EXIT_ENVIRONMENT, "rank %d cannot reach rank %d: %s", meeting->rank, r, strerror(errno));
    }
    return true;
}

static bool await_higher(const Meeting *meeting, int listening, int *sockets, Error *error) {
    const double until = now_seconds() + (meeting->timeout_s > 0 ? meeting->timeout_s : 1e9);
    for (int missing = meeting->nranks - 1 - meeting->rank; missing > 0;) {
        Hello hello;
        const int fd = accept_one(listening, 0.5, NULL, NULL);
        const bool heard = fd >= 0 && move_all(fd, false, &hello, sizeof hello, now_seconds() + hello_s);
        if (heard && memcmp(hello.magic, magic, sizeof magic) == 0 && hello.nranks == meeting->nranks && hello.rank > meeting->rank &&
            hello.rank < meeting->nranks && sockets[hello.rank] < 0) {
            sockets[hello.rank] = fd;
            missing--;
        } else if (fd >= 0)
            close(fd);
        if (missing > 0 && now_seconds() > until)
            return error_set(error, EXIT_ENVIRONMENT, "rank %d: %d of the ranks behind it did not connect with it", meeting->rank, missing);
    }
    return true;
}

static bool attend_meeting(Meeting *meeting, int *sockets, Error *error) {
    Hello hello = hello_of(meeting);
    Answer answer;
    Place first = {0};
    int port = 0;
    const double until = meeting->timeout_s > 0 ? now_seconds() + meeting->timeout_s : 0;
    const int listening = listen_at(&port, meeting->nranks);
    if (listening < 0) return error_set(error, EXIT_ENVIRONMENT, "no port to listen at: %s", strerror(errno));
    hello.port = port;
    Place *places = calloc((size_t)meeting->nranks, sizeof *places);
    bool ok = places || error_set(error, EXIT_ENVIRONMENT, "no memory for %d ranks", meeting->nranks);
    ok = ok && (sockets[0] = reach_first(meeting, &first, until, error)) >= 0;
    /* Rank 0 may still wait for others: its answer may come a little after its own time is over. */
    if (ok && (!move_all(sockets[0], true, &hello, sizeof hello, until) ||
               !move_all(sockets[0], false, &answer, sizeof answer, until > 0 ? until + hello_s : 0))) {
        if (meeting->per_node > 0) sleep_s(others_s); /* rank 0 may have told another rank of this node why */
        ok = error_set(error, EXIT_ENVIRONMENT, "rank %d: rank 0 at %s:%d has ended, or is no prun", meeting->rank, meeting->address,
                       meeting->port);
    }
    if (ok && !answer.ok) {
        answer.why[sizeof answer.why - 1] = '\0';
        ok = answer.said ? error_reported(error, EXIT_ENVIRONMENT)
                         : error_set(error, EXIT_ENVIRONMENT, "rank %d is refused at %s:%d: %s", meeting->rank, meeting->address,
                                     meeting->port, answer.why);
    }
    if (ok && answer.rank < 0) {
        fprintf(stderr, "prun: note: rank %d is not needed: the job goes on with fewer\n", meeting->rank);
        ok = error_reported(error, EXIT_DONE);
    }
    if (ok && (answer.nranks < 1 || answer.nranks > meeting->nranks || answer.rank >= answer.nranks))
        ok = error_set(error, EXIT_ENVIRONMENT, "rank %d: what rank 0 at %s:%d says makes no sense", meeting->rank, meeting->address,
                       meeting->port);
    if (ok) {
        meeting->rank = answer.rank;
        meeting->nranks = answer.nranks;
    }
    if (ok && !move_all(sockets[0], false, places, (size_t)meeting->nranks * sizeof *places, now_seconds() + hello_s))
        ok = error_set(error, EXIT_ENVIRONMENT, "rank %d: rank 0 has ended", meeting->rank);
    ok = ok && join_lower(meeting, places, &first, sockets, error) && await_higher(meeting, listening, sockets, error);
    close(listening);
    free(places);
    return ok;
}

/* ---------------------------------------------------------------- all */

bool meeting_hold(Meeting *meeting, int *sockets, char node[256], Error *error) {
    gethostname(node, 255);
    node[255] = '\0';
    const bool first = meeting->per_node == 0 || meeting->rank % meeting->per_node == 0;
    if (meeting->rank == 0) return host_meeting(meeting, sockets, error);
    if (attend_meeting(meeting, sockets, error)) return true;
    if (!first && !error->reported) sleep_s(others_s);
    return false;
}
