// The data of a launch: threads as fibers, warps, blocks, and the worker (one operating-system thread) that
// runs them.
#pragma once
#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#define SIMT_HOT __attribute__((always_inline)) inline
#define SIMT_COLD __attribute__((noinline, cold))
#define SIMT_CALLER (reinterpret_cast<simt::uptr>(__builtin_return_address(0)))
#define SIMT_FRAME (reinterpret_cast<simt::uptr>(__builtin_frame_address(0)))

namespace simt {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using uptr = uintptr_t;

constexpr u32 kLanes = 32, kMaxThreads = 1024, kMaxWarps = kMaxThreads / kLanes;
constexpr u32 kTraceLength = 1024;  // events a lane may record before its warp must be merged
constexpr size_t kPage = 4096, kStackBytes = 256 * 1024;
constexpr size_t kDynamicLimit = 232448,
                 kDynamicGuard = 64 * 1024;  // 227 KiB: the most that CUDA grants a block

struct Index3 {
  u32 x, y, z;
};

// ---- what Python hands over (mirrored field by field in launch.py)

struct ArraySpec {
  uptr address;  // of element 0 of `inside`
  u64 elements;
  u32 item, unused;
  const u8* inside;  // one byte an element, nonzero where the array has one; null: everywhere
};

struct Range {
  u64 offset, size;
};

// What the machine code of a line is seen to do: loads of shared memory of 8 bytes, of 16, and atomics for which one
// lane stands in for all.
constexpr u8 kLoads8 = 1, kLoads16 = 2, kElects = 4;

struct FormSpec {  // an instruction of the module, and the forms that its line has
  u32 pc, forms;
};

struct LaunchSpec {
  void (*entry)(void**);
  void** arguments;
  const char* argument_block;
  u64 argument_bytes;
  const ArraySpec* arrays;
  const Range* shared_variables;  // static shared arrays: offsets in the module's thread-local block
  const Range* objects;           // __constant__ variables: offsets in the module
  const u32* blocks;              // the blocks to run; null: all
  u64 shared_bytes, seed;
  double time_limit;
  u32 grid[3], block[3];
  u32 array_count, shared_variable_count, object_count, block_count;
  u32 checked, threads, cooperative, cluster;
  int32_t trace;           // where to stream requests for the counter's process; negative: count here
  u32 static_shared_bytes;  // of one block of this kernel
  u64 order;  // the order of blocks; 0: as they are numbered
  u32 film;  // is `trace` a film (film.cpp)? Then it holds notes and values, too
  u32 form_count;
  const FormSpec* forms;  // null: nobody knows the machine code
};

// ---- traces

enum Op : u8 { op_read, op_write, op_atomic, op_block, op_sync, op_copy, op_fence, op_reduction, op_land, op_arrive,
               op_make, op_use, op_note };
// op_note: number of a note of a film (film.cpp); op_copy, op_reduction: of a site only; op_make, op_use: of an mbarrier
constexpr u8 kVolatile = 1, kReturns = 2, kReadOnly = 4, kPiece = 8, kCopied = 16;  // flags of an event
constexpr u8 kOrders = 1;  // flag of a collective: it orders memory, which votes, shuffles and reductions do not
constexpr u8 kStaticShared = 254, kDynamicShared = 255;            // in place of an array's number

struct Event {
  u64 offset : 32;  // into its array; the mask of a collective
  u64 lock : 8;     // number of the lock under which this happens; 0: none
  u64 op : 4;
  u64 flags : 5;
  u64 size : 7;
  u64 array : 8;
  u32 pc;     // return address, from the start of the module
  u32 value;  // folded bits of what a store wrote: storing the same value twice is no race; of a copy's load: to where;
              // of an atomic or volatile load: the latest operation it can have seen; of a fence, of a landing, of an
              // arrival: its number
};
static_assert(sizeof(Event) == 16);

// ---- threads, warps, blocks

enum class State : u8 { fresh, ready, barrier, collective, active_mask, event, trace_full, done };

using Combine = void (*)(void** payloads, u32 mask, u32 present);

struct alignas(64) Fiber {
  void* stack_pointer;
  char* stack;
  Index3 thread;
  u32 linear;
  u16 warp;
  u8 lane;
  State state;
  u32 spins;
  u32 locks;  // number of locks held
  u8 held[4];  // their numbers
  u8 read_only;  // kReadOnly within a load of what no thread of the launch may write
  u64 atomic_result;
  u32 fence;   // number of its latest __threadfence(); 0: none yet
  uptr copying;   // to where cp.async stores what is read and stored now; 0: no copy
  uptr delayed;   // shared memory whose store is held back as a copy; 0: none
  u8 before[16];  // what lies there until it arrives
  struct {
    uptr address, pc;
  } reads[4];      // its latest plain loads
  u8 latest_read;  // the number of the last of them
  // where and for what it waits
  const char* waits_at;
  uptr pc;
  u32 line, mask;
  void* payload;
  Combine combine;
  int* barrier_result;
  u8 barrier_kind;
  uptr entry_frame;  // of the function that called the kernel: what lies above is none of the kernel's
  uptr unfenced_low, unfenced_high;  // shared memory written by plain stores since the last fence_async()
};

struct Warp {
  u32 ready, fresh, live, at_collective, at_active_mask;
  u32 meetings;  // collectives so far
};

// Happens-before inside a warp since the last barrier: seen[a][b] is how much of lane b's time lane a has
// synchronised with. Before a time reaches kLatest, all are counted anew (shadow.cpp).
constexpr u16 kLatest = 0xfff0;
struct WarpClock {
  u16 time[kLanes];
  u16 seen[kLanes][kLanes];
  bool dirty;
};

struct Cell;  // shadow of four bytes (shadow.h)

struct Copy {  // up to 16 bytes on their way to shared memory by cp.async
  uptr to, barrier;  // barrier: whose phase brings it; 0: its group's wait does
  u32 bytes, group, waits;  // waits: how often its thread had waited when it started it
  u8 data[16];
};

struct Copies {  // of one thread
  std::vector<Copy> pending;
  u32 group, waits;
};

struct Block {
  u32 number;
  Index3 place;
  u32 alive, at_barrier, at_grid_barrier, votes;
  u32 current_warp;
  u32 epoch;  // where it goes on after it was parked
  u32 polls;  // looks at what another block may change, since one of its threads changed such a thing
  u32 observed;  // the latest release that one of its threads has seen
  Warp warps[kMaxWarps];
  Fiber fibers[kMaxThreads];
  WarpClock clocks[kMaxWarps];
  // of asynchronous copies (copies.cpp): by thread; by byte of shared memory, whether one is on its way there
  std::vector<Copies> copies;
  std::vector<u8> static_arriving, dynamic_arriving;
  u32 arriving;
  // of a block that is set aside: what must be put back before it goes on
  std::vector<char> saved_shared, saved_dynamic;
  std::vector<Event> saved_events[kLanes];  // of the warp that ran: what waits for lanes that come later
  std::vector<u32> saved_more[kLanes];
  u64 saved_path[kLanes];
  std::vector<Cell> static_shadow, dynamic_shadow;
};

using More = u32[3];  // of a store of more than 4 bytes: what it wrote to the second and later 4

struct Lane {
  Event* events;
  More* more;  // by event
  u32 count, next;
  u64 path;  // hash of the places passed: equal in lanes that took the same path
};

struct Passes {  // over the 32 banks of shared memory
  u64 wavefronts, ideal;
  void operator+=(Passes other) { wavefronts += other.wavefronts, ideal += other.ideal; }
  void operator-=(Passes other) { wavefronts -= other.wavefronts, ideal -= other.ideal; }
};

constexpr u32 kWide[] = {8, 16};  // bytes of the wide loads that neighboring ones can become

// Loads of shared memory that may be one wide load: what a warp's lanes read of so many aligned bytes each.
struct Chunk {
  u8 array;
  u8 forms;  // of the lines of its loads
  u32 owner;  // number of the site of all of them; kNone: they may be of several
  u32 lanes, epoch, stores;
  u32 at[kLanes];  // by lane, where the bytes begin
  u32 bytes, covered;  // covered: a bit for each byte that has been read
  u32 count;
  struct {
    u32 site, begin;
    Passes alone, counted;  // counted: with joined loads
  } parts[kWide[1]];
};

struct Chunks {  // of a warp, the latest
  static constexpr u32 kept = 32;
  Chunk chunks[kept];
  u32 next;
};

struct Wide {
  bool joins, refused;  // refused: somewhere a chunk does not begin with its first bytes, where no code is known
  Passes passes;
};

struct Site {  // counts of one instruction
  u32 pc;
  u8 op, array, size;
  u64 requests, lanes, bytes, sectors, ideal_sectors;
  u8 forms;  // of its line
  Passes passes;
  Wide wide[2];  // the same with joined loads
  u64 issues, active, divergent;
};

struct Request {  // one instruction of a warp, for the lanes that reach it together
  u32 pc, lanes;
  u8 op, array, size, flags, warp;
  u32 offsets[kLanes];  // by lane: into the array
  u32 to[kLanes];       // by lane, of a copy's load: into shared memory
  u32 values[kLanes];   // by lane, in a film: the first four bytes that were read or written
};

// What one launch costs. It sees requests and nothing else, so that it may run in a process of its own (stream.cpp).
struct Counter {
  std::vector<uptr> arrays;  // addresses, by number
  std::vector<u32> site_of;  // by pc: number in `sites` plus one
  std::vector<Site> sites;
  std::unordered_map<u32, u8> forms;  // by pc; of sites whose line has none: no entry
  bool knows_forms = false;           // else any load may be wide, and all lanes may elect one
  std::unique_ptr<Chunks> chunks[kMaxWarps][2];  // by width; of known code all in the second
  u32 shared_stores[kMaxWarps] = {};
  u32 epoch = 0;
  u64 barriers = 0, collectives = 0, copies = 0, copied_bytes = 0, stores = 0, stored_bytes = 0, products = 0,
      square_roots = 0, drains = 0;
};

struct Stream;  // stream.cpp
struct Note;    // film.cpp

struct Array {
  uptr low;
  u64 bytes;
  u32 item;
  const u8* inside;
  Cell* shadow;
};

// ---- findings

enum class Kind : u8 {
  race,
  out_of_bounds,
  misaligned,
  uninitialized_shared,
  barrier_divergence,
  deadlock,
  shuffle_mask,
  endless_loop,
  stack_overflow,
  crash,
  assertion,
  missing_wait,
  missing_fence,
  needs_gpu,
  count
};

struct Finding {
  Kind kind;
  bool fatal;
  u8 op, size, array;
  u8 relation;  // of a race: 'r' read after write, 'w' write after write, 'o' overwrites what was read
  u8 scope;     // of a race: 'w' within a warp, 'b' within a block, 'g' between blocks
  u32 block, thread, other_thread, other_block;
  uptr pc, other_pc;  // 0: none
  u32 line;           // when it is known without a pc
  u64 offset;         // into the array
  uptr address;
  u64 count;
  std::string detail;
};
constexpr u32 kNone = 0xffffffffu;

struct Findings {
  std::mutex mutex;
  std::vector<Finding> list;
  std::unordered_map<u64, size_t> known;
};

struct Print {
  u32 block;
  std::string text;
};

// ---- the worker

struct Module {
  uptr low, high, code_high;  // its code ends before its variables, which may be large
  size_t tls_id;
  u64 shared_bytes;  // size of the thread-local segment: all static __shared__ variables
};

struct Launch {
  const LaunchSpec* spec;
  Module module;
  std::vector<Array> arrays;
  Findings findings;
  std::atomic<u32> next_block{0};
  std::atomic<u32> stop_after{0xffffffffu};  // block of the first fatal finding: later ones need not run
  std::vector<u32> block_list;
  double deadline;
};

struct Order;   // order.cpp
struct Hopper;  // hopper.cpp
struct Poisons;  // poison.cpp

struct Span {
  uptr low;
  u64 bytes;
  bool operator==(const Span&) const = default;
};

struct Worker {
  Fiber* current;
  uptr stack_low;
  size_t stack_size;  // all of memory while runtime code calls into the module: nothing is recorded then
  uptr callback_low;  // of a callback from the runtime into the module: what it may write to ends there; 0: none
  uptr shared_low;
  u64 shared_size;
  uptr dynamic_low;
  u64 dynamic_size;
  const Array* arrays;
  u32 array_count;
  u32 last_array;
  bool checked;
  uptr module_low, module_high, code_high;
  std::shared_ptr<Order> order;  // null until a thread has called __threadfence()
  std::unordered_map<uptr, u8> lock_numbers;
  std::unordered_set<u32> guesses;  // places of plain loads that a compare-and-swap has followed (order.cpp)
  std::unordered_map<u32, std::vector<Span>> landings;  // copies that arrived, until their trace is merged
  u32 landing;  // number of the latest one
  uptr shown_address;  // memory that holds an old value until the next callback
  u64 shown_value;
  u32 shown_size;
  Event shown_event;
  Span read_range, written_range;  // the latest struct that was read, and written
  Event* pending;  // a store whose value is not in memory yet
  u32* pending_more;
  uptr pending_address;
  u32 unique_value;  // for stores whose value is not followed
  u32 read_only_pc[256];  // by array: of the latest load by __ldg
  Block* block;
  Launch* launch;
  const LaunchSpec* spec;
  Index3 grid, block_size;
  u32 threads, warps;  // of a block, or of all blocks of a cluster
  u32 block_threads;
  u64 dynamic_stride;  // from one block's dynamic shared memory to the next one's
  std::shared_ptr<Hopper> hopper;
  std::shared_ptr<Poisons> poisons;  // null until a shuffle has read a lane that takes no part
  void* main_stack_pointer;
  u32 epoch, last_epoch, phase_epoch;
  u32 wakes;   // how often waits at barriers of some of a block's threads have ended
  u16* across;  // across[a * threads + b]: how much of thread b's time thread a of another warp has seen; null: nothing
  bool may_park;  // another block may run while this one polls
  Lane lanes[kLanes];
  Cell* static_shadow;
  Cell* dynamic_shadow;
  Counter counter;
  std::shared_ptr<std::vector<Note>> notes;  // of a film; null: there is none
  std::shared_ptr<Stream> stream;  // to the process that counts instead of `counter`; null: there is none
  std::vector<u32> owners;  // by epoch: the block whose it was; in checked launches
  std::vector<char*> slabs, free_stacks;
  std::vector<Print> printed;
  size_t printed_bytes;
  u64 switches;
  u64 square_roots;
  struct Taken {  // shared memory that a tma_store of this epoch reads, or the products of a warp group have read
    uptr low, high;
    u32 thread, epoch, wakes;
    bool by_products;
  };
  std::vector<Taken> taken;
  char* dynamic_map;
  pthread_t os_thread;
  std::atomic<bool> finished;
  u8 lane_rotation, warp_rotation;
};

extern thread_local Worker* worker __attribute__((tls_model("initial-exec")));

inline double now() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace simt
