/* engine: the process's state, calls from outside, faults, and the running of what is asked for. */
#include "engine.hpp"

#include <algorithm>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>

#include <unistd.h>

#include "standin.h"

namespace standin {

thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;
thread_local bool in_host_function = false;

void complain(const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "standin: %s\n", text);
}

double clock_s() {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

uint64_t random_next() { /* xorshift64* */
    uint64_t &x = engine().random_state;
    x ^= x >> 12, x ^= x << 25, x ^= x >> 27;
    return x * 0x2545f4914f6cdd1dull;
}

static long number_of(const char *name, long fallback) {
    const char *text = getenv(name);
    return text && *text ? strtol(text, nullptr, 10) : fallback;
}

static size_t bytes_of(const char *name, size_t fallback) {
    const char *text = getenv(name);
    if (!text || !*text) return fallback;
    char *end = nullptr;
    size_t value = strtoull(text, &end, 10);
    switch (*end) {
    case 'K': return value << 10;
    case 'M': return value << 20;
    case 'G': return value << 30;
    }
    return value;
}

static void read_order(Engine &e, const char *text) {
    if (!text || !strcmp(text, "late")) return;
    if (!strcmp(text, "eager")) {
        e.settings.order = Order::EAGER;
    } else if (!strncmp(text, "random", 6)) {
        e.settings.order = Order::RANDOM;
        e.random_state = (text[6] == ':' ? strtoull(text + 7, nullptr, 10) : 1) * 0x9e3779b97f4a7c15ull | 1;
    } else {
        complain("STANDIN_ORDER=%s is none of late, eager, random, random:SEED", text);
        abort();
    }
}

static void read_faults(Engine &e, const char *text) {
    for (std::string rest = text ? text : ""; !rest.empty();) { /* apart by semicolons: names of kernels have commas */
        size_t end = rest.find(';');
        std::string one = rest.substr(0, end);
        rest = end == std::string::npos ? "" : rest.substr(end + 1);
        size_t second = one.rfind(':'), first = second == std::string::npos || second == 0 ? std::string::npos : one.rfind(':', second - 1);
        if (first == std::string::npos) {
            complain("STANDIN_FAIL: '%s' is not NAME:NTH:CODE", one.c_str());
            abort();
        }
        e.faults.push_back({one.substr(0, first), atol(one.c_str() + first + 1), atoi(one.c_str() + second + 1)});
    }
}

/* What the running operation touched, in words; then the signal's usual end. Everything called here is safe in a handler but fprintf, and the process ends anyway. */
static void say_fault(int number, siginfo_t *info, void *) {
    const char *running = engine().running;
    fprintf(stderr, "standin: %s touched %p, where no allocation can be reached: %s\n", running ? running : "the host", info->si_addr,
            running ? "past its end, or freed" : "the device's memory is not the host's, or was freed");
    signal(number, SIG_DFL);
    raise(number);
}

static void watch_faults() {
#ifndef __SANITIZE_ADDRESS__
    struct sigaction action, old;
    sigaction(SIGSEGV, nullptr, &old);
    if (old.sa_handler != SIG_DFL) return;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = say_fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
#else
    (void)say_fault;
#endif
}

static Engine *create() {
    Engine *e = new Engine;
    Settings &s = e->settings;
    read_order(*e, getenv("STANDIN_ORDER"));
    read_faults(*e, getenv("STANDIN_FAIL"));
    s.devices = (int)number_of("STANDIN_DEVICES", 1);
    s.memory_bytes = bytes_of("STANDIN_MEMORY", s.memory_bytes);
    s.driver = (int)number_of("STANDIN_DRIVER", s.driver);
    s.nccl = (int)number_of("STANDIN_NCCL", s.nccl);
    s.polls = (int)number_of("STANDIN_POLLS", s.polls);
    s.peer = number_of("STANDIN_PEER", 1);
    s.ipc = number_of("STANDIN_IPC", 1);
    s.protect = number_of("STANDIN_PROTECT", 1);
    s.trace = number_of("STANDIN_TRACE", 0);
    if (const char *cc = getenv("STANDIN_CC")) sscanf(cc, "%d.%d", &s.major, &s.minor);
    e->pid = (int)getpid();
    for (int d = 0; d < s.devices; d++) {
        CUstream_st *legacy = new CUstream_st;
        legacy->device = d;
        legacy->legacy = true;
        e->legacy.push_back(legacy);
    }
    watch_faults();
    return e;
}

Engine &engine() {
    static Engine *the = create();
    return *the;
}

int fault(const std::string &name) {
    for (Fault &f : engine().faults)
        if (f.name == name && (++f.seen == f.nth || f.nth == 0)) return f.code;
    return 0;
}

Entry::Entry(const char *name, Kind kind) : held(engine().lock) {
    Engine &e = engine();
    injected = fault(name);
    if (injected)
        error = (cudaError_t)injected;
    else if (in_host_function)
        error = cudaErrorNotPermitted;
    else if (kind == FREE)
        error = cudaSuccess;
    else if (e.pid != (int)getpid())
        error = cudaErrorInitializationError;
    else if (e.settings.driver < CUDART_VERSION)
        error = cudaErrorInsufficientDriver;
    else if (e.settings.devices <= 0)
        error = cudaErrorNoDevice;
    else
        error = e.broken;
}

cudaError_t Entry::operator()(cudaError_t code) {
    if (code != cudaSuccess) last_error = code;
    return code;
}

void break_device(cudaError_t error, const std::string &why) {
    complain("%s", why.c_str());
    if (!engine().broken) engine().broken = error;
}

void pause_briefly(int rounds) {
    long us = 20L << (rounds < 6 ? rounds : 6);
    struct timespec time = {0, (us > 1000 ? 1000 : us) * 1000};
    engine().lock.unlock();
    nanosleep(&time, nullptr);
    engine().lock.lock();
}

void wait_until(const std::function<bool()> &ready) {
    for (int rounds = 0; !ready(); rounds++) pause_briefly(rounds);
}

/* Runs one operation whose predecessors have run. */
static bool run_op(const OpRef &op, bool *opened) {
    Engine &e = engine();
    if (op->run) {
        std::string name = op->name;
        if (e.settings.trace) fprintf(stderr, "standin: %d: device %d runs %s\n", e.pid, op->device, name.c_str());
        if (int code = fault("run:" + name)) {
            break_device((cudaError_t)code, name + " fails, as STANDIN_FAIL asks");
            return false;
        }
        if (op->opens && !*opened) open_memory(*opened = true);
        e.running = name.c_str();
        op->running = true;
        Status status = op->run();
        op->running = false;
        e.running = nullptr;
        if (status == Status::WAITING || e.broken) return false;
        e.run++;
    }
    op->time_s = clock_s();
    op->done = true;
    op->run = nullptr;
    op->after.clear();
    return true;
}

void progress(const OpRef &target) {
    if (!target || target->done || engine().broken) return;
    bool opened = false;
    std::vector<OpRef> stack{target};
    std::set<const Op *> stuck; /* they wait for another process, or for one that does */
    while (!stack.empty() && !engine().broken) {
        OpRef op = stack.back();
        bool wait = op->running || stuck.count(op.get());
        OpRef next;
        size_t count = op->after.size(), first = engine().settings.order == Order::RANDOM && count ? random_next() % count : 0;
        for (size_t i = count; i-- > 0 && !op->running;) {
            const OpRef &before = op->after[(i + first) % count];
            if (before->done) continue;
            if (stuck.count(before.get()))
                wait = true;
            else if (!next)
                next = before;
        }
        if (next && !op->done && !stuck.count(op.get())) {
            stack.push_back(next);
            continue;
        }
        if (!op->done && (wait || !run_op(op, &opened))) stuck.insert(op.get());
        stack.pop_back();
    }
    if (opened) open_memory(false);
}

cudaError_t finish(const OpRef &op) {
    for (int rounds = 0; op; rounds++) {
        progress(op);
        if (engine().broken) return engine().broken;
        if (op->done) break;
        pause_briefly(rounds);
    }
    return cudaSuccess;
}

void order_after(const OpRef &op) {
    Engine &e = engine();
    if (e.settings.order == Order::EAGER) progress(op);
    if (e.settings.order != Order::RANDOM || e.streams.empty() || random_next() % 3) return;
    auto any = e.streams.begin();
    std::advance(any, (long)(random_next() % e.streams.size()));
    progress((*any)->tail);
}

static void serve_forever() {
    for (;;) {
        {
            std::lock_guard<std::mutex> held(engine().lock);
            std::vector<Server *> servers = engine().servers;
            for (Server *server : servers) {
                auto &now = engine().servers;
                if (std::find(now.begin(), now.end(), server) != now.end()) server->serve();
            }
        }
        struct timespec time = {0, 200000};
        nanosleep(&time, nullptr);
    }
}

void serve(Server *server) {
    engine().servers.push_back(server);
    if (engine().serving) return;
    engine().serving = true;
    std::thread(serve_forever).detach();
}

void stop_serving(Server *server) {
    auto &servers = engine().servers;
    servers.erase(std::remove(servers.begin(), servers.end(), server), servers.end());
}

} // namespace standin

StandinCounts standin_counts(void) {
    std::lock_guard<std::mutex> held(standin::engine().lock);
    const standin::Engine &e = standin::engine();
    return {e.queued, e.run, e.launches, standin::live_allocations(), e.range_depth};
}
