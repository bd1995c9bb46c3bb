// Steps: begin, commit, attach, rollback, finish (STEP-*).
//
// What is in flight is kept in flat tables, one row for each entry, dependency, admission and copy of an open step.
// They are short, and one pass over a table is what lanes do best.
#pragma once

#include "questions.h"
#include "removal.h"

namespace kvproof {

/// Keep the rows that `stays` chooses, in order; returns how many there are. One lane.
template <class Row, class F>
KV_FN int64_t keep_rows(Row* rows, int64_t n, F stays) {
  int64_t kept = 0;
  for (int64_t i = 0; i < n; i++)
    if (stays(rows[i])) rows[kept++] = rows[i];
  return kept;
}

/// Open the next step (STEP-OPEN-1).
template <class P>
KV_OPERATION Outcome begin_step(P& p, int32_t* out) {
  if (!p.has_steps()) return refused(kNoOpenStep);  // STEP-IMMEDIATE-1
  if (p.h->current >= kMostSteps) return refused(kOutOfRange);
  p.lanes.one([&] { *out = static_cast<int32_t>(++p.h->current); });
  return ok();
}

// --- commit ---------------------------------------------------------------------------------------------------------

/// Whether the entry, which is being committed, came as the longest of its block, and so replaces the committed keys
/// that were registered before it (STEP-UPGRADE-2).
template <class P>
KV_FN bool supersedes(const P& p, int32_t e) {
  for (int32_t other = p.block(p.entries[e].block).first_entry; other != e; other = p.entries[other].next_of_block)
    if (position_of(p, other) > position_of(p, e)) return false;
  return true;
}

template <class P>
KV_FN int32_t count_superseded(const P& p, int32_t e) {
  if (!supersedes(p, e)) return 0;
  int32_t count = 0;
  for (int32_t other = p.block(p.entries[e].block).first_entry; other != e; other = p.entries[other].next_of_block)
    count += is_committed(p, other);
  return count;
}

/// The turns of a step's reserved entries (STEP-COMMIT-3); holders are marked by their admission, first with 1.
template <class P>
KV_FN bool comes_before(const P& p, int32_t e, int32_t other) {
  const Pending& a = pending_of(p, e);
  const Pending& b = pending_of(p, other);
  const int32_t mine = p.holders[row_of_holder(a.owner)].mark, its = p.holders[row_of_holder(b.owner)].mark;
  if (mine != its) return mine < its;
  const int32_t group = group_of(p, e), other_group = group_of(p, other);
  if (group != other_group) return group < other_group;
  if (a.position != b.position) return a.position < b.position;
  return ((b.order - a.order) & INT32_MAX) < (INT32_MAX / 2);  // the counter may have come round
}

/// Sort a step's reserved entries by their turns.
template <class P>
KV_OPERATION void take_turns(P& p, int32_t step, int32_t n, int32_t* list) {
  p.lanes.one([&] {
    int32_t turn = 0;
    for (int64_t i = 0; i < p.h->num_admissions; i++)
      if (p.admissions[i].step == step) p.holders[row_of_holder(p.admissions[i].request)].mark = ++turn;
  });
  const int unsorted = p.lanes.first(n - 1, [&](int i) { return !comes_before(p, list[i], list[i + 1]); });
  if (unsorted < n - 1) p.lanes.sort(n, list, [&](int32_t a, int32_t b) { return a != b && comes_before(p, a, b); });
  p.lanes.one([&] {
    for (int64_t i = 0; i < p.h->num_admissions; i++) p.holders[row_of_holder(p.admissions[i].request)].mark = 0;
  });
}

/// Tell of what a commit published, run by run: a later run may name an earlier one as its parent, never the other way
/// round (EVENT-STORED-4, EVENT-PARENT-1). `news[i]` says whether list[i] is told of. One lane.
template <class P>
KV_FN void tell_published(P& p, int32_t n, const int32_t* list, const int32_t* news) {
  int32_t runs = 0;
  for (int32_t i = 0; i < n;) {
    if (!news[i]) {
      i++;
      continue;
    }
    const Pending first = pending_of(p, list[i]);
    const int32_t group = group_of(p, list[i]);
    const int64_t size = p.groups[group].block_size;
    int32_t last = i, count = 1, next = i + 1;
    // What is no news does not end a run by itself; the slot that is missing then does.
    for (; next < n; next++) {
      if (!news[next]) continue;
      const Pending& a = pending_of(p, list[last]);
      const Pending& b = pending_of(p, list[next]);
      if (b.call != a.call || b.position != a.position + size) break;
      last = next;
      count++;
    }
    write_stored(p, runs++, group, first.text, first.position, count);
    for (; i <= last; i++)
      if (news[i]) forget_pending(p, list[i]);
  }
  p.h->num_events += runs;
}

/// Publish the step's reserved entries, `list` in their turns; what they supersede goes (STEP-COMMIT-1, -3).
/// `news` has n words, `left` room for all that is superseded.
template <class P>
KV_OPERATION void publish(P& p, int32_t n, const int32_t* list, int32_t* news, int32_t* left) {
  p.lanes.each(n, [&](int i) { news[i] = count_superseded(p, list[i]); });
  const int32_t leaving = p.lanes.scan(
      n, [&](int i) { return news[i]; },
      [&](int i, int offset) {
        if (news[i] == 0) return;
        bool before = true;  // ... the entry itself
        detach(p, p.block(p.entries[list[i]].block), left + offset, [&](int32_t e) {
          before = before && e != list[i];
          return before && is_committed(p, e);
        });
      });
  const auto bucket = [&](int i) { return bucket_of(p, p.entries[list[i]].digest, group_of(p, list[i])); };
  p.lanes.in_order(n, bucket, p.buckets, [&](int i, int32_t place) {
    const auto& entry = p.entries[list[i]];
    const int32_t first = find_in_bucket(p, place, entry.digest, group_of(p, list[i]));
    news[i] = p.h->tells_events && is_news(p, first, entry.block);
    // A key that had other committed copies is known to consumers already.
    pending_of(p, list[i]).is_fresh = !is_resident(p, first);
  });
  p.lanes.one([&] {
    for (int32_t i = 0; i < n; i++)
      if (!news[i]) forget_pending(p, list[i]);
  });
  drop(p, leaving, left);
  p.lanes.one([&] { tell_published(p, n, list, news); });
}

/// Release the ends of the copies of a step that is committed, in queued order (STEP-COPY-2).
template <class P>
KV_OPERATION void release_copies(P& p, int32_t step) {
  int32_t done = 0;
  for (; done < p.h->num_copies && p.copies[done].step == step; done++) {
    const CopyInFlight& copied = p.copies[done];
    const int32_t* const ends[2] = {&copied.source, &copied.target};
    for (const int32_t* end : ends) {
      Block& block = p.block(*end);
      p.lanes.one([&] { *p.work.cell = --kept_by_copies(p, block, copied.holder); });
      if (*p.work.cell == 0) release(p, copied.holder, 1, end);
    }
  }
  p.lanes.one([&] {
    p.h->num_copies = keep_rows(p.copies, p.h->num_copies, [&](const CopyInFlight& row) { return row.step > step; });
  });
}

/// Publish what is due, the step after the last committed one (STEP-COMMIT-*).
template <class P>
KV_OPERATION Outcome commit(P& p, int32_t step) {
  Header& h = *p.h;
  if (!p.has_steps()) return refused(kNoOpenStep);
  if (step < 1) return refused(kOutOfRange);
  if (step != h.committed + 1 || step > h.current) return refused(kOutOfOrder);
  const int32_t rows = static_cast<int32_t>(h.num_pendings);
  Outcome why;
  if (lacks_work(p, 2 * static_cast<int64_t>(rows) + work_to_tend(1), &why)) return why;
  int32_t* const reserved = p.work.words;
  const auto is_due = [&](int i, bool is_reservation) {
    return p.pendings[i].step == step && (p.pendings[i].owner != kNobody) == is_reservation;
  };
  const auto gather = [&](int32_t* list, bool is_reservation) {
    return p.lanes.scan(
        rows, [&](int i) { return is_due(i, is_reservation); },
        [&](int i, int rank) {
          if (is_due(i, is_reservation)) list[rank] = p.pendings[i].entry;
        });
  };
  const int32_t published = gather(reserved, true);
  int32_t* const moved = reserved + published;
  const int32_t ready = gather(moved, false);
  int32_t* const news = moved + ready;
  int32_t* const left = news + published;
  const int32_t superseded = p.lanes.scan(
      published, [&](int i) { return count_superseded(p, reserved[i]); }, [](int, int) {});
  if (lacks_work(p, 2 * static_cast<int64_t>(published) + ready + superseded, &why) ||
      lacks_events(p, published + superseded, &why))
    return why;
  if (published > 0) {
    take_turns(p, step, published, reserved);
    publish(p, published, reserved, news, left);
  }
  p.lanes.one([&] {
    for (int32_t i = 0; i < ready; i++)
      if (!is_servable(p, moved[i])) forget_pending(p, moved[i]);  // unless it was superseded
    h.committed = step;
    h.num_admissions = keep_rows(p.admissions, h.num_admissions, [&](const Admission& row) { return row.step > step; });
    h.num_attachments =
        keep_rows(p.attachments, h.num_attachments, [&](const Attachment& row) { return row.step > step; });
    h.num_dependencies =
        keep_rows(p.dependencies, h.num_dependencies, [&](const Dependency& row) { return row.step > step; });
  });
  release_copies(p, step);
  return ok();
}

// --- attach ---------------------------------------------------------------------------------------------------------

/// Add a reference of a request that will read what the block's writer reserved (STEP-ATTACH-*).
template <class P>
KV_OPERATION Outcome attach(P& p, int32_t holder, int32_t id, const int32_t* key) {
  Header& h = *p.h;
  if (!p.has_steps() || has_no_open_step(p)) return refused(kNoOpenStep);
  if (is_copy(holder)) return refused(kInvalidArgument);
  if (!p.exists(id)) return refused(kInvalidBlock);
  Block& block = p.block(id);
  const int32_t e = entry_for(p, block, key);
  if (e == kNone || !is_attachable(p, e)) return refused(kNotCached);
  if (holds(p, block, holder)) return refused(kAlreadyHeld);
  Outcome why;
  if (lacks(p, kReaders, h.num_readers, 1, &why) || lacks(p, kDependencies, h.num_dependencies, 1, &why) ||
      lacks(p, kAttachments, h.num_attachments, 1, &why))
    return why;
  p.lanes.one([&] {
    const Pending& reservation = pending_of(p, e);
    block.references++;  // it was referenced, as its writer holds it
    serve(p, block, e, holder, free_reader(p, 0)).attached = reservation.step;
    h.num_readers++;
    p.holders[row_of_holder(holder)].references++;
    p.attachments[h.num_attachments++] = {id, holder, reservation.step};
    for (int64_t i = 0; i < h.num_dependencies; i++) {
      Dependency& known = p.dependencies[i];
      if (known.reader != holder || known.writer != reservation.owner) continue;
      if (known.step < reservation.step) known.step = reservation.step;
      return;
    }
    p.dependencies[h.num_dependencies++] = {holder, reservation.owner, reservation.step};
  });
  return ok();
}

// --- rollback and finish --------------------------------------------------------------------------------------------

/// Mark the requests and everyone who depends on one of them, directly or through others; `out` lists them, those given
/// first, and how many there are is returned (STEP-ROLLBACK-1).
template <class P>
KV_OPERATION int32_t mark_dependents(P& p, int32_t n, const int32_t* requests, int32_t* out) {
  p.lanes.one([&] {
    int32_t found = 0;
    const auto add = [&](int32_t holder) {
      int32_t& mark = p.holders[row_of_holder(holder)].mark;
      if (mark == 0) out[found++] = holder;
      mark = 1;
    };
    for (int32_t i = 0; i < n; i++) add(requests[i]);
    for (int32_t i = 0; i < found; i++)
      for (int64_t row = 0; row < p.h->num_dependencies; row++)
        if (p.dependencies[row].writer == out[i]) add(p.dependencies[row].reader);
    *p.work.cell = found;
  });
  return *p.work.cell;
}

template <class P>
KV_FN void unmark_holders(P& p, int32_t n, const int32_t* holders) {
  p.lanes.each(n, [&](int i) { p.holders[row_of_holder(holders[i])].mark = 0; });
}

/// Remove every reserved entry of the marked requests and the claims of what they attached (STEP-ROLLBACK-2).
/// The workspace has a word for each entry in flight.
template <class P>
KV_OPERATION void take_back(P& p) {
  Header& h = *p.h;
  const auto is_marked = [&](int32_t holder) {
    return holder != kNobody && p.holders[row_of_holder(holder)].mark != 0;
  };
  int32_t* const list = p.work.words;
  const int32_t leaving = p.lanes.scan(
      static_cast<int>(h.num_pendings), [&](int i) { return is_marked(p.pendings[i].owner); },
      [&](int i, int rank) {
        if (is_marked(p.pendings[i].owner)) list[rank] = p.pendings[i].entry;
      });
  p.lanes.one([&] {
    for (int32_t i = 0; i < leaving; i++) {
      int32_t* link_to_it = &p.block(p.entries[list[i]].block).first_entry;
      while (*link_to_it != list[i]) link_to_it = &p.entries[*link_to_it].next_of_block;
      *link_to_it = p.entries[list[i]].next_of_block;
    }
  });
  drop(p, leaving, list);
  p.lanes.one([&] {
    for (int64_t i = 0; i < h.num_attachments; i++) {
      const Attachment& row = p.attachments[i];
      if (!is_marked(row.reader)) continue;
      const int32_t found = reader_of(p, p.block(row.block), row.reader);
      if (found == kNone || p.readers[found].attached != row.step) continue;  // it let go of the block meanwhile
      auto& reader = p.readers[found];
      reader.position = reader.attached = 0;
      for (int word = 0; word < P::kDigestWords; word++) reader.digest[word] = 0;
    }
    h.num_attachments =
        keep_rows(p.attachments, h.num_attachments, [&](const Attachment& row) { return !is_marked(row.reader); });
    h.num_dependencies =
        keep_rows(p.dependencies, h.num_dependencies, [&](const Dependency& row) { return !is_marked(row.reader); });
  });
}

/// Take back what the requests have not committed, and everyone who depends on them; the first word of `out` says how
/// many they are, then come all of them (STEP-ROLLBACK-*).
template <class P>
KV_OPERATION Outcome rollback(P& p, int32_t n, const int32_t* requests, int32_t* out) {
  if (!p.has_steps()) return refused(kNoOpenStep);
  Outcome why;
  if (lacks_work(p, p.h->num_pendings, &why)) return why;
  const int32_t affected = mark_dependents(p, n, requests, out + 1);
  take_back(p);
  unmark_holders(p, affected, out + 1);
  p.lanes.one([&] { *out = affected; });
  return ok();
}

/// Roll the request back, then release its blocks; `out` as for `rollback` (STEP-FINISH-1).
template <class P>
KV_OPERATION Outcome finish(P& p, int32_t request, int32_t n, const int32_t* ids, int32_t* out) {
  if (is_copy(request)) return refused(kInvalidArgument);
  Outcome why;
  if (lacks_work(p, p.h->num_pendings + work_to_tend(n), &why)) return why;
  const int32_t affected = mark_dependents(p, 1, &request, out + 1);
  why = check_releases(p, request, n, ids);
  if (why.code == kOk) {
    take_back(p);
    release(p, request, n, ids);
    p.lanes.one([&] { *out = affected; });
  }
  unmark_holders(p, affected, out + 1);
  return why;
}

}  // namespace kvproof
