/* engine: operations, what they wait for, and who asks for them. Shared by all files of the stand-in; what it is for is in standin.h. */
#ifndef STANDIN_ENGINE_HPP
#define STANDIN_ENGINE_HPP

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "cuda_runtime_api.h"

namespace standin {

enum class Order { LATE, EAGER, RANDOM };

struct Settings {
    Order order = Order::LATE;
    int devices = 1, driver = 13000, major = 9, minor = 0, nccl = 22809, polls = 3;
    size_t memory_bytes = (size_t)4 << 30;
    bool peer = true, ipc = true, protect = true, trace = false;
};

struct Fault {
    std::string name; /* a function, or "run:" and an operation */
    long nth;         /* 0: every time */
    int code;
    long seen = 0;
};

enum class Status { DONE, WAITING };
using Run = std::function<Status()>; /* called again while it says WAITING; the lock is held */
using Make = std::function<Run()>;   /* called when an operation is queued: once, or once for each launch of a graph */

struct Op {
    std::string name;
    int device = 0;
    Run run; /* none: a mark in a stream */
    std::vector<std::shared_ptr<Op>> after;
    bool done = false, running = false;
    bool opens = true; /* run wants the devices' memory opened; false: it opens it itself, when it does not wait */
    double time_s = 0; /* the host's clock when it had run */
};
using OpRef = std::shared_ptr<Op>;

struct Capture;

/* Operations named in faults and messages; `make` and `type` are what a captured graph keeps. */
struct Work {
    std::string name;
    cudaGraphNodeType type;
    Make make;
    const void *order = nullptr; /* works of one order run one after another, from whatever stream: a communicator */
};

struct SharedEvent; /* of an interprocess event */

struct Watched { /* a record that another process may ask for */
    SharedEvent *shared;
    uint64_t version;
    OpRef op;
};

/* Something of this process that other processes may ask for: called every now and then with the lock held. */
struct Server {
    virtual ~Server() = default;
    virtual void serve() = 0;
};

} // namespace standin

struct CUstream_st {
    int device = 0;
    unsigned flags = 0;
    int priority = 0;
    bool legacy = false;
    standin::OpRef tail; /* the last operation queued */
    std::shared_ptr<standin::Capture> capture;
    std::vector<int> frontier; /* while capturing: the nodes that the next one comes after */
};

namespace standin {

struct Engine {
    std::mutex lock;
    Settings settings;
    std::vector<Fault> faults;
    int pid = 0;
    cudaError_t broken = cudaSuccess; /* once the device has failed, every call says so */
    uint64_t random_state = 1;
    int64_t queued = 0, run = 0, launches = 0;
    int range_depth = 0;
    const char *running = nullptr; /* the name of the operation that runs now */
    std::set<CUstream_st *> streams;
    std::vector<CUstream_st *> legacy; /* the NULL stream of each device */
    std::set<CUevent_st *> events;
    std::map<const void *, std::deque<OpRef>> ordered; /* by Work.order: what has not run, and the last one */
    std::vector<Server *> servers;
    bool serving = false;
    std::set<int> peers; /* device * 1024 + peer */
};

/* The process's engine, never destroyed: threads may outlive main. */
Engine &engine();
extern thread_local int current_device;
extern thread_local cudaError_t last_error;
extern thread_local bool in_host_function;

/* One call from outside: holds the lock, and has `error` set if the call must fail at once: a fault, a broken device, no driver. `free` calls work without a device. */
class Entry {
  public:
    enum Kind { NEEDS_DEVICE, FREE };
    explicit Entry(const char *name, Kind kind = NEEDS_DEVICE);
    cudaError_t operator()(cudaError_t error); /* to return from the call: kept for cudaGetLastError */
    cudaError_t error = cudaSuccess;
    int injected = 0; /* a fault's code, of whatever library */
  private:
    std::unique_lock<std::mutex> held;
};
#define ENTER(entry, name)                                                                    \
    standin::Entry entry(name);                                                               \
    if (entry.error) return entry(entry.error)

/* Queues work on a stream and says with which error that failed: in a stream that captures it becomes a node. `stream` as the caller has it: NULL is the legacy stream. */
cudaError_t enqueue(cudaStream_t stream, Work work);
/* The stream of a handle, or null and *error. */
CUstream_st *stream_of(cudaStream_t handle, cudaError_t *error);
OpRef stream_mark(CUstream_st *stream); /* what all work queued so far is done after; null: nothing was */
OpRef op_after(CUstream_st *stream, const std::string &name, Run run, std::vector<OpRef> more); /* an operation at the stream's end */
OpRef op_create(const Work &work, int device, std::vector<OpRef> after); /* one that no stream holds yet */
void order_after(const OpRef &op); /* as STANDIN_ORDER says, runs some of what is queued */

/* Runs what can be run of what op depends on, and op. */
void progress(const OpRef &op);
/* Runs op, waiting for other processes as long as it takes; fails when the device breaks. */
cudaError_t finish(const OpRef &op);
/* Waits until ready() holds, with the lock released in between. */
void wait_until(const std::function<bool()> &ready);
void pause_briefly(int rounds); /* releases the lock for a moment */
std::vector<OpRef> device_marks(int device);

/* The device has failed: says why on standard error; all later calls return it. */
void break_device(cudaError_t error, const std::string &why);
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A fault's code for this name, or 0. */
int fault(const std::string &name);
uint64_t random_next();
double clock_s();
void serve(Server *server); /* from now on, by a thread of its own */
void stop_serving(Server *server);

/* memory.cpp */
struct Allocation {
    char *begin = nullptr; /* what the caller got */
    size_t size = 0;
    char *map = nullptr; /* pages around it */
    size_t map_bytes = 0;
    int device = 0;
    bool imported = false; /* of another process */
    int imports = 0;
    int64_t number = 0; /* counted from 1, for messages */
};
enum class Place { PAGEABLE, PINNED, DEVICE };
const Allocation *allocation_of(const void *p);
Place place_of(const void *p);
/* The bytes lie in one live allocation (or on the host). Says why not. */
bool range_valid(const char *what, const void *p, size_t bytes);
void *allocate_device(size_t bytes, int device, cudaError_t *error);
cudaError_t free_device(void *p);
void open_memory(bool open); /* around operations that run: the host's hands off at other times */
bool check_guards();         /* false: something wrote past an allocation, and the device is broken */
size_t live_allocations();
int heap_fd();
int64_t heap_offset(const void *p); /* of device memory, in heap_fd() */
char *heap_at(int64_t offset);
/* Another process's allocation, `begin` bytes after offset of its file; the same again if it is open. */
void *import_device(int pid, int fd, int64_t offset, size_t begin, size_t size, cudaError_t *error);
bool import_left(void *p); /* closes it once: whether it was opened more often than that */
void import_end(void *p);
/* ipc.cpp. Another process's file, by its number there, or -1. */
int open_foreign(int pid, int fd);
struct SharedEvent {
    uint64_t recorded, completed, demanded;
};
SharedEvent *shared_event_create(int64_t *offset);
SharedEvent *shared_event_open(int pid, int fd, int64_t offset);

/* capture.cpp */
cudaError_t capture_add(CUstream_st *stream, const Work &work);
bool capture_active(); /* some stream captures, in a mode other than relaxed: calls that may wait are refused */
void capture_spoil();  /* such a call came all the same */
bool capture_relaxed(CUstream_st *stream);

} // namespace standin

struct CUevent_st {
    unsigned flags = 0;
    int device = 0;
    bool recorded = false;
    standin::OpRef op; /* the last record; null: nothing came before it, or no record yet */
    std::shared_ptr<standin::Capture> capture;
    std::vector<int> nodes; /* if recorded while capturing */
    standin::SharedEvent *shared = nullptr;
    int64_t shared_offset = 0;
    bool imported = false;
};

#endif
