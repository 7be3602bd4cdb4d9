/* wire_tcp: messages over sockets, one between each two ranks. A message is a head and its bytes; one that arrives before its receive has been started is kept. Whoever waits
 * polls the sockets: there is no thread. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "runtime/comm/meeting.h"

/* What stands before the bytes of a message. */
typedef struct Head {
    int32_t tag; /* TAG_END: the sender ends the job; size is the exit code */
    uint32_t magic;
    int64_t size;
} Head;
enum { TAG_END = -1 };
static const uint32_t head_magic = 0x70727569;

typedef enum { IDLE, WAITING, DONE } Stage;

struct WireMessage {
    WireMessage *next; /* in the queue of its peer */
    bool out;
    Stage stage;
    int rank;
    Head head;
    int64_t moved; /* of the head and the bytes */
    char *data;
};

/* A message that came, or is coming, before its receive was started. */
typedef struct Early {
    struct Early *next;
    Head head;
    bool whole;
    char data[];
} Early;

typedef struct Peer {
    int fd;                   /* -1: this rank, or one that has gone */
    WireMessage *out, **last; /* in the order in which they were started */
    WireMessage *in;          /* receives that wait */
    Early *early;
    Head head;        /* of the message that is coming */
    int64_t arrived;  /* of head and bytes */
    WireMessage *own; /* the receive that takes its bytes; NULL: late does */
    Early *late;
} Peer;

typedef struct TcpWire {
    Wire wire; /* first: what callers see */
    Peer *peer;
    struct pollfd *polled;
    int *rank_polled;
} TcpWire;

static void peer_gone(Peer *peer) {
    if (peer->fd >= 0) close(peer->fd);
    peer->fd = -1;
}

/* ---------------------------------------------------------------- receiving */

/* Takes the first receive that waits for the tag out of the queue. */
static WireMessage *find_waiting(Peer *peer, int tag) {
    for (WireMessage **at = &peer->in; *at; at = &(*at)->next) {
        WireMessage *message = *at;
        if (message->head.tag != tag) continue;
        *at = message->next;
        return message;
    }
    return NULL;
}

/* Finds out where the message goes that the head announces. False: the head makes no sense, so what follows would not either. */
static bool open_arriving(Peer *peer) {
    const Head *head = &peer->head;
    if (head->magic != head_magic || head->tag < 0 || head->size < 0) return false;
    peer->own = find_waiting(peer, head->tag);
    if (peer->own) return peer->own->head.size == head->size;
    peer->late = malloc(sizeof *peer->late + (size_t)head->size);
    if (!peer->late) return false;
    *peer->late = (Early){.head = *head};
    Early **last = &peer->early;
    while (*last)
        last = &(*last)->next;
    *last = peer->late;
    return true;
}

static void close_arriving(Peer *peer) {
    if (peer->own) peer->own->stage = DONE;
    if (peer->late) peer->late->whole = true;
    peer->own = NULL;
    peer->late = NULL;
    peer->arrived = 0;
}

/* Fills a receive with the first early message of its tag; leaves it waiting where that is still coming. */
static void take_early(Peer *peer, WireMessage *message) {
    for (Early **at = &peer->early; *at; at = &(*at)->next) {
        Early *early = *at;
        if (early->head.tag != message->head.tag) continue;
        if (!early->whole) return;
        if (early->head.size != message->head.size) {
            peer_gone(peer);
            return;
        }
        memcpy(message->data, early->data, (size_t)early->head.size);
        message->stage = DONE;
        *at = early->next;
        free(early);
        return;
    }
}

static void give_early(Peer *peer) {
    for (WireMessage **at = &peer->in; *at;) {
        WireMessage *message = *at;
        take_early(peer, message);
        if (message->stage == DONE)
            *at = message->next;
        else
            at = &message->next;
    }
}

static void receive_some(Peer *peer) {
    while (peer->fd >= 0) {
        const int64_t head = (int64_t)sizeof peer->head;
        if (peer->arrived >= head && peer->arrived == head + peer->head.size) {
            const bool late = peer->late != NULL;
            close_arriving(peer);
            if (late) give_early(peer);
        }
        const bool of_head = peer->arrived < head;
        char *data = peer->own ? peer->own->data : peer->late ? peer->late->data : NULL;
        char *to = of_head ? (char *)&peer->head + peer->arrived : data + (peer->arrived - head);
        const int64_t left = (of_head ? head : head + peer->head.size) - peer->arrived;
        const ssize_t got = recv(peer->fd, to, (size_t)left, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
        if (got <= 0) {
            peer_gone(peer);
            return;
        }
        peer->arrived += got;
        if (!of_head || peer->arrived < head) continue;
        if (peer->head.magic == head_magic && peer->head.tag == TAG_END) _Exit((int)peer->head.size); /* the sender has printed why */
        if (!open_arriving(peer)) peer_gone(peer);
    }
}

/* ---------------------------------------------------------------- sending */

/* Sends of the queued messages, each from `moved` on, what the socket takes. */
static void send_some(Peer *peer) {
    while (peer->fd >= 0 && peer->out) {
        WireMessage *message = peer->out;
        const int64_t head = (int64_t)sizeof message->head, whole = head + message->head.size;
        struct iovec parts[2] = {{0}, {0}};
        const int64_t at = message->moved;
        int n = 0;
        if (at < head) parts[n++] = (struct iovec){(char *)&message->head + at, (size_t)(head - at)};
        if (whole > head) {
            const int64_t from = at < head ? 0 : at - head;
            parts[n++] = (struct iovec){message->data + from, (size_t)(message->head.size - from)};
        }
        const struct msghdr all = {.msg_iov = parts, .msg_iovlen = (size_t)n};
        const ssize_t sent = sendmsg(peer->fd, &all, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
        if (sent < 0) {
            receive_some(peer); /* perhaps it says why it takes no more */
            peer_gone(peer);
            return;
        }
        message->moved += sent;
        if (message->moved < whole) continue;
        message->stage = DONE;
        peer->out = message->next;
        if (!peer->out) peer->last = &peer->out;
    }
}

/* ---------------------------------------------------------------- rows of the table */

static WireMessage *tcp_prepare(Wire *wire, bool out, int rank, int tag, void *data, int64_t bytes, Error *error) {
    WireMessage *message = malloc(sizeof *message);
    (void)wire;
    if (message)
        *message = (WireMessage){.out = out, .rank = rank, .head = {.tag = tag, .magic = head_magic, .size = bytes}, .data = data};
    else
        error_set(error, EXIT_ENVIRONMENT, "no memory for a message");
    return message;
}

static bool tcp_start(Wire *wire, WireMessage *message, Error *error) {
    Peer *peer = &((TcpWire *)wire)->peer[message->rank];
    (void)error;
    message->stage = WAITING;
    message->next = NULL;
    message->moved = 0;
    if (message->out) {
        const bool first = !peer->out;
        *peer->last = message;
        peer->last = &message->next;
        if (first) send_some(peer);
        return true;
    }
    WireMessage **last = &peer->in;
    while (*last)
        last = &(*last)->next;
    *last = message;
    give_early(peer);
    return true;
}

static void tcp_progress(Wire *wire) {
    TcpWire *own = (TcpWire *)wire;
    nfds_t n = 0;
    for (int r = 0; r < wire->nranks; r++) {
        if (own->peer[r].fd < 0) continue;
        own->rank_polled[n] = r;
        own->polled[n++] = (struct pollfd){.fd = own->peer[r].fd, .events = (short)(POLLIN | (own->peer[r].out ? POLLOUT : 0))};
    }
    if (poll(own->polled, n, 0) <= 0) return;
    for (nfds_t i = 0; i < n; i++) {
        Peer *peer = &own->peer[own->rank_polled[i]];
        if (own->polled[i].revents & POLLOUT) send_some(peer);
        if (own->polled[i].revents & (POLLIN | POLLHUP | POLLERR)) receive_some(peer);
        if (peer->fd < 0) wire->gone = own->rank_polled[i];
    }
}

static bool tcp_has_come(Wire *wire, int tag) {
    for (int r = 0; r < wire->nranks; r++)
        for (const Early *early = ((TcpWire *)wire)->peer[r].early; early; early = early->next)
            if (early->head.tag == tag) return true;
    return false;
}

static void tcp_leave(Wire *wire, int rank) {
    peer_gone(&((TcpWire *)wire)->peer[rank]);
}

static int tcp_test(Wire *wire, WireMessage *message, Error *error) {
    if (message->stage == WAITING) tcp_progress(wire);
    if (message->stage != WAITING) return 1;
    if (((TcpWire *)wire)->peer[message->rank].fd >= 0) return 0;
    wire_gone(message->rank, error);
    return -1;
}

static void unlink_message(WireMessage **line, const WireMessage *message) {
    for (; *line; line = &(*line)->next)
        if (*line == message) {
            *line = message->next;
            return;
        }
}

static void tcp_release(Wire *wire, WireMessage *message) {
    if (!message) return;
    Peer *peer = &((TcpWire *)wire)->peer[message->rank];
    if (message->stage == WAITING) { /* after a failure: nothing more is received from this peer */
        unlink_message(message->out ? &peer->out : &peer->in, message);
        peer->last = &peer->out;
        while (*peer->last)
            peer->last = &(*peer->last)->next;
        if (peer->own == message || (message->out && message->moved > 0)) peer_gone(peer);
        if (peer->own == message) peer->own = NULL;
    }
    free(message);
}

/* Tells all ranks, which would wait for this one. Closing a connection with unread data may discard what was sent last, so all that still comes is read, for a second. */
static _Noreturn void tcp_abort(Wire *wire, int code) {
    const Head end = {.tag = TAG_END, .magic = head_magic, .size = code};
    const double until = now_seconds() + 1;
    TcpWire *own = (TcpWire *)wire;
    for (int r = 0; r < wire->nranks; r++) {
        Peer *peer = &own->peer[r];
        const bool amid = peer->out && peer->out->moved > 0; /* amid another message: the closed connection tells that this rank is gone */
        if (peer->fd < 0 || (!amid && send(peer->fd, &end, sizeof end, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)) continue;
        shutdown(peer->fd, SHUT_WR);
    }
    for (bool open = true; open && now_seconds() < until;) {
        char unread[4096];
        open = false;
        for (int r = 0; r < wire->nranks; r++) {
            if (own->peer[r].fd < 0) continue;
            const ssize_t got = recv(own->peer[r].fd, unread, sizeof unread, MSG_DONTWAIT);
            if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
                peer_gone(&own->peer[r]);
            else
                open = true;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    _Exit(code);
}

static void tcp_destroy(Wire *wire) {
    TcpWire *own = (TcpWire *)wire;
    for (int r = 0; own && own->peer && r < wire->nranks; r++) {
        peer_gone(&own->peer[r]);
        for (Early *early = own->peer[r].early, *next; early; early = next) {
            next = early->next;
            free(early);
        }
    }
    if (own) {
        free(own->peer);
        free(own->polled);
        free(own->rank_polled);
    }
    free(own);
}

static const WireTable tcp_table = {
    .name = "TCP",
    .prepare = tcp_prepare,
    .start = tcp_start,
    .test = tcp_test,
    .release = tcp_release,
    .progress = tcp_progress,
    .has_come = tcp_has_come,
    .leave = tcp_leave,
    .abort = tcp_abort,
    .destroy = tcp_destroy,
};

Wire *wire_tcp_open(const Meeting *of, Error *error) {
    Meeting held = *of, *meeting = &held;
    TcpWire *own = calloc(1, sizeof *own);
    const size_t n = (size_t)meeting->nranks;
    int *sockets = malloc(n * sizeof *sockets);
    bool ok = own && sockets;
    if (ok) {
        own->wire = (Wire){.table = &tcp_table, .nranks = meeting->nranks, .rank = meeting->rank, .gone = -1};
        own->peer = calloc(n, sizeof *own->peer);
        own->polled = calloc(n, sizeof *own->polled);
        own->rank_polled = calloc(n, sizeof *own->rank_polled);
        ok = own->peer && own->polled && own->rank_polled;
    }
    if (!ok) error_set(error, EXIT_ENVIRONMENT, "no memory for %d ranks", meeting->nranks);
    for (size_t i = 0; own && own->peer && sockets && i < n; i++) {
        own->peer[i].fd = sockets[i] = -1;
        own->peer[i].last = &own->peer[i].out;
    }
    ok = ok && meeting_hold(meeting, sockets, own->wire.node, error);
    if (ok) {
        own->wire.rank = meeting->rank;
        own->wire.nranks = meeting->nranks;
    }
    for (int r = 0; ok && r < meeting->nranks; r++)
        own->peer[r].fd = sockets[r];
    free(sockets);
    if (ok) return &own->wire;
    tcp_destroy(own ? &own->wire : NULL);
    return NULL;
}
