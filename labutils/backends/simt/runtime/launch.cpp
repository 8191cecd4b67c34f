// A launch: blocks over operating-system threads, signals turned into findings, the time limit.
#include "core.h"

#include <link.h>
#include <pthread.h>
#include <ucontext.h>

#include <condition_variable>
#include <map>

namespace simt {

thread_local Worker* worker __attribute__((tls_model("initial-exec"))) = nullptr;

// ---- where the module lies

struct ModuleQuery {
  uptr address;
  Module module;
};

static int look_at_module(struct dl_phdr_info* info, size_t, void* data) {
  ModuleQuery& q = *static_cast<ModuleQuery*>(data);
  uptr low = ~uptr{0}, high = 0, code_high = 0;
  u64 shared = 0;
  bool found = false;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type == PT_TLS) shared = header.p_memsz;
    if (header.p_type != PT_LOAD) continue;
    uptr from = info->dlpi_addr + header.p_vaddr, to = from + header.p_memsz;
    low = std::min(low, from);
    high = std::max(high, to);
    if (header.p_flags & PF_X) code_high = std::max(code_high, to);
    if (q.address >= from && q.address < to) found = true;
  }
  if (!found) return 0;
  // Offsets of symbols count from the load address, which is `low` but for a linker script's sake.
  q.module = {static_cast<uptr>(info->dlpi_addr), high, code_high, info->dlpi_tls_modid, shared};
  return 1;
}

struct TlsIndex {
  size_t module, offset;
};
extern "C" void* __tls_get_addr(TlsIndex*);

// ---- signals

constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
constexpr int kAlarm = SIGUSR2;
static struct sigaction old_actions[4], old_alarm;

static uptr signal_pc(void* context) {
#if defined(__x86_64__)
  return static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
#else
  return static_cast<ucontext_t*>(context)->uc_mcontext.pc;
#endif
}

static uptr signal_sp(void* context) {
#if defined(__x86_64__)
  return static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RSP];
#else
  return static_cast<ucontext_t*>(context)->uc_mcontext.sp;
#endif
}

static bool in_module(const Worker& w, uptr pc) { return pc >= w.module_low && pc < w.module_high; }

static void on_fault(int signal, siginfo_t* info, void* context) {
  Worker* w = worker;
  if (!w || !w->current) {  // not a kernel's doing
    for (int i = 0; i < 4; i++)
      if (kFaults[i] == signal) sigaction(signal, &old_actions[i], nullptr);
    return;
  }
  uptr pc = signal_pc(context), address = reinterpret_cast<uptr>(info->si_addr);
  uptr stack = reinterpret_cast<uptr>(w->current->stack);
  bool overflow = address >= stack - kPage && address < stack;
  if (!in_module(*w, pc)) {  // in the runtime or in libm: the learner's line is the nearest caller
    uptr sp = std::max(signal_sp(context), stack), top = std::min(sp + 16 * kPage, stack + kStackBytes);
    pc = 0;
    for (; sp + 8 <= top && !pc; sp += 8) {
      uptr word = *reinterpret_cast<uptr*>(sp & ~uptr{7});
      if (in_module(*w, word)) pc = word - 1;
    }
  }
  w->pending = nullptr;
  Finding f = new_finding(*w, overflow ? Kind::stack_overflow : Kind::crash, pc ? pc + 1 : 0);
  f.fatal = true;
  f.address = address;
  f.detail = signal == SIGFPE ? "divides an integer by zero" : "touches memory that does not exist";
  report(*w, f);
  abandon(*w);
}

static void on_alarm(int, siginfo_t*, void* context) {
  Worker* w = worker;
  uptr pc = signal_pc(context);
  if (!w || !w->current || !in_module(*w, pc)) return;  // rung again soon
  w->pending = nullptr;
  out_of_time(*w, pc + 1);
}

static void install_signals() {
  struct sigaction action = {};
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  action.sa_sigaction = on_fault;
  for (int i = 0; i < 4; i++) sigaction(kFaults[i], &action, &old_actions[i]);
  action.sa_sigaction = on_alarm;
  sigaction(kAlarm, &action, &old_alarm);
}

static void restore_signals() {
  for (int i = 0; i < 4; i++) sigaction(kFaults[i], &old_actions[i], nullptr);
  sigaction(kAlarm, &old_alarm, nullptr);
}

// ---- blocks

static void poison(char* p, u64 bytes) {
  constexpr u32 pattern = 0x7fc0dead;  // a NaN that shows
  for (u64 i = 0; i + 4 <= bytes; i += 4) memcpy(p + i, &pattern, 4);
}

static void begin_block(Worker& w, Block& b, u32 number) {
  const LaunchSpec& s = *w.spec;
  b.number = number;
  u32 across = s.grid[0] / s.cluster;  // a cluster's blocks are run as one, with as many times the threads
  b.place = {number % across * s.cluster, number / across % s.grid[1], number / across / s.grid[1]};
  forget_asynchronous(w);
  b.alive = w.threads;
  b.at_barrier = b.at_grid_barrier = b.votes = 0;
  forget_copies(b);
  b.observed = 0;
  w.lane_rotation = w.warp_rotation = 0;
  if (s.seed) {
    u64 mixed = (s.seed ^ number * 0x9E3779B97F4A7C15ull) * 0xBF58476D1CE4E5B9ull;
    w.lane_rotation = mixed >> 59;
    w.warp_rotation = (mixed >> 51) & 31;
  }
  b.current_warp = w.warp_rotation % w.warps;
  for (u32 i = 0; i < w.warps; i++) {
    u32 lanes = std::min(kLanes, w.threads - i * kLanes);
    u32 mask = lanes == kLanes ? ~0u : (1u << lanes) - 1;
    b.warps[i] = {mask, mask, mask, 0, 0, 0};
  }
  poison(reinterpret_cast<char*>(w.shared_low), w.shared_size);
  poison(reinterpret_cast<char*>(w.dynamic_low), w.dynamic_size);
  if (!w.checked) return;
  forget_order(w, b);
  memset(static_cast<void*>(w.static_shadow), 0, (w.shared_size / 4 + 1) * sizeof(Cell));
  memset(static_cast<void*>(w.dynamic_shadow), 0, (w.dynamic_size / 4 + 1) * sizeof(Cell));
}

// Run until the block has finished, waits for the grid, is parked, or has made a fatal mistake.
static void continue_block(Worker& w, Block& b, bool was_parked = false) {
  w.block = &b;
  w.pending = nullptr;
  w.last_array = 0;
  b.polls = 0;
  if (was_parked) {
    forget_asynchronous(w);  // of another block: one with engines of its own is not parked
    w.epoch = b.epoch;
  } else {
    next_epoch(w);
  }
  count(w, happened_epoch);
  for (Lane& lane : w.lanes) lane.count = lane.next = 0, lane.path = 0;
  for (u32 i = 0; was_parked && i < kLanes; i++) {
    Lane& lane = w.lanes[i];
    std::copy(b.saved_events[i].begin(), b.saved_events[i].end(), lane.events);
    memcpy(lane.more, b.saved_more[i].data(), b.saved_more[i].size() * sizeof(u32));
    lane.count = b.saved_events[i].size(), lane.path = b.saved_path[i];
  }
  Fiber* f = next_thread(w);
  if (f->state == State::fresh) start(w, f);
  set_current(w, f);
  simt_switch(&w.main_stack_pointer, f->stack_pointer);
  w.current = nullptr;
}

// Blocks that are set aside keep what lies in the memory that all blocks of a worker share.
static void put_aside(Worker& w, Block& b) {
  const char* shared = reinterpret_cast<const char*>(w.shared_low);
  const char* dynamic = reinterpret_cast<const char*>(w.dynamic_low);
  b.saved_shared.assign(shared, shared + w.shared_size);
  b.saved_dynamic.assign(dynamic, dynamic + w.dynamic_size);
  b.epoch = w.epoch;
  if (!w.checked) return;
  for (u32 i = 0; i < kLanes; i++) {
    const Lane& lane = w.lanes[i];
    b.saved_events[i].assign(lane.events + lane.next, lane.events + lane.count);
    b.saved_more[i].assign(lane.more[lane.next], lane.more[lane.count]);
    b.saved_path[i] = lane.path;
  }
  b.static_shadow.assign(w.static_shadow, w.static_shadow + w.shared_size / 4 + 1);
  b.dynamic_shadow.assign(w.dynamic_shadow, w.dynamic_shadow + w.dynamic_size / 4 + 1);
}

static void take_up(Worker& w, Block& b) {
  std::copy(b.saved_shared.begin(), b.saved_shared.end(), reinterpret_cast<char*>(w.shared_low));
  std::copy(b.saved_dynamic.begin(), b.saved_dynamic.end(), reinterpret_cast<char*>(w.dynamic_low));
  if (!w.checked) return;
  std::copy(b.static_shadow.begin(), b.static_shadow.end(), w.static_shadow);
  std::copy(b.dynamic_shadow.begin(), b.dynamic_shadow.end(), w.dynamic_shadow);
}

static void run_independent(Worker& w) {
  Launch& launch = *w.launch;
  auto block = std::make_unique<Block>();
  u32 total = launch.block_list.size();
  u32 chunk = w.spec->threads == 1 ? total : std::max(1u, total / (w.spec->threads * 16));
  for (;;) {
    u32 first = launch.next_block.fetch_add(chunk);
    if (first >= total) return;
    for (u32 i = first; i < std::min(first + chunk, total); i++) {
      u32 number = launch.block_list[i];
      if (number > launch.stop_after) return;
      begin_block(w, *block, number);
      continue_block(w, *block);
      if (launch.stop_after <= number) return;
    }
  }
}

// ---- blocks in turns

using Parked = std::map<u32, std::unique_ptr<Block>>;  // by number
constexpr u32 kResidentThreads = 1 << 13;  // of blocks that may be there at the same time: each has a stack

static u64 next_random(u64& state) {  // splitmix64
  u64 z = state += 0x9E3779B97F4A7C15ull;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ z >> 27) * 0x94D049BB133111EBull;
  return z ^ z >> 31;
}

static SIMT_COLD void nobody_comes(Worker& w, Block& b, size_t waiting) {
  u32 k = 0;
  while (!b.warps[k].live) k++;
  const Fiber& f = b.fibers[k * kLanes + __builtin_ctz(b.warps[k].live)];
  w.block = &b;
  Finding found = new_finding(w, Kind::deadlock, f.pc);
  found.thread = f.linear;
  found.fatal = true;
  found.detail = std::to_string(waiting) + (waiting == 1 ? " block polls" : " blocks poll") +
                 " for what no other block does any more";
  report(w, found);
}

// Each parked block in its turn, until none is left or nothing changes any more.
static bool run_parked(Worker& w, Parked& parked) {
  constexpr u32 kIdleRounds = 4;
  for (u32 idle = 0; !parked.empty() && idle < kIdleRounds;) {
    u32 operations = w.order ? w.order->operations : 0;
    size_t waiting = parked.size();
    for (auto it = parked.begin(); it != parked.end();) {
      Block& b = *it->second;
      take_up(w, b);
      continue_block(w, b, true);
      if (w.launch->stop_after != kNone) return false;
      if (b.alive) put_aside(w, b);
      it = b.alive ? std::next(it) : parked.erase(it);
    }
    bool changed = parked.size() < waiting || operations != (w.order ? w.order->operations : 0);
    idle = changed ? 0 : idle + 1;
  }
  return true;
}

// The blocks of a checked launch. A GPU starts them about in the order of their numbers, as many as there is room for;
// among those any order may come. A block that polls is set aside, so that a wait ends because the other block runs.
static void run_in_turns(Worker& w) {
  Launch& launch = *w.launch;
  std::vector<u32>& list = launch.block_list;
  size_t room = std::max(1u, kResidentThreads / w.threads);
  u64 random = w.spec->order;
  Parked parked;
  std::unique_ptr<Block> block;
  w.may_park = list.size() > 1;
  for (size_t first = 0; first < list.size(); first += room) {
    size_t end = std::min(first + room, list.size());
    for (size_t i = end - 1; random && i > first; i--) std::swap(list[i], list[first + next_random(random) % (i - first + 1)]);
    for (size_t i = first; i < end; i++) {
      if (list[i] > launch.stop_after) continue;
      if (launch.stop_after != kNone && now() > launch.deadline) return;
      if (!block) block = std::make_unique<Block>();
      begin_block(w, *block, list[i]);
      continue_block(w, *block);
      if (launch.stop_after != kNone || !block->alive) continue;
      put_aside(w, *block);
      u32 number = block->number;
      parked[number] = std::move(block);
    }
    if (launch.stop_after == kNone && !run_parked(w, parked)) return;
    if (parked.size() >= room) break;
  }
  if (launch.stop_after == kNone && !parked.empty()) nobody_comes(w, *parked.begin()->second, parked.size());
}

// All blocks of a cooperative launch live at once; each runs to the grid barrier in turn.
static void run_cooperative(Worker& w) {
  Launch& launch = *w.launch;
  std::vector<std::unique_ptr<Block>> blocks;
  for (bool first = true;; first = false) {
    u32 waiting = 0, finished = 0;
    w.phase_epoch = w.last_epoch + 1;
    for (u32 i = 0; i < launch.block_list.size(); i++) {
      if (first) {
        blocks.push_back(std::make_unique<Block>());
        begin_block(w, *blocks[i], launch.block_list[i]);
      }
      Block& b = *blocks[i];
      if (!first && b.alive) {
        take_up(w, b);
        if (w.checked) forget_order(w, b);
        b.at_grid_barrier = 0;
        for (u32 k = 0; k < w.warps; k++) {
          b.warps[k].ready = b.warps[k].live;
          for (u32 m = b.warps[k].live; m; m &= m - 1)
            b.fibers[k * kLanes + __builtin_ctz(m)].state = State::ready;
        }
        b.current_warp = 0;
      }
      if (b.alive) {
        continue_block(w, b);
        if (launch.stop_after != kNone) return;
      }
      if (!b.alive) {
        finished++;
        continue;
      }
      waiting++;
      put_aside(w, b);
    }
    if (!waiting) return;
    if (!finished) continue;
    for (auto& b : blocks) {
      if (!b->alive) continue;
      u32 k = 0;
      while (!b->warps[k].live) k++;
      const Fiber& f = b->fibers[k * kLanes + __builtin_ctz(b->warps[k].live)];
      w.block = b.get();
      Finding found = new_finding(w, Kind::deadlock, f.pc);
      found.line = f.line;
      found.thread = f.linear;
      found.fatal = true;
      found.detail =
          std::to_string(waiting) + " blocks wait at grid.sync; " + std::to_string(finished) + " returned";
      report(w, found);
      return;
    }
  }
}

static void run_worker(Launch* launch, Worker* w) {
  const LaunchSpec& s = *launch->spec;
  w->launch = launch;
  w->spec = &s;
  w->checked = s.checked;
  w->os_thread = pthread_self();
  w->stack_size = kStackBytes + kPage;
  w->module_low = launch->module.low;
  w->module_high = launch->module.high;
  w->code_high = launch->module.code_high;
  w->grid = {s.grid[0], s.grid[1], s.grid[2]};
  w->block_size = {s.block[0], s.block[1], s.block[2]};
  w->block_threads = s.block[0] * s.block[1] * s.block[2];
  w->threads = w->block_threads * s.cluster;
  w->warps = (w->threads + kLanes - 1) / kLanes;
  w->arrays = launch->arrays.data();
  w->array_count = launch->arrays.size();
  w->shared_size = launch->module.shared_bytes;
  if (w->shared_size) {
    TlsIndex index{launch->module.tls_id, 0};
    w->shared_low = reinterpret_cast<uptr>(__tls_get_addr(&index));
  }
  size_t map_bytes = kDynamicLimit * s.cluster + 2 * kDynamicGuard;
  w->dynamic_map = static_cast<char*>(
      mmap(nullptr, map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  w->dynamic_low = reinterpret_cast<uptr>(w->dynamic_map) + kDynamicGuard;
  w->dynamic_stride = (s.shared_bytes + 1024) / 1024 * 1024;
  w->dynamic_size = s.cluster == 1 ? s.shared_bytes : s.cluster * w->dynamic_stride;
  std::vector<Event> events;
  std::vector<u32> more;
  std::vector<Cell> static_shadow, dynamic_shadow;
  if (w->checked) {
    events.resize(kLanes * kTraceLength);
    more.resize(events.size() * (sizeof(More) / sizeof(u32)));
    for (u32 i = 0; i < kLanes; i++) w->lanes[i].events = events.data() + i * kTraceLength;
    for (u32 i = 0; i < kLanes; i++) w->lanes[i].more = reinterpret_cast<More*>(more.data()) + i * kTraceLength;
    static_shadow.resize(w->shared_size / 4 + 1);
    dynamic_shadow.resize(w->dynamic_size / 4 + 1);
    w->static_shadow = static_shadow.data();
    w->dynamic_shadow = dynamic_shadow.data();
    begin_counting(*w);
  }
  w->epoch = w->last_epoch = 1;
  if (w->checked) w->owners.assign(2, kNone);

  constexpr size_t kSignalStack = 64 * 1024;
  std::unique_ptr<char[]> signal_stack(new char[kSignalStack]);
  stack_t alternative = {}, before = {};
  alternative.ss_sp = signal_stack.get();
  alternative.ss_size = kSignalStack;
  sigaltstack(&alternative, &before);
  worker = w;
  if (s.cooperative)
    run_cooperative(*w);
  else if (w->checked)
    run_in_turns(*w);
  else
    run_independent(*w);
  worker = nullptr;
  end_counting(*w);
  w->finished = true;
  sigaltstack(&before, nullptr);
  return_slabs(*w);
  munmap(w->dynamic_map, map_bytes);
}

// Rings at the time limit: a loop that calls nothing can only be stopped from outside. Fast builds have many of them,
// checked ones those of which the compiler has left nothing. There it comes later than the check at each trace's end.
struct Watchdog {
  std::mutex mutex;
  std::condition_variable done;
  bool stopped = false;
  std::thread thread;

  void start(std::vector<std::unique_ptr<Worker>>& workers, double deadline) {
    thread = std::thread([this, &workers, deadline] {
      std::unique_lock<std::mutex> lock(mutex);
      double left = deadline - now();
      while (!done.wait_for(lock, std::chrono::duration<double>(std::max(left, 0.02)),
                            [this] { return stopped; })) {
        left = 0;
        for (auto& w : workers)
          if (w->os_thread && !w->finished) pthread_kill(w->os_thread, kAlarm);
      }
    });
  }

  void stop() {
    if (!thread.joinable()) return;
    {
      std::lock_guard<std::mutex> lock(mutex);
      stopped = true;
    }
    done.notify_all();
    thread.join();
  }
};

static void prepare_arrays(Launch& launch) {
  const LaunchSpec& s = *launch.spec;
  for (u32 i = 0; i < s.array_count; i++) {
    const ArraySpec& a = s.arrays[i];
    Array array{a.address, a.elements * a.item, a.item, a.inside, nullptr};
    if (s.checked) {
      size_t bytes = (array.bytes / 4 + 2) * sizeof(Cell);
      array.shadow = static_cast<Cell*>(
          mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    }
    launch.arrays.push_back(array);
  }
}

}  // namespace simt

extern "C" const char* simt_launch(const simt::LaunchSpec* spec) {
  using namespace simt;
  static std::string result;
  Launch launch;
  launch.spec = spec;
  ModuleQuery query{reinterpret_cast<uptr>(spec->entry), {}};
  dl_iterate_phdr(look_at_module, &query);
  launch.module = query.module;
  launch.deadline = now() + spec->time_limit;
  prepare_arrays(launch);
  u32 total = spec->grid[0] * spec->grid[1] * spec->grid[2] / spec->cluster;
  if (spec->blocks)
    launch.block_list.assign(spec->blocks, spec->blocks + spec->block_count);
  else
    for (u32 i = 0; i < total; i++) launch.block_list.push_back(i);

  std::vector<std::unique_ptr<Worker>> workers;
  for (u32 i = 0; i < spec->threads; i++) workers.push_back(std::make_unique<Worker>());
  double begin = now();
  install_signals();
  Watchdog watchdog;
  workers[0]->os_thread = pthread_self();
  watchdog.start(workers, launch.deadline + (spec->checked ? 0.2 : 0.0));
  std::vector<std::thread> threads;
  for (u32 i = 1; i < spec->threads; i++) threads.emplace_back(run_worker, &launch, workers[i].get());
  run_worker(&launch, workers[0].get());
  for (auto& t : threads) t.join();
  watchdog.stop();
  restore_signals();
  double seconds = now() - begin;

  for (const Array& a : launch.arrays)
    if (a.shadow) munmap(a.shadow, (a.bytes / 4 + 2) * sizeof(Cell));
  result = write_report(launch, workers, seconds);
  return result.c_str();
}
