// Whether an arena is one: every link leads somewhere, every count is right (INV-*). Host only.
//
// It trusts nothing, so that a saved state can be checked before it is used, and finds what an operation broke.
#pragma once

#include "arena.h"
#include "py_values.h"

namespace kvproof {

/// Whether the header describes an arena of so many words: then all regions lie within it.
inline bool is_arena(const int32_t* words, int64_t count) {
  if (count * 4 < static_cast<int64_t>(sizeof(Header))) return false;
  const Header& h = *reinterpret_cast<const Header*>(words);
  if (h.version != kArenaVersion || h.num_blocks < 1 || h.num_blocks > kMostRows || h.num_groups < 1 ||
      h.num_groups > kMostRows || h.hash_block_size < 1 || (h.digest_words != 4 && h.digest_words != 8) ||
      h.words_of_block != words_of_block(h.is_named != 0, h.has_steps != 0))
    return false;
  Header planned = h;
  return set_rows(planned, h.rows) && memcmp(planned.rows, h.rows, sizeof h.rows) == 0 &&
         memcmp(planned.offset, h.offset, sizeof h.offset) == 0 && planned.words == h.words && h.words <= count;
}

template <int W>
class ArenaCheck {
 public:
  explicit ArenaCheck(int32_t* words)
      : p_(words, nullptr, 0, Workspace{}, SerialLanes{}), h_(*p_.h) {}

  /// What is wrong, null if nothing is. `is_arena` holds.
  const char* problem() {
    if (!counts()) return "a count is out of range";
    if (!marks_.reserve(h_.num_blocks + h_.rows[kEntries] + h_.rows[kReaders])) return "there is no memory to check it";
    memset(marks_.data, 0, static_cast<size_t>(marks_.room));
    const char* found = !groups()         ? "a group has no block size"
                        : !queue()        ? "the queue of free blocks is broken"
                        : !pendings()     ? "the table of what is not committed is broken"
                        : !blocks()       ? "the keys or holders of a block are broken"
                        : !references()   ? "the references of a holder are counted wrong"
                        : !index()        ? "the index of keys is broken"
                        : !in_flight()    ? "the table of what is in flight is broken"
                                          : nullptr;
    marks_.release();
    return found;
  }

 private:
  static bool within(int64_t value, int64_t least, int64_t end) { return value >= least && value < end; }
  uint8_t& block_mark(int64_t id) { return marks_.data[id]; }
  uint8_t& entry_mark(int64_t e) { return marks_.data[h_.num_blocks + e]; }
  uint8_t& reader_mark(int64_t row) { return marks_.data[h_.num_blocks + h_.rows[kEntries] + row]; }
  bool is_row(int64_t row, int region) const { return within(row, 0, h_.rows[region]); }

  bool counts() const {
    const auto fits = [&](int64_t used, int region) { return within(used, 0, h_.rows[region] + 1); };
    return fits(h_.num_entries, kEntries) && fits(h_.num_readers, kReaders) && fits(h_.num_pendings, kPendings) &&
           fits(h_.num_dependencies, kDependencies) && fits(h_.num_attachments, kAttachments) &&
           fits(h_.num_admissions, kAdmissions) && fits(h_.num_copies, kCopies) && fits(h_.num_events, kEvents) &&
           (h_.num_events == 0 || is_row(h_.first_event, kEvents)) && is_row(h_.ring_head, kRing) &&
           fits(h_.ring_span, kRing) && within(h_.num_free, 0, h_.num_blocks) &&
           within(h_.unswept, kNoSweep, h_.ring_span + 1) &&
           (h_.unswept == kNoSweep || within(h_.swept, h_.unswept, h_.ring_span + 1)) &&
           within(h_.committed, 0, h_.current + 1) && h_.current <= kMostSteps;
  }

  bool groups() const {
    for (int64_t g = 0; g < h_.num_groups; g++)
      if (p_.groups[g].block_size < 1 || !within(p_.groups[g].kind, 0, kRecurrent + 1)) return false;
    return true;
  }

  // INV-PARTITION-1, INV-QUEUE-*
  bool queue() {
    int64_t found = 0;
    for (int64_t at = 0; at < h_.ring_span; at++) {
      const int32_t place = place_behind_head(p_, at), id = p_.ring[place];
      if (id == kHole) continue;
      if (!p_.exists(id) || p_.block(id).place != place || p_.block(id).references != 0) return false;
      if (h_.unswept != kNoSweep && at >= h_.unswept && at < h_.swept) return false;  // the gap
      found++;
    }
    for (int32_t id = 1; id < h_.num_blocks; id++) {
      const Block& block = p_.block(id);
      if (block.references < 0 || (block.references > 0) != (block.place == kNotQueued)) return false;
      found -= block.references == 0;
    }
    return found == 0 && p_.block(kNullBlock).references == 0 && count_free() == h_.num_free;
  }

  int64_t count_free() const {
    int64_t free = 0;
    for (int32_t id = 1; id < h_.num_blocks; id++) free += p_.block(id).references == 0;
    return free;
  }

  bool pendings() const {
    for (int64_t row = 0; row < h_.num_pendings; row++) {
      const Pending& pending = p_.pendings[row];
      if (!is_row(pending.entry, kEntries) || p_.entries[pending.entry].position != ~row || pending.position < 1 ||
          pending.is_fresh || !is_open(pending.step) || (pending.owner != kNobody && !p_.is_holder(pending.owner)))
        return false;
    }
    return true;
  }

  bool is_open(int64_t step) const { return step > h_.committed && step <= h_.current; }

  // INV-COUNT-1, INV-WRITER-1, INV-NULL-1, INV-SLOT-1, INV-CHAIN-1
  bool blocks() {
    int64_t entries = 0, readers = 0;
    for (int32_t id = 0; id < h_.num_blocks; id++) {
      const Block& block = p_.block(id);
      const bool has_slot = block.slot != kNone;
      if (has_slot != (block.group != kNone) || (has_slot && !within(block.group, 0, h_.num_groups)) ||
          (has_slot && block.slot < 0) || (!has_slot && block.first_entry != kNone))
        return false;
      for (int32_t e = block.first_entry; e != kNone; e = p_.entries[e].next_of_block, entries++) {
        if (!is_row(e, kEntries) || entry_mark(e)++ || p_.entries[e].block != id) return false;
        if (p_.entries[e].position < 0 && !within(~p_.entries[e].position, 0, h_.num_pendings)) return false;
        if (slot_of(position_of(p_, e), p_.groups[block.group].block_size) != block.slot) return false;
      }
      if (!h_.is_named) continue;
      int64_t held = block.writer != kNobody;
      if (held && !p_.is_holder(block.writer)) return false;
      for (int32_t row = block.readers; row != kNone; row = p_.readers[row].next, readers++, held++)
        if (!is_row(row, kReaders) || reader_mark(row)++ || !p_.is_holder(p_.readers[row].holder)) return false;
      if (held != block.references) return false;
    }
    return entries == h_.num_entries && readers == h_.num_readers && is_free_stack(kFreeEntries, kEntries, entries) &&
           is_free_stack(kFreeReaders, kReaders, readers);
  }

  // Whether every holder holds as many blocks as its row says. `blocks` holds, so the lists of readers have an end.
  bool references() {
    if (!h_.is_named) return true;
    Buffer<int32_t> held;
    if (!held.reserve(h_.rows[kHolders] + 1)) return false;
    memset(held.data, 0, static_cast<size_t>(held.room) * 4);
    for (int32_t id = 0; id < h_.num_blocks; id++) {
      held.data[row_of_holder(p_.block(id).writer)]++;
      for (int32_t row = p_.block(id).readers; row != kNone; row = p_.readers[row].next)
        held.data[row_of_holder(p_.readers[row].holder)]++;
    }
    bool counted = true;
    for (int64_t row = 1; row < h_.rows[kHolders]; row++) counted &= p_.holders[row].references == held.data[row];
    held.release();
    return counted;
  }

  // Every row that is not in use stands once in the stack of free rows.
  bool is_free_stack(int stack, int table, int64_t used) {
    for (int64_t i = 0; i < h_.rows[table] - used; i++) {
      const int32_t row = rows_of<int32_t>(h_, stack)[i];
      if (!is_row(row, table)) return false;
      if ((table == kEntries ? entry_mark(row) : reader_mark(row))++) return false;
    }
    return true;
  }

  // INDEX-TWOWAY-1, INV-INDEX-*
  bool index() {
    int64_t listed = 0;
    for (int64_t bucket = 0; bucket < h_.rows[kBuckets]; bucket++)
      for (int32_t first = p_.buckets[bucket]; first != kNone; first = p_.entries[first].next_in_bucket) {
        int32_t last = kNone;
        for (int32_t e = first; e != kNone; last = e, e = p_.entries[e].next_of_key) {
          // A chain that runs into itself, or through a row that is free, is longer than there are entries.
          if (!is_row(e, kEntries) || ++listed > h_.num_entries || !within(p_.entries[e].block, 1, h_.num_blocks) ||
              !p_.exists(p_.entries[e].block) || p_.block(p_.entries[e].block).group == kNone)
            return false;
          if (bucket_of(p_, p_.entries[e].digest, group_of(p_, e)) != bucket ||
              !equal<W>(p_.entries[e].digest, p_.entries[first].digest) || group_of(p_, e) != group_of(p_, first) ||
              (e != first && (p_.entries[e].next_in_bucket != kNotFirst || p_.entries[e].previous_of_key != last)))
            return false;
        }
        if (p_.entries[first].previous_of_key != last) return false;
      }
    return listed == h_.num_entries;
  }

  bool in_flight() const {
    for (int64_t i = 0; i < h_.num_dependencies; i++)
      if (!p_.is_holder(p_.dependencies[i].reader) || !p_.is_holder(p_.dependencies[i].writer) ||
          !is_open(p_.dependencies[i].step))
        return false;
    for (int64_t i = 0; i < h_.num_attachments; i++)
      if (!p_.exists(p_.attachments[i].block) || !p_.is_holder(p_.attachments[i].reader)) return false;
    for (int64_t i = 0; i < h_.num_admissions; i++)
      if (!p_.is_holder(p_.admissions[i].request)) return false;
    for (int64_t i = 0; i < h_.num_copies; i++) {
      const CopyInFlight& copied = p_.copies[i];
      if (!are_two_blocks(p_, copied.source, copied.target) || !p_.is_holder(copied.holder) || !is_open(copied.step) ||
          !holds(p_, p_.block(copied.source), copied.holder) || !holds(p_, p_.block(copied.target), copied.holder))
        return false;
    }
    for (int64_t row = 0; row < h_.rows[kHolders]; row++)
      if (p_.holders[row].mark != 0) return false;
    return true;
  }

  Pool<W, SerialLanes> p_;
  const Header& h_;
  Buffer<uint8_t> marks_;
};

}  // namespace kvproof
