// The process that counts: it was forked before any kernel ran, reads requests from a pipe and writes totals to
// another, whose end no other process holds. It believes no record: each is checked against what its launch announced.
#include "core.h"

#include <poll.h>
#include <unistd.h>

namespace simt {

constexpr u32 kMaxModule = 16 << 20, kMaxSites = 1 << 14;

struct Malformed {
  const char* why;
};

struct Records {  // a pipe, read in large pieces until it ends, or until `stop` has no writer any more
  int fd, stop;
  std::vector<char> buffer = std::vector<char>(1 << 20);
  size_t at = 0, end = 0;

  // So many bytes; null where the stream ended before the first of them.
  SIMT_HOT const char* take(size_t bytes) {
    if (__builtin_expect(end - at < bytes, 0) && !fill(bytes)) return nullptr;
    at += bytes;
    return buffer.data() + at - bytes;
  }

  SIMT_COLD bool fill(size_t bytes) {
    memmove(buffer.data(), buffer.data() + at, end - at);
    end -= at, at = 0;
    while (end < bytes) {
      pollfd ends[] = {{fd, POLLIN, 0}, {stop, POLLIN, 0}};
      if (poll(ends, 2, -1) < 0 && errno == EINTR) continue;
      if (!ends[0].revents && ends[1].revents) throw Malformed{"it was stopped"};
      ssize_t n = read(fd, buffer.data() + end, buffer.size() - end);
      if (n > 0)
        end += n;
      else if (n == 0 || errno != EINTR) {
        if (end == 0) return false;
        throw Malformed{"it ends in the middle of a record"};
      }
    }
    return true;
  }

  template <class T>
  T next() {
    const char* p = take(sizeof(T));
    if (!p) throw Malformed{"it ends early"};
    T value;
    memcpy(&value, p, sizeof value);
    return value;
  }
};

struct CaseCounts {  // totals of the launches of a case, by kind of access
  std::vector<Site> rows;
  Counter sum;
  u64 launches = 0, shared_bytes = 0;

  void add(const Counter& c) {
    for (const Site& s : c.sites) {
      auto same = [&](const Site& row) { return row.op == s.op && is_shared(row.array) == is_shared(s.array); };
      auto row = std::find_if(rows.begin(), rows.end(), same);
      if (row == rows.end()) {
        rows.push_back(Site{});
        row = rows.end() - 1;
        row->op = s.op, row->array = s.array;
      }
      row->requests += s.requests, row->lanes += s.lanes, row->bytes += s.bytes;
      row->sectors += s.sectors, row->ideal_sectors += s.ideal_sectors;
      row->issues += s.issues, row->active += s.active, row->divergent += s.divergent;
      row->passes += passes_of(s);
    }
    sum.barriers += c.barriers, sum.collectives += c.collectives, sum.products += c.products;
    sum.drains += c.drains;
    sum.copies += c.copies, sum.copied_bytes += c.copied_bytes;
    sum.stores += c.stores, sum.stored_bytes += c.stored_bytes;
    sum.square_roots += c.square_roots;
  }

  std::string text() {
    sum.sites = rows;
    std::string out = "{";
    append_number(out, "launches", launches);
    append_number(out, "shared_bytes", shared_bytes);
    append_counts(out, sum);
    out.back() = '}';
    return out + "\n";
  }
};

struct CountedLaunch {
  Counter counter;
  std::vector<u64> array_bytes;
  u64 shared_bytes = 0;
};

static std::unique_ptr<CountedLaunch> announced(Records& records, const Record& r) {
  if (!r.pc || r.pc > kMaxModule || r.lanes > 250) throw Malformed{"a launch of impossible size"};
  auto launch = std::make_unique<CountedLaunch>();
  launch->shared_bytes = records.next<LaunchHead>().shared_bytes;
  launch->counter.site_of.assign(r.pc, 0);
  for (u32 i = 0; i < r.lanes; i++) {
    ArrayPlace place = records.next<ArrayPlace>();
    launch->counter.arrays.push_back(place.low);
    launch->array_bytes.push_back(place.bytes);
  }
  return launch;
}

static SIMT_HOT void take_request(Records& records, CountedLaunch& launch, const Record& record) {
  Counter& c = launch.counter;
  if (record.pc >= c.site_of.size() || !record.lanes || record.warp >= kMaxWarps || record.kind > op_block)
    throw Malformed{"a request that cannot be"};
  if (c.sites.size() > kMaxSites) throw Malformed{"more instructions than a kernel has"};
  Request r;
  r.pc = record.pc, r.lanes = record.lanes, r.op = record.kind, r.array = record.array, r.size = record.size;
  r.flags = record.flags, r.warp = record.warp;
  if (r.op == op_block) return count(c, r);
  bool shared = is_shared(r.array), copied = r.flags & kCopied;
  if ((!shared && r.array >= launch.array_bytes.size()) || !r.size || r.size > 16 || r.size & (r.size - 1))
    throw Malformed{"an access to an array that the launch has not"};
  u64 limit = shared ? 16 * kDynamicLimit : launch.array_bytes[r.array];
  u32 lanes = __builtin_popcount(r.lanes);
  const char* packed = records.take(lanes * (copied ? 8 : 4));
  if (!packed) throw Malformed{"it ends early"};
  for (u32 m = r.lanes; m; m &= m - 1, packed += 4) {
    u32 lane = __builtin_ctz(m);
    memcpy(&r.offsets[lane], packed, 4);
    if (u64{r.offsets[lane]} + r.size > limit) throw Malformed{"an access outside an array"};
    if (copied) memcpy(&r.to[lane], packed + 4 * lanes, 4);
  }
  count(c, r);
}

static void take_happening(CountedLaunch& launch, const Record& r) {
  auto what = static_cast<Happening>(r.kind - record_happening);
  u64 value = r.pc | u64{r.lanes} << 32;
  if (what > happened_roots || (what == happened_divergence && value >= launch.counter.site_of.size()))
    throw Malformed{"a record of no known kind"};
  count(launch.counter, what, value);
}

static bool send_line(int fd, const std::string& line) {
  for (size_t done = 0; done < line.size();) {
    ssize_t n = write(fd, line.data() + done, line.size() - done);
    if (n > 0)
      done += n;
    else if (n < 0 && errno != EINTR)
      return false;
  }
  return true;
}

// One case after another, a line each, until the stream ends between two.
static void count_cases(Records& records, int to) {
  CaseCounts counts;
  std::unique_ptr<CountedLaunch> launch;
  for (u32 number = 0;;) {
    const char* p = records.take(sizeof(Record));
    if (!p) {
      if (launch || counts.launches) throw Malformed{"it ends early"};
      return;
    }
    Record r;
    memcpy(&r, p, sizeof r);
    if (r.kind == record_case_end) {
      if (launch || r.pc != number++) throw Malformed{"a case ends where none can"};
      if (!send_line(to, counts.text())) return;
      counts = CaseCounts{};
    } else if (r.kind == record_begin) {
      if (launch) throw Malformed{"a launch begins within another"};
      launch = announced(records, r);
    } else if (!launch) {
      throw Malformed{"a record outside a launch"};
    } else if (r.kind == record_form) {
      if (launch->counter.forms.size() > kMaxSites) throw Malformed{"more instructions than a kernel has"};
      launch->counter.knows_forms = true;
      if (r.pc) launch->counter.forms[r.pc] = r.lanes;
    } else if (r.kind == record_end) {
      counts.launches++;
      counts.shared_bytes = std::max(counts.shared_bytes, launch->shared_bytes);
      counts.add(launch->counter);
      launch.reset();
    } else if (r.kind >= record_happening) {
      take_happening(*launch, r);
    } else {
      take_request(records, *launch, r);
    }
  }
}

}  // namespace simt

extern "C" void simt_count(int from, int to, int stop) {
  using namespace simt;
  Records records{from, stop};
  try {
    count_cases(records, to);
  } catch (const Malformed& m) {
    send_line(to, std::string("{\"malformed\":\"") + m.why + "\"}\n");
  } catch (const std::bad_alloc&) {
    send_line(to, "{\"malformed\":\"it needs more memory than there is\"}\n");
  }
}
