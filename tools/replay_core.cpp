// Replays what `replay_core.py` has recorded, without Python: so the core runs on machines that have only a compiler.
//
// Reads 64-bit numbers from standard input, and writes a line for each program and each hashed text: what became of it,
// and a digest of the whole arena.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <vector>

#include "arena.h"
#include "sha256.h"
#include "xxh3.h"

namespace {

using namespace kvproof;

enum Command : int64_t { kOpen = 1, kAdopt, kPatch, kText, kRun, kHash };

[[noreturn]] void fail(const char* what) {
  fprintf(stderr, "the recording is none: %s\n", what);
  exit(2);
}

int64_t next() {
  int64_t number;
  if (fread(&number, sizeof number, 1, stdin) != 1) fail("it was cut");
  return number;
}

void print_digest(const void* data, size_t bytes) {
  uint8_t digest[32];
  sha_256(static_cast<const uint8_t*>(data), bytes, digest);
  for (int i = 0; i < 8; i++) printf("%02x", digest[i]);
}

struct Text {
  std::vector<uint32_t> digests;
  Chain chain;
};

/// One pool: its arena, and the texts that programs name.
class Replayed {
 public:
  void open() {
    Header h = {};
    h.num_blocks = next();
    h.hash_block_size = next();
    h.digest_words = next();
    h.is_named = next();
    h.has_steps = next();
    h.is_per_copy = next();
    h.tells_events = next();
    h.words_of_block = words_of_block(h.is_named != 0, h.has_steps != 0);
    h.seed[0] = next();
    h.seed[1] = next();
    h.num_groups = next();
    std::vector<Group> groups;
    for (int64_t i = 0; i < h.num_groups; i++) {
      const int64_t kind = next(), size = next();
      groups.push_back({size, static_cast<int32_t>(kind), 0});
    }
    plan(h);
    arena_ = std::vector<Aligned>(static_cast<size_t>(h.words / kAlignment));
    format_arena(words(), h, groups.data());
    work_.resize(1 << 14);
    texts_.clear();
    chains_.assign(1, nullptr);
  }

  void adopt() {
    Header h = header();
    plan(h);
    std::vector<Aligned> larger(static_cast<size_t>(h.words / kAlignment));
    int32_t* const target = reinterpret_cast<int32_t*>(larger.data());
    header().digest_words == 4 ? transfer<4>(words(), target, h) : transfer<8>(words(), target, h);
    arena_.swap(larger);
  }

  void patch() {
    for (int64_t left = next(); left > 0; left--) {
      const int64_t at = next();
      words()[at] = static_cast<int32_t>(next());
    }
  }

  void text() {
    const size_t number = static_cast<size_t>(next());
    if (number >= chains_.size()) chains_.resize(number + 1);
    texts_.emplace_back(new Text);  // kept: an event may name what the number meant before
    Text& text = *texts_.back();
    text.digests.resize(static_cast<size_t>(next() * header().digest_words));
    for (uint32_t& word : text.digests) word = static_cast<uint32_t>(next());
    text.chain = {text.digests.data(), static_cast<int64_t>(text.digests.size()) / header().digest_words};
    chains_[number] = &text.chain;
  }

  void run() {
    std::vector<int32_t> program(static_cast<size_t>(next()));
    for (int32_t& word : program) word = static_cast<int32_t>(next());
    Result done = {ok(), 0, 0, 0};
    do {
      const Result more = header().digest_words == 4 ? interpret_from<4>(program, done) : interpret_from<8>(program, done);
      done = {more.outcome, done.operation + more.operation, done.at + more.at, done.results + more.results};
    } while (done.outcome.code >= kGrow && done.outcome.code != kBadProgram && make_room(done));
    const bool is_refused = done.outcome.code != kOk;
    printf("%" PRId64 " %d ", is_refused ? done.operation : -1, is_refused ? done.outcome.detail : 0);
    print_digest(out_.data(), static_cast<size_t>(done.results) * 4);
    printf(" ");
    print_digest(words(), static_cast<size_t>(header().words) * 4);
    printf("\n");
  }

 private:
  struct alignas(64) Aligned {
    int32_t words[kAlignment];
  };

  int32_t* words() { return reinterpret_cast<int32_t*>(arena_.data()); }
  Header& header() { return *reinterpret_cast<Header*>(words()); }

  static void plan(Header& h) {
    int64_t rows[kRegions];
    for (int64_t& asked : rows) asked = next();
    if (!set_rows(h, rows)) fail("too many rows");
  }

  template <int W>
  Result interpret_from(const std::vector<int32_t>& program, const Result& done) {
    const Workspace work = {work_.data(), static_cast<int64_t>(work_.size()), nullptr, &cell_};
    Pool<W, SerialLanes> pool(words(), chains_.data(), static_cast<int64_t>(chains_.size()), work, SerialLanes{});
    return interpret(pool, program.data() + done.at, static_cast<int64_t>(program.size()) - done.at,
                     out_.data() + done.results, static_cast<int64_t>(out_.size()) - done.results);
  }

  // As the host does it: growth is recorded, all else follows from what is lacking.
  bool make_room(const Result& done) {
    const Outcome& lacking = done.outcome;
    switch (lacking.code) {
      case kMoreWork: work_.resize(static_cast<size_t>(lacking.need)); return true;
      case kMoreRoom: out_.resize(static_cast<size_t>(lacking.need + done.results)); return true;
      case kDrain:
        header().first_event = header().num_events = 0;
        if (lacking.need <= header().rows[kEvents]) return true;
        break;
      default: break;
    }
    if (next() != kAdopt) fail("no growth where it was needed");
    adopt();
    return true;
  }

  std::vector<Aligned> arena_;
  std::vector<int32_t> work_, out_;
  std::vector<Text*> texts_;
  std::vector<const Chain*> chains_;
  int32_t cell_ = 0;
};

void hash() {
  std::vector<uint8_t> data(static_cast<size_t>(next()));
  for (uint8_t& byte : data) byte = static_cast<uint8_t>(next());
  uint8_t digest[16];
  xxh3_128(data.data(), data.size(), digest);
  for (const uint8_t byte : digest) printf("%02x", byte);
  printf(" ");
  print_digest(data.data(), data.size());
  printf("\n");
}

}  // namespace

int main() {
  Replayed pool;
  for (int64_t command; fread(&command, sizeof command, 1, stdin) == 1;) switch (command) {
      case kOpen: pool.open(); break;
      case kAdopt: pool.adopt(); break;
      case kPatch: pool.patch(); break;
      case kText: pool.text(); break;
      case kRun: pool.run(); break;
      case kHash: hash(); break;
      default: fail("an unknown command");
    }
}
