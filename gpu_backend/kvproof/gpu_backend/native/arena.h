// Making, growing and checking an arena. Host only: what a device works on was made here.
#pragma once

#include <stddef.h>

#include <type_traits>
#include <utility>

#include "core.h"

namespace kvproof {

template <class T>
T* rows_of(const Header& h, int region) {
  return reinterpret_cast<T*>(reinterpret_cast<int32_t*>(const_cast<Header*>(&h)) + h.offset[region]);
}

/// How many rows a region needs, whatever was asked for.
inline int64_t fixed_rows(const Header& h, int region, int64_t asked) {
  switch (region) {
    case kGroups: return h.num_groups;
    case kBlocks: return h.num_blocks;
    case kRing: return ring_places(h.num_blocks);
    case kBuckets: case kFreeEntries: return h.rows[kEntries];
    case kFreeReaders: return h.rows[kReaders];
    default: return asked;
  }
}

/// Set the rows of all regions, and where they lie. False if a region would have more rows than can be numbered.
inline bool set_rows(Header& h, const int64_t* asked) {
  for (const int region : {kEntries, kReaders}) h.rows[region] = asked[region];
  for (int region = 0; region < kRegions; region++) {
    h.rows[region] = fixed_rows(h, region, asked[region]);
    if (h.rows[region] < 0 || h.rows[region] > kMostRows) return false;
  }
  place_regions(h);
  return true;
}

/// Fill an arena of `h.words` words with the state of a new pool (POOL-INIT-1).
inline void format_arena(int32_t* words, const Header& plan, const Group* groups) {
  memset(words, 0, static_cast<size_t>(plan.words) * 4);
  Header& h = *reinterpret_cast<Header*>(words);
  h = plan;
  h.version = kArenaVersion;
  h.unswept = kNoSweep;
  h.num_free = h.ring_span = h.num_blocks - 1;
  memcpy(rows_of<Group>(h, kGroups), groups, sizeof(Group) * static_cast<size_t>(h.num_groups));
  int32_t* const blocks = rows_of<int32_t>(h, kBlocks);
  int32_t* const ring = rows_of<int32_t>(h, kRing);
  for (int32_t id = 0; id < h.num_blocks; id++) {
    Block& block = *reinterpret_cast<Block*>(blocks + id * h.words_of_block);
    block.place = id == kNullBlock ? kNotQueued : id - 1;
    block.first_entry = block.group = block.slot = kNone;
    if (h.is_named) block.readers = kNone;
    if (id != kNullBlock) ring[id - 1] = id;
  }
  for (int32_t i = 0; i < h.rows[kBuckets]; i++) rows_of<int32_t>(h, kBuckets)[i] = kNone;
  // The lowest row is taken first.
  for (const auto& [stack, table] : {std::pair{kFreeEntries, kEntries}, std::pair{kFreeReaders, kReaders}})
    for (int64_t i = 0; i < h.rows[table]; i++)
      rows_of<int32_t>(h, stack)[i] = static_cast<int32_t>(h.rows[table] - 1 - i);
}

// A stack of free rows grows at its bottom, so that rows in use are neither moved nor taken again.
inline void grow_stack(const Header& from, const Header& to, int stack, int table, int64_t used) {
  const int64_t more = to.rows[table] - from.rows[table];
  for (int64_t i = 0; i < more; i++)
    rows_of<int32_t>(to, stack)[i] = static_cast<int32_t>(to.rows[table] - 1 - i);
  memcpy(rows_of<int32_t>(to, stack) + more, rows_of<int32_t>(from, stack),
         static_cast<size_t>(from.rows[table] - used) * 4);
}

/// Copy the state into a larger arena, whose header holds its rows and offsets, and nothing else yet (COST-1 does not
/// speak of growth: it is rare, and takes time in proportion to the pool).
template <int W>
void transfer(const int32_t* old_words, int32_t* new_words, const Header& plan) {
  const Header& from = *reinterpret_cast<const Header*>(old_words);
  Header& to = *reinterpret_cast<Header*>(new_words);
  memset(new_words, 0, static_cast<size_t>(plan.words) * 4);
  to = from;
  to.words = plan.words;
  memcpy(to.offset, plan.offset, sizeof to.offset);
  memcpy(to.rows, plan.rows, sizeof to.rows);
  for (int region = 0; region < kRegions; region++) {
    if (region == kBuckets || region == kFreeEntries || region == kFreeReaders || region == kEvents) continue;
    memcpy(rows_of<int32_t>(to, region), rows_of<int32_t>(from, region),
           static_cast<size_t>(from.rows[region] * words_of_row(from, region)) * 4);
  }
  grow_stack(from, to, kFreeEntries, kEntries, from.num_entries);
  grow_stack(from, to, kFreeReaders, kReaders, from.num_readers);
  for (int64_t i = 0; i < from.num_events; i++)
    rows_of<Event<W>>(to, kEvents)[i] =
        rows_of<Event<W>>(from, kEvents)[(from.first_event + i) % from.rows[kEvents]];
  to.first_event = 0;
  // Every key goes to its new bucket.
  for (int64_t i = 0; i < to.rows[kBuckets]; i++) rows_of<int32_t>(to, kBuckets)[i] = kNone;
  Pool<W, SerialLanes> p(new_words, nullptr, 0, Workspace{}, SerialLanes{});
  for (int64_t i = 0; i < from.rows[kBuckets]; i++)
    for (int32_t e = rows_of<int32_t>(from, kBuckets)[i]; e != kNone;) {
      const int32_t next = p.entries[e].next_in_bucket, bucket = bucket_of(p, p.entries[e].digest, group_of(p, e));
      p.entries[e].next_in_bucket = p.buckets[bucket];
      p.buckets[bucket] = e;
      e = next;
    }
}

}  // namespace kvproof
