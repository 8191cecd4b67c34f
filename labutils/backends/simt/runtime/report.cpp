// The result of a launch as JSON.
#include "core.h"

namespace simt {

static void append_string(std::string& out, const std::string& text) {
  out += '"';
  for (unsigned char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c < 0x20) {
      char escaped[8];
      snprintf(escaped, sizeof escaped, "\\u%04x", c);
      out += escaped;
    } else {
      out += c;
    }
  }
  out += '"';
}

static void append_number(std::string& out, const char* name, u64 value) {
  out += '"';
  out += name;
  out += "\":";
  out += std::to_string(value);
  out += ',';
}

static void append_finding(std::string& out, const Finding& f, uptr base) {
  static const char* const kinds[] = {
      "race",     "out-of-bounds", "misaligned",   "uninitialized-shared", "barrier-divergence",
      "deadlock", "shuffle-mask",  "endless-loop", "stack-overflow",       "crash",
      "assert",   "missing-wait",  "missing-fence", "needs-gpu"};
  static_assert(sizeof kinds / sizeof *kinds == static_cast<size_t>(Kind::count));
  out += '{';
  append_number(out, "op", f.op);
  append_number(out, "size", f.size);
  append_number(out, "array", f.array);
  append_number(out, "relation", f.relation);
  append_number(out, "scope", f.scope);
  append_number(out, "block", f.block);
  append_number(out, "thread", f.thread);
  append_number(out, "other_thread", f.other_thread);
  append_number(out, "other_block", f.other_block);
  append_number(out, "pc", f.pc ? f.pc - base : 0);
  append_number(out, "other_pc", f.other_pc ? f.other_pc - base : 0);
  append_number(out, "line", f.line);
  append_number(out, "offset", f.offset);
  append_number(out, "address", f.address);
  append_number(out, "count", f.count);
  out += f.fatal ? "\"fatal\":true," : "\"fatal\":false,";
  out += "\"kind\":";
  append_string(out, kinds[static_cast<int>(f.kind)]);
  out += ",\"detail\":";
  append_string(out, f.detail);
  out += '}';
}

static void append_site(std::string& out, const Site& s) {
  Passes passes = passes_of(s);
  out += '[';
  for (u64 value : {u64{s.pc}, u64{s.op}, u64{s.array}, u64{s.size}, s.requests, s.lanes, s.bytes, s.sectors,
                    s.ideal_sectors, passes.wavefronts, passes.ideal, s.issues, s.active, s.divergent}) {
    if (out.back() != '[') out += ',';
    out += std::to_string(value);
  }
  out += ']';
}

// What a launch cost: totals, then the counts of each instruction, but for the closing brackets.
static void append_counts(std::string& out, const Counter& c) {
  append_number(out, "barriers", c.barriers);
  append_number(out, "collectives", c.collectives);
  append_number(out, "tma_loads", c.copies);
  append_number(out, "tma_load_bytes", c.copied_bytes);
  append_number(out, "tma_stores", c.stores);
  append_number(out, "tma_store_bytes", c.stored_bytes);
  append_number(out, "wgmmas", c.products);
  append_number(out, "square_roots", c.square_roots);
  append_number(out, "wgmma_drains", c.drains);
  out += "\"sites\":[";
  for (const Site& s : c.sites) {
    if (out.back() != '[') out += ',';
    append_site(out, s);
  }
  out += "],";
}

static std::string write_report(Launch& launch, std::vector<std::unique_ptr<Worker>>& workers,
                                double seconds) {
  std::string out = "{";
  char text[64];
  snprintf(text, sizeof text, "\"seconds\":%.6f,", seconds);
  out += text;
  u64 switches = 0;
  std::vector<Print> printed;
  for (auto& w : workers) {
    switches += w->switches;
    printed.insert(printed.end(), w->printed.begin(), w->printed.end());
  }
  append_number(out, "switches", switches);
  append_counts(out, workers[0]->counter);  // a checked launch has one worker; a fast one counts nothing
  append_number(out, "static_shared", launch.module.shared_bytes);
  append_number(out, "module", launch.module.low);
  append_number(out, "shared_low", workers[0]->shared_low);
  append_number(out, "dynamic_low", workers[0]->dynamic_low);
  // Blocks after the first fatal mistake may or may not have run: leave them out.
  out += "\"findings\":[";
  std::stable_sort(launch.findings.list.begin(), launch.findings.list.end(),
                   [](const Finding& a, const Finding& b) { return a.block < b.block; });
  for (const Finding& f : launch.findings.list) {
    if (f.block > launch.stop_after) continue;
    if (out.back() != '[') out += ',';
    append_finding(out, f, launch.module.low);
  }
  out += "],\"printed\":";
  std::stable_sort(printed.begin(), printed.end(),
                   [](const Print& a, const Print& b) { return a.block < b.block; });
  std::string all;
  for (const Print& p : printed)
    if (p.block <= launch.stop_after) all += p.text;
  append_string(out, all);
  out += '}';
  return out;
}

}  // namespace simt
