// The arena: one array of 32-bit words that holds the whole state of a pool, and where everything in it is.
//
// A header, then regions, each a table of fixed-size rows. Links between rows are row numbers, so the arena means the
// same wherever it lies: it can be copied, saved and moved to another device.
#pragma once

#include "lanes.h"

namespace kvproof {

// --- limits, and values with a meaning of their own -----------------------------------------------------------------

constexpr int32_t kNone = -1;                  ///< no row, no block, no group, no slot
constexpr int32_t kNullBlock = 0;              ///< stands for "nothing here" (POOL-NULL-1); never queued
constexpr int32_t kNobody = 0;                 ///< no holder
constexpr int32_t kStranger = -2;              ///< a holder that the pool has never heard of
constexpr int32_t kNotQueued = INT32_MAX;      ///< the queue place of a block that is in use
constexpr int32_t kSeen = 1 << 30;             ///< marks, within one operation, the ref count of a block that was met
constexpr int32_t kMostReferences = kSeen - 1; ///< of one block
constexpr int64_t kMostRows = 1 << 30;         ///< of one region; row numbers and their complements fit a word
constexpr int32_t kMostSteps = INT32_MAX - 1;  ///< step numbers fit a word
constexpr int64_t kAlignment = 16;             ///< regions begin at multiples of so many words (64 bytes)
constexpr int32_t kArenaVersion = 1;

/// Holders are numbered by the caller: row * 2, plus 1 for a copy in progress (a name that begins with "copy:").
KV_FN bool is_copy(int32_t holder) { return (holder & 1) != 0; }
KV_FN int32_t row_of_holder(int32_t holder) { return holder >> 1; }

// --- what a row of each region looks like ---------------------------------------------------------------------------

/// A block. A pool without holders keeps the first five words of it, one without steps the first seven.
struct Block {
  int32_t references;
  int32_t place;        ///< in the ring of free blocks, kNotQueued if it is in use
  int32_t first_entry;  ///< its entries in registration order are linked by Entry::next_of_block
  int32_t group;        ///< set by its first registration (REG-SLOT-1)
  int32_t slot;
  int32_t writer;       ///< the holder that allocated it and still holds it (POOL-WRITER-1)
  int32_t readers;      ///< its other holders, linked by Reader::next
  int32_t born;         ///< the step in which it was allocated
  int32_t writer_kept;  ///< how many copies of open steps keep the writer's reference (STEP-COPY-2)
};
constexpr int kWordsOfAnonymousBlock = 5, kWordsOfNamedBlock = 7, kWordsOfSteppedBlock = 9;
static_assert(sizeof(Block) == 4 * kWordsOfSteppedBlock && offsetof(Block, writer) == 4 * kWordsOfAnonymousBlock &&
                  offsetof(Block, born) == 4 * kWordsOfNamedBlock,
              "a shorter block is the beginning of a longer one");

KV_FN int64_t words_of_block(bool is_named, bool has_steps) {
  return has_steps ? kWordsOfSteppedBlock : is_named ? kWordsOfNamedBlock : kWordsOfAnonymousBlock;
}

/// A key on a block. The key's group is the block's.
template <int W>
struct Entry {
  uint32_t digest[W];
  int32_t block;
  int32_t next_in_bucket;    ///< the first entry of the next key; kNotFirst if this is not the first entry of its key
  int32_t next_of_key;       ///< the entries of a key, first registered first (INDEX-ORDER-1)
  int32_t previous_of_key;   ///< of the first entry: the last one, so that both ends are found at once
  int32_t next_of_block;
  int32_t position;          ///< of a servable entry; else ~row of its Pending, which has the position
};
constexpr int32_t kNotFirst = -2;
static_assert(sizeof(Entry<4>) == 40 && sizeof(Entry<8>) == 56, "entries are packed");

/// A holder that does not write the block; `position` and `digest` name the prefix that it was served, 0 if none.
template <int W>
struct Reader {
  int32_t holder;
  int32_t next;
  int32_t position;
  int32_t attached;  ///< the step whose reserved key it attached; means nothing once that step is committed
  int32_t kept;      ///< how many copies of open steps keep this reference (STEP-COPY-2)
  uint32_t digest[W];
};

struct HolderRow {
  int32_t references;  ///< how many blocks it holds
  int32_t admitted;    ///< the step in which it registered last
  int32_t mark;        ///< scratch of one operation, 0 between operations
};

/// An entry that is not servable yet (STEP-SERVE-1).
struct Pending {
  int32_t entry;
  int32_t position;
  int32_t step;      ///< its ready step
  int32_t owner;     ///< who reserved it; kNobody for a committed entry that moved
  int32_t text;      ///< the text whose prefix it names, for events
  int32_t call;      ///< which registering call it came by (EVENT-STORED-4)
  int32_t order;     ///< ascends with registration
  int32_t is_fresh;  ///< scratch of a commit: it is published, but no event has said so yet
};

struct Dependency { int32_t reader, writer, step; };   ///< STEP-ATTACH-2
struct Attachment { int32_t block, reader, step; };    ///< who attached what, so that a rollback finds it
struct Admission { int32_t step, request; };           ///< who registered in a step, in this order (STEP-COMMIT-3)
struct CopyInFlight { int32_t step, source, target, holder; };  ///< STEP-COPY-2

enum EventKind : int32_t { kStored = 1, kRemoved = 2, kCleared = 3 };

/// An event. Removed has a digest; Stored names its hashes by positions in a text, so any number of them fits.
template <int W>
struct Event {
  int32_t kind;
  int32_t group;
  union {
    uint32_t digest[W];
    struct { int32_t text, first, count, parent; } run;  ///< positions first, first + B, ...; parent 0: none
  };
};
static_assert(sizeof(Event<4>) == 24 && sizeof(Event<8>) == 40, "events are packed");

enum GroupKind : int32_t { kFullAttention = 0, kSlidingWindow = 1, kRecurrent = 2 };
struct Group { int64_t block_size; int32_t kind, unused; };

/// The digests H(h), H(2h), ... of a text, one after the other; read where they lie.
struct Chain {
  const uint32_t* digests;
  int64_t count;
};

// --- the header -----------------------------------------------------------------------------------------------------

enum Region : int {
  kGroups, kBlocks, kRing, kBuckets, kFreeEntries, kEntries, kFreeReaders, kReaders, kHolders, kPendings,
  kDependencies, kAttachments, kAdmissions, kCopies, kEvents, kRegions
};

/// All numbers are 64-bit, so that a view of the header has one type. Offsets count words from the arena's beginning.
struct Header {
  int64_t version, words;
  int64_t num_blocks, hash_block_size, num_groups, digest_words, words_of_block;
  int64_t is_named, has_steps, is_per_copy, tells_events;
  int64_t seed[2];                                       ///< of the bucket function; no answer depends on it
  int64_t offset[kRegions], rows[kRegions];
  int64_t num_free, ring_head, ring_span, unswept, swept;  ///< see `queue.h`
  int64_t num_entries, num_readers;
  int64_t num_pendings, num_dependencies, num_attachments, num_admissions, num_copies;
  int64_t first_event, num_events;                       ///< a ring: the oldest event not yet taken, how many there are
  int64_t current, committed;                            ///< steps (STEP-OPEN-1)
  int64_t calls, registrations;                          ///< counters, in the low 31 bits
};
static_assert(sizeof(Header) % 8 == 0, "the header is a table of 64-bit numbers");

/// How many words one row of a region has.
KV_FN int64_t words_of_row(const Header& h, int region) {
  const int64_t w = h.digest_words;
  switch (region) {
    case kGroups: return sizeof(Group) / 4;
    case kBlocks: return h.words_of_block;
    case kRing: case kBuckets: case kFreeEntries: case kFreeReaders: return 1;
    case kEntries: return w + 6;
    case kReaders: return w + 5;
    case kHolders: return sizeof(HolderRow) / 4;
    case kPendings: return sizeof(Pending) / 4;
    case kDependencies: return sizeof(Dependency) / 4;
    case kAttachments: return sizeof(Attachment) / 4;
    case kAdmissions: return sizeof(Admission) / 4;
    case kCopies: return sizeof(CopyInFlight) / 4;
    default: return w + 2;  // kEvents
  }
}

/// Set all offsets from the numbers of rows, and the arena's size.
KV_FN void place_regions(Header& h) {
  int64_t at = (static_cast<int64_t>(sizeof(Header)) / 4 + kAlignment - 1) / kAlignment * kAlignment;
  for (int region = 0; region < kRegions; region++) {
    h.offset[region] = at;
    at += (h.rows[region] * words_of_row(h, region) + kAlignment - 1) / kAlignment * kAlignment;
  }
  h.words = at;
}

// --- a pool as the operations see it --------------------------------------------------------------------------------

/// Pointers into one arena, and who runs the operations. W is the number of words of a digest.
template <int W, class L>
struct Pool {
  static constexpr int kDigestWords = W;
  static constexpr int kKeyWords = W + 1;
  using Lanes = L;

  Header* h;
  int32_t* ring;
  int32_t* buckets;
  int32_t* free_entries;
  Entry<W>* entries;
  int32_t* free_readers;
  Reader<W>* readers;
  HolderRow* holders;
  Pending* pendings;
  Dependency* dependencies;
  Attachment* attachments;
  Admission* admissions;
  CopyInFlight* copies;
  Event<W>* events;
  const Group* groups;
  const Chain* const* texts;  ///< by text number; the caller keeps them alive as long as an entry or event names them
  int64_t num_texts;
  Workspace work;
  L lanes;

  KV_FN Pool(int32_t* arena, const Chain* const* texts_, int64_t num_texts_, const Workspace& work_, const L& lanes_)
      : h(reinterpret_cast<Header*>(arena)), texts(texts_), num_texts(num_texts_), work(work_), lanes(lanes_) {
    ring = at<int32_t>(kRing);
    buckets = at<int32_t>(kBuckets);
    free_entries = at<int32_t>(kFreeEntries);
    entries = at<Entry<W>>(kEntries);
    free_readers = at<int32_t>(kFreeReaders);
    readers = at<Reader<W>>(kReaders);
    holders = at<HolderRow>(kHolders);
    pendings = at<Pending>(kPendings);
    dependencies = at<Dependency>(kDependencies);
    attachments = at<Attachment>(kAttachments);
    admissions = at<Admission>(kAdmissions);
    copies = at<CopyInFlight>(kCopies);
    events = at<Event<W>>(kEvents);
    groups = at<Group>(kGroups);
    blocks_ = at<int32_t>(kBlocks);
    words_of_block_ = h->words_of_block;
  }

  template <class T>
  KV_FN T* at(Region region) const {
    return reinterpret_cast<T*>(reinterpret_cast<int32_t*>(h) + h->offset[region]);
  }

  KV_FN Block& block(int32_t id) const { return *reinterpret_cast<Block*>(blocks_ + id * words_of_block_); }
  KV_FN bool exists(int32_t id) const { return id >= 0 && id < h->num_blocks; }
  KV_FN bool is_text(int32_t number) const { return number >= 0 && number < num_texts && texts[number] != nullptr; }

  /// Whether the number is a holder's; with anonymous references, nobody's.
  KV_FN bool is_holder(int32_t holder) const {
    if (!is_named()) return holder == kNobody;
    return holder != kNobody && holder >= 0 && row_of_holder(holder) < h->rows[kHolders];
  }

  KV_FN bool is_named() const { return h->is_named != 0; }
  KV_FN bool has_steps() const { return h->has_steps != 0; }
  KV_FN int32_t current() const { return static_cast<int32_t>(h->current); }
  KV_FN int32_t committed() const { return static_cast<int32_t>(h->committed); }

 private:
  int32_t* blocks_;
  int64_t words_of_block_;
};

// --- outcomes -------------------------------------------------------------------------------------------------------

/// What became of an operation. The errors are those of the specification (ERR-*); the last ones are for the caller.
enum Code : int32_t {
  kOk, kInvalidArgument, kInvalidBlock, kInvalidGroup, kOutOfRange, kNotAligned, kOutOfBlocks, kNotReferenced,
  kAlreadyHeld, kNotCached, kNotOwner, kContentConflict, kStillReferenced, kNoOpenStep, kOutOfOrder, kNotCommitted,
  kGrow,          ///< `detail` is a region that needs `need` rows; the caller makes room and runs the operation again
  kDrain,         ///< `need` events must fit; the caller takes the events and runs the operation again
  kMoreWork,      ///< the workspace needs `need` words
  kMoreRoom,      ///< the results need `need` words
  kBadProgram     ///< the words are no program; `detail` is where
};

/// The names of the errors of the specification, by code.
#if !defined(__CUDACC__)
constexpr const char* kErrorNames[] = {
    "", "InvalidArgument", "InvalidBlock", "InvalidGroup", "OutOfRange", "NotAligned", "OutOfBlocks", "NotReferenced",
    "AlreadyHeld", "NotCached", "NotOwner", "ContentConflict", "StillReferenced", "NoOpenStep", "OutOfOrder",
    "NotCommitted"};
static_assert(sizeof(kErrorNames) / sizeof(*kErrorNames) == kGrow, "every error has a name");
#endif

/// The same in every lane. `detail` says which of the operation's items it is about.
struct Outcome {
  int32_t code;
  int32_t detail;
  int64_t need;
};

KV_FN Outcome ok() { return {kOk, 0, 0}; }
KV_FN Outcome refused(Code code, int32_t detail = 0) { return {code, detail, 0}; }

/// Refuses an operation that would need more rows than a region has: nothing is lost, the caller makes room.
template <class P>
KV_FN bool lacks(const P& p, Region region, int64_t used, int64_t more, Outcome* why) {
  if (used + more <= p.h->rows[region]) return false;
  *why = region == kEvents ? Outcome{kDrain, region, more} : Outcome{kGrow, region, used + more};
  return true;
}

template <class P>
KV_FN bool lacks_work(const P& p, int64_t words, Outcome* why) {
  if (words <= p.work.capacity) return false;
  *why = {kMoreWork, 0, words};
  return true;
}

}  // namespace kvproof
