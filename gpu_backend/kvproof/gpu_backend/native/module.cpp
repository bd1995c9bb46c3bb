// The extension module `kvproof.gpu_backend._core`: the core for the host, entered without a detour.
#include "check.h"
#include "py_operations.h"

namespace kvproof {
namespace {

// --- settings and room ----------------------------------------------------------------------------------------------

/// (num_blocks, h, digest_words, is_named, has_steps, is_per_copy, tells_events), the number of groups, and the rows
/// that each region is to have.
bool plan_arena(PyObject* settings, Py_ssize_t num_groups, PyObject* rows, Header* h) {
  long long blocks, unit, words, named, steps, per_copy, events;
  if (!PyArg_ParseTuple(settings, "LLLLLLL", &blocks, &unit, &words, &named, &steps, &per_copy, &events)) return false;
  *h = Header{};
  h->num_blocks = blocks;
  h->hash_block_size = unit;
  h->num_groups = num_groups;
  h->digest_words = words;
  h->is_named = named;
  h->has_steps = steps;
  h->is_per_copy = per_copy;
  h->tells_events = events;
  h->words_of_block = words_of_block(named != 0, steps != 0);
  int64_t asked[kRegions];
  for (int region = 0; region < kRegions; region++) {
    PyObject* const item = PyTuple_GetItem(rows, region);
    if (item == nullptr) return false;
    asked[region] = PyLong_AsLongLong(item);
    if (asked[region] == -1 && PyErr_Occurred()) return false;
  }
  if (set_rows(*h, asked)) return true;
  PyErr_Format(PyExc_OverflowError, "an arena's region has at most %lld rows", static_cast<long long>(kMostRows));
  return false;
}

/// plan(settings, num_groups, rows) -> how many words the arena needs
PyObject* core_plan(PyObject*, PyObject* args) {
  PyObject *settings, *rows;
  Py_ssize_t num_groups;
  Header h;
  if (!PyArg_ParseTuple(args, "O!nO!", &PyTuple_Type, &settings, &num_groups, &PyTuple_Type, &rows) ||
      !plan_arena(settings, num_groups, rows, &h))
    return nullptr;
  return PyLong_FromLongLong(h.words);
}

/// Take hold of an arena's memory.
bool take_buffer(PyObject* memory, int64_t words, Py_buffer* buffer) {
  constexpr const char* kWanted = "a writable vector of as many 32-bit integers as planned, aligned to 8 bytes";
  if (PyObject_GetBuffer(memory, buffer, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) != 0) {
    if (PyErr_ExceptionMatches(PyExc_MemoryError)) return false;
    PyErr_Clear();
    return wrong_type("an arena's memory", memory, kWanted);
  }
  if (buffer->ndim == 1 && buffer->itemsize == 4 && buffer->format != nullptr && strchr("il", *buffer->format) &&
      buffer->len == words * 4 && reinterpret_cast<uintptr_t>(buffer->buf) % alignof(Header) == 0)
    return true;
  PyBuffer_Release(buffer);
  return wrong_type("an arena's memory", memory, kWanted);
}

/// pool._open(memory, settings, groups, rows, seed, seed_digest): a new pool in this memory; groups are (kind, size).
PyObject* pool_open(PyObject* self, PyObject* args) {
  PyObject *memory, *settings, *groups, *rows;
  unsigned long long seed[2];
  const char* seed_digest;
  Py_ssize_t seed_bytes;
  Header h;
  if (!PyArg_ParseTuple(args, "OO!O!O!(KK)y#", &memory, &PyTuple_Type, &settings, &PyTuple_Type, &groups, &PyTuple_Type,
                        &rows, &seed[0], &seed[1], &seed_digest, &seed_bytes) ||
      !plan_arena(settings, PyTuple_GET_SIZE(groups), rows, &h))
    return nullptr;
  PoolObject& pool = pool_of(self);
  if (pool.is_open || seed_bytes != 4 * h.digest_words) {
    PyErr_SetString(PyExc_ValueError, "the pool is open already, or the seed digest is of another contract");
    return nullptr;
  }
  Buffer<Group> kinds;
  bool made = kinds.reserve(h.num_groups);
  for (Py_ssize_t i = 0; made && i < h.num_groups; i++) {
    long long size;
    int kind;
    made = PyArg_ParseTuple(PyTuple_GET_ITEM(groups, i), "iL", &kind, &size);
    if (made) kinds.data[i] = {size, kind, 0};
  }
  h.seed[0] = static_cast<int64_t>(seed[0]);
  h.seed[1] = static_cast<int64_t>(seed[1]);
  if (pool.ids == nullptr) pool.ids = PyDict_New();
  if (pool.names == nullptr) pool.names = Py_BuildValue("[O]", Py_None);  // row 0 is nobody
  made = made && pool.ids != nullptr && pool.names != nullptr && pool.work.reserve(kFirstWork) &&
         pool.texts.reserve(1) && pool.chains.reserve(1) && take_buffer(memory, h.words, &pool.arena);
  if (made) format_arena(arena_of(pool), h, kinds.data);
  kinds.release();
  if (!made) return nullptr;
  memcpy(pool.seed_digest, seed_digest, static_cast<size_t>(seed_bytes));
  pool.digest_words = static_cast<int>(h.digest_words);
  pool.texts.data[0] = nullptr;
  pool.chains.data[0] = nullptr;
  pool.num_texts = 1;
  pool.purge_at = kFewTexts;
  pool.is_open = true;
  Py_RETURN_NONE;
}

/// pool._adopt(memory, settings, num_groups, rows): go on in larger memory.
PyObject* pool_adopt(PyObject* self, PyObject* args) {
  PyObject *memory, *settings, *rows;
  Py_ssize_t num_groups;
  Header h;
  Py_buffer buffer;
  if (!is_made(self) || !PyArg_ParseTuple(args, "OO!nO!", &memory, &PyTuple_Type, &settings, &num_groups, &PyTuple_Type, &rows) ||
      !plan_arena(settings, num_groups, rows, &h) || !take_buffer(memory, h.words, &buffer))
    return nullptr;
  PoolObject& pool = pool_of(self);
  int32_t* const larger = static_cast<int32_t*>(buffer.buf);
  pool.digest_words == 4 ? transfer<4>(arena_of(pool), larger, h) : transfer<8>(arena_of(pool), larger, h);
  PyBuffer_Release(&pool.arena);
  pool.arena = buffer;
  Py_RETURN_NONE;
}

/// What is wrong with a pool's arena, null if nothing is.
const char* problem_of(const PoolObject& pool) {
  if (!is_arena(arena_of(pool), pool.arena.len / 4) || header_of(pool).digest_words != pool.digest_words)
    return "its header describes no arena";
  return pool.digest_words == 4 ? ArenaCheck<4>(arena_of(pool)).problem() : ArenaCheck<8>(arena_of(pool)).problem();
}

/// pool._problem() -> what is wrong with the state, None if nothing is
PyObject* pool_problem(PyObject* self, PyObject*) {
  const Entered entered(self, "check");
  if (!entered) return nullptr;
  const char* const found = problem_of(pool_of(self));
  return found == nullptr ? Py_NewRef(Py_None) : PyUnicode_FromString(found);
}

/// pool._behind() -> (names by row, texts by number, events that the ring had no room for)
PyObject* pool_behind(PyObject* self, PyObject*) {
  if (!is_made(self)) return nullptr;
  PoolObject& pool = pool_of(self);
  PyObject* const texts = PyList_New(static_cast<Py_ssize_t>(pool.num_texts));
  for (int64_t i = 0; texts != nullptr && i < pool.num_texts; i++) {
    PyObject* const text = i == 0 ? nullptr : reinterpret_cast<PyObject*>(pool.texts.data[i]);
    PyList_SET_ITEM(texts, static_cast<Py_ssize_t>(i), Py_NewRef(text == nullptr ? Py_None : text));
  }
  const char* const told = pool.num_told > 0 ? reinterpret_cast<const char*>(pool.told.data) : "";
  return Py_BuildValue("(NNy#)", PySequence_List(pool.names), texts, told,
                       static_cast<Py_ssize_t>(4 * pool.num_told * words_of_event(pool)));
}

/// Whether an event names a text that is there, and hashes that it has.
bool is_event(const PoolObject& pool, const int32_t* words) {
  const Header& h = header_of(pool);
  if (words[0] == kRemoved || words[0] == kCleared) return true;
  if (words[0] != kStored || words[1] < 0 || words[1] >= h.num_groups) return false;
  const int32_t *run = words + 2, number = run[0];
  if (number < 1 || number >= pool.num_texts || pool.texts.data[number] == nullptr || run[1] < 1 || run[2] < 1)
    return false;
  const int64_t size = rows_of<Group>(h, kGroups)[words[1]].block_size;
  const int64_t hashed = pool.chains.data[number]->count * h.hash_block_size;
  return run[3] >= 0 && run[3] < run[1] && size <= INT32_MAX && run[1] + (run[2] - 1) * size <= hashed;
}

/// Whether all names and texts that the arena speaks of are there.
bool is_complete(const PoolObject& pool) {
  const Header& h = header_of(pool);
  if (PyList_GET_SIZE(pool.names) < 1 || (h.is_named && PyList_GET_SIZE(pool.names) > h.rows[kHolders])) return false;
  const auto is_named = [&](int32_t holder) {
    const int32_t row = row_of_holder(holder);
    return holder == kNobody || (row < PyList_GET_SIZE(pool.names) && PyList_GET_ITEM(pool.names, row) != Py_None &&
                                 begins_with(PyList_GET_ITEM(pool.names, row), kCopyPrefix) == is_copy(holder));
  };
  const int32_t* const blocks = rows_of<int32_t>(h, kBlocks);
  for (int64_t id = 0; h.is_named && id < h.num_blocks; id++) {
    const Block& block = *reinterpret_cast<const Block*>(blocks + id * h.words_of_block);
    if (!is_named(block.writer)) return false;
    for (int32_t row = block.readers; row != kNone;) {
      const int32_t* const reader = rows_of<int32_t>(h, kReaders) + row * words_of_row(h, kReaders);
      if (!is_named(reader[0])) return false;
      row = reader[1];
    }
  }
  for (int64_t i = 0; i < h.num_pendings; i++) {
    const Pending& pending = rows_of<Pending>(h, kPendings)[i];
    if (!is_named(pending.owner)) return false;
    if (!h.tells_events || pending.owner == kNobody) continue;
    if (pending.text < 1 || pending.text >= pool.num_texts || pool.texts.data[pending.text] == nullptr ||
        pending.position > pool.chains.data[pending.text]->count * h.hash_block_size)
      return false;
  }
  for (int64_t i = 0; i < h.num_attachments; i++)
    if (!is_named(rows_of<Attachment>(h, kAttachments)[i].reader)) return false;
  for (int64_t i = 0; i < h.num_admissions; i++)
    if (!is_named(rows_of<Admission>(h, kAdmissions)[i].request)) return false;
  for (int64_t i = 0; i < h.num_dependencies; i++)
    if (!is_named(rows_of<Dependency>(h, kDependencies)[i].reader) ||
        !is_named(rows_of<Dependency>(h, kDependencies)[i].writer))
      return false;
  const int64_t words = words_of_event(pool);
  for (int64_t i = 0; i < pool.num_told; i++)
    if (!is_event(pool, pool.told.data + i * words)) return false;
  for (int64_t i = 0; i < h.num_events; i++)
    if (!is_event(pool, rows_of<int32_t>(h, kEvents) + (h.first_event + i) % h.rows[kEvents] * words)) return false;
  return true;
}

/// pool._put_behind(names, texts, told): the other way round, for an arena that was copied into the pool's memory.
/// Returns what is wrong with the state, None if nothing is.
PyObject* pool_put_behind(PyObject* self, PyObject* args) {
  PyObject *names, *texts;
  const char* told;
  Py_ssize_t told_bytes;
  if (!PyArg_ParseTuple(args, "O!O!y#", &PyList_Type, &names, &PyList_Type, &texts, &told, &told_bytes)) return nullptr;
  const Entered entered(self, "restore");
  if (!entered) return nullptr;
  PoolObject& pool = pool_of(self);
  if (const char* const found = problem_of(pool)) return PyUnicode_FromString(found);
  const int64_t words = words_of_event(pool), count = PyList_GET_SIZE(texts);
  if (told_bytes % (4 * words) != 0 || count < 1) return PyUnicode_FromString("its events or texts were cut");
  if (!pool.told.reserve(told_bytes / 4) || !pool.texts.reserve(count) || !pool.chains.reserve(count) ||
      !pool.free_texts.reserve(count) || !pool.free_rows.reserve(PyList_GET_SIZE(names)))
    return nullptr;
  if (told_bytes > 0) memcpy(pool.told.data, told, static_cast<size_t>(told_bytes));
  pool.num_told = told_bytes / 4 / words;
  for (int64_t i = 1; i < count; i++) {
    PyObject* const text = PyList_GET_ITEM(texts, i);
    const bool is_there = Py_TYPE(text) == text_type();
    pool.texts.data[i] = is_there ? reinterpret_cast<Text*>(Py_NewRef(text)) : nullptr;
    pool.chains.data[i] = is_there ? &pool.texts.data[i]->chain : nullptr;
    if (!is_there) pool.free_texts.data[pool.num_free_texts++] = static_cast<int32_t>(i);
    pool.num_texts = i + 1;
  }
  for (Py_ssize_t row = 1; row < PyList_GET_SIZE(names); row++) {
    PyObject* const name = PyList_GET_ITEM(names, row);
    if (PyList_Append(pool.names, name) != 0) return nullptr;
    if (!is_name(name)) {
      pool.free_rows.data[pool.num_free_rows++] = static_cast<int32_t>(row);
      continue;
    }
    PyObject* const id = PyLong_FromSsize_t(2 * row + begins_with(name, kCopyPrefix));
    const bool stored = id != nullptr && PyDict_SetItem(pool.ids, name, id) == 0;
    Py_XDECREF(id);
    if (!stored) return nullptr;
  }
  if (PyDict_GET_SIZE(pool.ids) + pool.num_free_rows + 1 != PyList_GET_SIZE(names) || !is_complete(pool))
    return PyUnicode_FromString("a name or a text is missing");
  Py_RETURN_NONE;
}

/// pool._rows() -> how many rows each region has
PyObject* pool_rows(PyObject* self, PyObject*) {
  if (!is_made(self)) return nullptr;
  PyObject* const rows = PyTuple_New(kRegions);
  for (int region = 0; rows != nullptr && region < kRegions; region++)
    PyTuple_SET_ITEM(rows, region, PyLong_FromLongLong(header_of(pool_of(self)).rows[region]));
  return filled(rows);
}

// --- what lies behind the core's numbers ----------------------------------------------------------------------------

/// One event as (kind, group, text, first, count, parent) or (kind, group, digest).
PyObject* event_of(const PoolObject& pool, const int32_t* words) {
  if (words[0] == kStored) {
    const int32_t* const run = words + 2;
    return Py_BuildValue("(iiOiii)", words[0], words[1], pool.texts.data[run[0]], run[1], run[2], run[3]);
  }
  return Py_BuildValue("(iiy#)", words[0], words[1], words + 2, static_cast<Py_ssize_t>(4 * pool.digest_words));
}

/// pool._events(): the events since the last time; they stay until they are dropped (EVENT-DRAIN-1).
PyObject* pool_events(PyObject* self, PyObject*) {
  if (!is_made(self)) return nullptr;
  PoolObject& pool = pool_of(self);
  Header& h = header_of(pool);
  PyObject* const events = PyList_New(static_cast<Py_ssize_t>(pool.num_told + h.num_events));
  for (int64_t i = 0; events != nullptr && i < pool.num_told + h.num_events; i++) {
    const int32_t* const table = i < pool.num_told ? pool.told.data : rows_of<int32_t>(h, kEvents);
    const int64_t row = i < pool.num_told ? i : (h.first_event + i - pool.num_told) % h.rows[kEvents];
    PyObject* const event = event_of(pool, table + row * words_of_event(pool));
    if (event == nullptr) {
      Py_DECREF(events);
      return nullptr;
    }
    PyList_SET_ITEM(events, static_cast<Py_ssize_t>(i), event);
  }
  return events;
}

/// pool._drop_events(): all events are taken.
PyObject* pool_drop_events(PyObject* self, PyObject*) {
  if (!is_made(self)) return nullptr;
  PoolObject& pool = pool_of(self);
  Header& h = header_of(pool);
  pool.num_told = h.first_event = h.num_events = 0;
  if (!purge_texts(pool)) PyErr_Clear();  // without memory it is done another time
  Py_RETURN_NONE;
}

/// with pool._hold(operation): inside an operation that is made of several calls. An interrupt can come between any two
/// steps of the interpreter; so nobody has the hand but the `with` statement, and without it the pool is free again.
PyObject* pool_hold(PyObject* self, PyObject* operation) {
  if (PyUnicode_AsUTF8(operation) == nullptr) return nullptr;
  Hand* const hand = PyObject_New(Hand, hand_type());
  if (hand == nullptr) return nullptr;
  hand->pool = Py_NewRef(self);
  hand->operation = Py_NewRef(operation);
  hand->is_in = false;
  return reinterpret_cast<PyObject*>(hand);
}

/// pool._hand: what makes the calls of the operation that the pool is inside of
PyObject* pool_hand(PyObject* self, void*) {
  PyObject* const hand = pool_of(self).hand;
  if (hand == nullptr) return raise_concurrent("a call without the operation that it is of"), nullptr;
  return Py_NewRef(hand);
}

/// pool._numbers(names) -> the number of each holder, for a program that is run next
PyObject* pool_numbers(PyObject* self, PyObject* names) {
  if (!is_made(self)) return nullptr;
  const KeptItems kept("names", names);
  if (!kept) return nullptr;
  if (!header_of(pool_of(self)).is_named) return PyList_New(0);  // nobody has a name here
  if (!make_rows(self, kept.n)) return nullptr;
  PyObject* const numbers = PyList_New(kept.n);
  for (Py_ssize_t i = 0; numbers != nullptr && i < kept.n; i++) {
    int32_t number;
    if (!check_name("holder", kept.items[i]) || !number_name(pool_of(self), kept.items[i], &number)) {
      Py_DECREF(numbers);
      return nullptr;
    }
    PyList_SET_ITEM(numbers, i, PyLong_FromLong(number));
  }
  return filled(numbers);
}

/// pool._keep(requests) -> the number of each request's text, for a program that is run next
PyObject* pool_keep(PyObject* self, PyObject* requests) {
  PyObject** items;
  Py_ssize_t n;
  if (!is_made(self) || !as_items("requests", requests, &items, &n)) return nullptr;
  PyObject* const numbers = PyList_New(n);
  for (Py_ssize_t i = 0; numbers != nullptr && i < n; i++) {
    int32_t number;
    if (!check_request(pool_of(self), items[i]) || !keep_text(pool_of(self), text_of(items[i]), &number)) {
      Py_DECREF(numbers);
      return nullptr;
    }
    PyList_SET_ITEM(numbers, i, PyLong_FromLong(number));
  }
  return filled(numbers);
}

/// pool._run(words) -> (words of results, the operation that was refused or -1, its error, the item that is to blame)
PyObject* pool_run(PyObject* self, PyObject* memory) {
  if (!is_made(self)) return nullptr;
  PoolObject& pool = pool_of(self);
  Py_buffer words;
  if (PyObject_GetBuffer(memory, &words, PyBUF_SIMPLE) != 0) return nullptr;
  const int64_t count = words.len / 4;
  Result done = {ok(), 0, 0, 0};
  bool ran = pool.program.reserve(count + 1);
  if (ran) memcpy(pool.program.data, words.buf, static_cast<size_t>(count) * 4);
  PyBuffer_Release(&words);
  ran = ran && run_until_refused(self, count, 0, &done);
  if (!ran) return nullptr;
  if (!header_of(pool).tells_events && !purge_texts(pool)) return nullptr;  // nobody takes events, which does it else
  const bool is_refused = done.outcome.code != kOk;
  const char* const error = done.outcome.code < kGrow ? kErrorNames[done.outcome.code] : "InvalidArgument";
  return Py_BuildValue("(y#Lsi)", pool.out.room > 0 ? reinterpret_cast<const char*>(pool.out.data) : "",
                       static_cast<Py_ssize_t>(4 * done.results),
                       is_refused ? static_cast<long long>(done.operation) : -1LL, error, done.outcome.detail);
}

PyObject* pool_names(PyObject* self, void*) {
  return is_made(self) ? PySequence_List(pool_of(self).names) : nullptr;
}

PyObject* pool_num_free(PyObject* self, void*) {
  return is_made(self) ? PyLong_FromLongLong(header_of(pool_of(self)).num_free) : nullptr;
}

PyObject* pool_current(PyObject* self, void*) {
  return is_made(self) ? PyLong_FromLongLong(header_of(pool_of(self)).current) : nullptr;
}

PyObject* pool_committed(PyObject* self, void*) {
  return is_made(self) ? PyLong_FromLongLong(header_of(pool_of(self)).committed) : nullptr;
}

PyObject* pool_is_made(PyObject* self, void*) { return PyBool_FromLong(pool_of(self).is_open); }

PyObject* make_pool(PyTypeObject* type, PyObject*, PyObject*) { return type->tp_alloc(type, 0); }

void free_pool(PyObject* self) {
  PoolObject& pool = pool_of(self);
  if (pool.is_open) PyBuffer_Release(&pool.arena);
  for (int64_t i = 1; i < pool.num_texts; i++) Py_XDECREF(pool.texts.data[i]);
  for (Buffer<int32_t>* buffer :
       {&pool.program, &pool.out, &pool.work, &pool.free_rows, &pool.free_texts, &pool.told})
    buffer->release();
  pool.texts.release();
  pool.chains.release();
  Py_XDECREF(pool.ids);
  Py_XDECREF(pool.names);
  PyTypeObject* const type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

#define KV_METHOD(name, arguments, text) \
  {#name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(pool_##name)), METH_FASTCALL | METH_KEYWORDS, \
   KV_DOC(#name, "$self" arguments, text)}

#define KV_OPERATIONS \
  KV_METHOD(allocate, ", n, holder=None", "Take n blocks from the front of the queue for `holder` (POOL-ALLOC-*)."), \
  KV_METHOD(touch, ", block_id, key, holder=None", \
            "Add a reference to a block that has `key` to serve (POOL-TOUCH-*)."), \
  KV_METHOD(touch_all, ", block_ids, keys, holder=None", "Touch several blocks, each with its key; all or none."), \
  KV_METHOD(free, ", block_ids, holder=None", "Drop one reference for each id in the order given (POOL-FREE-*)."), \
  KV_METHOD(lookup, ", keys", "For each key the block that serves it, or None (POOL-LOOKUP-*)."), \
  KV_METHOD(lookup_longest, ", keys", "The blocks that serve the first keys, up to the first miss."), \
  KV_METHOD(find, ", keys", "For each key (block, reserved, writer, pending) (STEP-LOOKUP-*)."), \
  KV_METHOD(find_matrix, ", request", "Where all keys of the request are, in all groups, as three tables of words."), \
  KV_METHOD(uses, ", block_ids, holder", \
            "For each block its `BlockUse`: references, whether `holder` holds and writes it, how far it is " \
            "named, read."), \
  KV_METHOD(num_held, ", holder=None", \
            "How many blocks `holder` holds; with anonymous references, how many are held."), \
  KV_METHOD(contains, ", key, block_id", "Whether the block has the key, reserved or committed (POOL-CONTAINS-1)."), \
  KV_METHOD(full_key, ", block_id", "The block's servable key at the end of its slot (POOL-CONTAINS-2)."), \
  KV_METHOD(cache_full_blocks, ", request, block_ids, first, last, group, mask=None, replace=False", \
            "Register the full keys of the slots first .. last-1 (REG-FULL-*)."), \
  KV_METHOD(cache_slots, ", request, block_ids, first, group, replace=False", \
            "Register the full keys of the slots from `first` on, one for each block; null leaves its slot out " \
            "(REG-FULL-*)."), \
  KV_METHOD(cache_partial_block, ", request, block_id, position, group, replace=False", \
            "Register one key (REG-PARTIAL-*)."), \
  KV_METHOD(evict, ", block_ids", "Drop all keys of the blocks (POOL-EVICT-*)."), \
  KV_METHOD(move, ", src_id, dst_id", "Hand all keys of one block to another (POOL-MOVE-*)."), \
  KV_METHOD(copy, ", src_id, dst_id, holder=None", \
            "Copy what `holder` may read of `src_id` to `dst_id` (CONTENT-COPY-*)."), \
  KV_METHOD(write, ", request, block_id, position, group", \
            "Check that the request may leave so many tokens in the block (CONTENT-WRITE-*)."), \
  KV_METHOD(read, ", block_id, holder=None", "Check that the holder may read the block (CONTENT-READ-1)."), \
  KV_METHOD(reset, "", "Forget every key (POOL-RESET-*)."), \
  KV_METHOD(begin_step, "", "Open the next step and return its number (STEP-OPEN-1)."), \
  KV_METHOD(commit, ", step", "Publish the entries of the step (STEP-COMMIT-*)."), \
  KV_METHOD(attach, ", block_id, key, holder", \
            "Add a reference to a block that has `key` reserved (STEP-ATTACH-*)."), \
  KV_METHOD(rollback, ", requests", "Take back what the requests have not committed (STEP-ROLLBACK-*)."), \
  KV_METHOD(finish, ", request_id, block_ids", "Roll the request back, then free its blocks (STEP-FINISH-1)."),

PyMethodDef kPoolMethods[] = {
    KV_OPERATIONS
    {"_open", pool_open, METH_VARARGS,
     KV_DOC("_open", "$self, memory, settings, groups, rows, seed, seed_digest, /", "Make a new pool in this memory.")},
    {"_adopt", pool_adopt, METH_VARARGS,
     KV_DOC("_adopt", "$self, memory, settings, num_groups, rows, /", "Go on in larger memory.")},
    {"_rows", pool_rows, METH_NOARGS, KV_DOC("_rows", "$self, /", "How many rows each region has.")},
    {"_events", pool_events, METH_NOARGS, KV_DOC("_events", "$self, /", "The events since the last time.")},
    {"_drop_events", pool_drop_events, METH_NOARGS, KV_DOC("_drop_events", "$self, /", "All events are taken.")},
    {"_numbers", pool_numbers, METH_O,
     KV_DOC("_numbers", "$self, names, /", "The number of each holder, for a program that is run next.")},
    {"_keep", pool_keep, METH_O,
     KV_DOC("_keep", "$self, requests, /", "The number of each request's text, for a program that is run next.")},
    {"_run", pool_run, METH_O,
     KV_DOC("_run", "$self, words, /", "Run a program up to the first operation that is refused.")},
    {"_hold", pool_hold, METH_O,
     KV_DOC("_hold", "$self, operation, /",
            "For a `with` statement: the hand that makes the calls of an operation of several calls.")},
    {"_problem", pool_problem, METH_NOARGS,
     KV_DOC("_problem", "$self, /", "What is wrong with the state, None if nothing is.")},
    {"_behind", pool_behind, METH_NOARGS,
     KV_DOC("_behind", "$self, /", "Names by row, texts by number, events that the ring had no room for.")},
    {"_put_behind", pool_put_behind, METH_VARARGS,
     KV_DOC("_put_behind", "$self, names, texts, told, /",
            "Put them there; what is wrong with the state, None if nothing is.")},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef kPoolProperties[] = {
    {"num_free", pool_num_free, nullptr, "How many blocks can be allocated now.", nullptr},
    {"last_committed_step", pool_committed, nullptr, "The last committed step, 0 before the first.", nullptr},
    {"current_step", pool_current, nullptr, "The step that was begun last, 0 before the first.", nullptr},
    {"_names", pool_names, nullptr, "The name of each holder row.", nullptr},
    {"_hand", pool_hand, nullptr, "What makes the calls of the operation that the pool is inside of.", nullptr},
    {"_is_made", pool_is_made, nullptr, "Whether it has an arena.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot kPoolSlots[] = {{Py_tp_new, reinterpret_cast<void*>(make_pool)},
                            {Py_tp_dealloc, reinterpret_cast<void*>(free_pool)},
                            {Py_tp_methods, kPoolMethods},
                            {Py_tp_getset, kPoolProperties},
                            {0, nullptr}};
PyType_Spec kPoolSpec = {"kvproof.gpu_backend._core.PoolBase", sizeof(PoolObject), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, kPoolSlots};

// --- the hand of a pool ---------------------------------------------------------------------------------------------

PyObject* hand_num_free(PyObject* self, void*) { return pool_num_free(reinterpret_cast<Hand*>(self)->pool, nullptr); }

PyObject* hand_enter(PyObject* self, PyObject*) {
  Hand& hand = *reinterpret_cast<Hand*>(self);
  if (!is_made(hand.pool) || !enter(&pool_of(hand.pool).is_busy, PyUnicode_AsUTF8(hand.operation))) return nullptr;
  pool_of(hand.pool).hand = self;
  hand.is_in = true;
  return Py_NewRef(self);
}

void let_go(PyObject* self) {
  Hand& hand = *reinterpret_cast<Hand*>(self);
  if (!hand.is_in) return;
  hand.is_in = false;
  pool_of(hand.pool).hand = nullptr;
  leave(&pool_of(hand.pool).is_busy);
}

PyObject* hand_exit(PyObject* self, PyObject*) {
  let_go(self);
  Py_RETURN_NONE;
}

void free_hand(PyObject* self) {
  let_go(self);
  Py_DECREF(reinterpret_cast<Hand*>(self)->pool);
  Py_DECREF(reinterpret_cast<Hand*>(self)->operation);
  PyTypeObject* const type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyMethodDef kHandMethods[] = {
    KV_OPERATIONS
    {"__enter__", hand_enter, METH_NOARGS, nullptr},
    {"__exit__", hand_exit, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef kHandProperties[] = {
    {"num_free", hand_num_free, nullptr, "How many blocks can be allocated now.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot kHandSlots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(free_hand)},
                            {Py_tp_methods, kHandMethods},
                            {Py_tp_getset, kHandProperties},
                            {0, nullptr}};
PyType_Spec kHandSpec = {"kvproof.gpu_backend._core.Hand", sizeof(Hand), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, kHandSlots};

// --- the module -----------------------------------------------------------------------------------------------------

/// word(wrong_type, out_of_range, refusal, concurrent): the functions that word the errors.
PyObject* core_word(PyObject*, PyObject* args) {
  Wording& known = wording();
  if (!PyArg_ParseTuple(args, "OOOO", &known.wrong_type, &known.out_of_range, &known.refusal, &known.concurrent))
    return nullptr;
  for (PyObject* function : {known.wrong_type, known.out_of_range, known.refusal, known.concurrent})
    Py_INCREF(function);
  Py_RETURN_NONE;
}

/// digest(words, data): XXH3-128 or SHA-256, by the size of their digests in words.
PyObject* core_digest(PyObject*, PyObject* args) {
  int words;
  Py_buffer data;
  if (!PyArg_ParseTuple(args, "iy*", &words, &data)) return nullptr;
  uint8_t digest[32];
  const uint8_t* const bytes = static_cast<const uint8_t*>(data.buf);
  const uint64_t n = static_cast<uint64_t>(data.len);
  words == 4 ? xxh3_128(bytes, n, digest) : sha_256(bytes, n, digest);
  PyBuffer_Release(&data);
  return PyBytes_FromStringAndSize(reinterpret_cast<char*>(digest), words == 4 ? 16 : 32);
}

/// A field of a row by its name, and where the compiler has put it; so a name is never that of another field.
struct Field {
  const char* name;
  size_t at, bytes;
};
#define KV_FIELD(row, field) Field{#field, offsetof(row, field), sizeof(row::field)}

/// How many bytes all fields have together; a row whose fields are all named has no more.
template <size_t N>
constexpr size_t bytes_of(const Field (&fields)[N]) {
  size_t bytes = 0;
  for (const Field& field : fields) bytes += field.bytes;
  return bytes;
}

#define KV_FIELDS(name, row, ...) \
  constexpr Field name[] = {__VA_ARGS__}; \
  static_assert(bytes_of(name) == sizeof(row), "every field of a row is named once")

#define F(field) KV_FIELD(Header, field)
KV_FIELDS(kHeaderFields, Header, F(version), F(words), F(num_blocks), F(hash_block_size), F(num_groups),
          F(digest_words), F(words_of_block), F(is_named), F(has_steps), F(is_per_copy), F(tells_events), F(seed),
          F(offset), F(rows), F(num_free), F(ring_head), F(ring_span), F(unswept), F(swept), F(num_entries),
          F(num_readers), F(num_pendings), F(num_dependencies), F(num_attachments), F(num_admissions), F(num_copies),
          F(first_event), F(num_events), F(current), F(committed), F(calls), F(registrations));
#undef F
#define F(field) KV_FIELD(Group, field)
KV_FIELDS(kGroupFields, Group, F(block_size), F(kind), F(unused));
#undef F
#define F(field) KV_FIELD(Block, field)
KV_FIELDS(kBlockFields, Block, F(references), F(place), F(first_entry), F(group), F(slot), F(writer), F(readers),
          F(born), F(writer_kept));
#undef F
#define F(field) KV_FIELD(Entry<4>, field)
KV_FIELDS(kEntryFields, Entry<4>, F(digest), F(block), F(next_in_bucket), F(next_of_key), F(previous_of_key),
          F(next_of_block), F(position));
#undef F
#define F(field) KV_FIELD(Reader<4>, field)
KV_FIELDS(kReaderFields, Reader<4>, F(holder), F(next), F(position), F(attached), F(kept), F(digest));
#undef F
#define F(field) KV_FIELD(HolderRow, field)
KV_FIELDS(kHolderFields, HolderRow, F(references), F(admitted), F(mark));
#undef F
#define F(field) KV_FIELD(Pending, field)
KV_FIELDS(kPendingFields, Pending, F(entry), F(position), F(step), F(owner), F(text), F(call), F(order), F(is_fresh));
#undef F
#define F(field) KV_FIELD(Dependency, field)
KV_FIELDS(kDependencyFields, Dependency, F(reader), F(writer), F(step));
#undef F
#define F(field) KV_FIELD(Attachment, field)
KV_FIELDS(kAttachmentFields, Attachment, F(block), F(reader), F(step));
#undef F
#define F(field) KV_FIELD(Admission, field)
KV_FIELDS(kAdmissionFields, Admission, F(step), F(request));
#undef F
#define F(field) KV_FIELD(CopyInFlight, field)
KV_FIELDS(kCopyFields, CopyInFlight, F(step), F(source), F(target), F(holder));
#undef F

struct NamedRegion {
  const char* name;
  Region number;
};
constexpr NamedRegion kNamedRegions[] = {
    {"groups", kGroups}, {"blocks", kBlocks}, {"ring", kRing}, {"buckets", kBuckets},
    {"free_entries", kFreeEntries}, {"entries", kEntries}, {"free_readers", kFreeReaders}, {"readers", kReaders},
    {"holders", kHolders}, {"pendings", kPendings}, {"dependencies", kDependencies},
    {"attachments", kAttachments}, {"admissions", kAdmissions}, {"copies", kCopies}, {"events", kEvents}};
static_assert(sizeof(kNamedRegions) / sizeof(*kNamedRegions) == kRegions, "every region has a name");

/// opcodes(): the number of each operation.
PyObject* core_opcodes(PyObject*, PyObject*) {
  PyObject* const opcodes = PyDict_New();
  bool made = opcodes != nullptr;
  for (int opcode = 1; made && opcode < kOpEnd; opcode++) {
    PyObject* const number = PyLong_FromLong(opcode);
    made = number != nullptr && PyDict_SetItemString(opcodes, kOpcodeNames[opcode - 1], number) == 0;
    Py_XDECREF(number);
  }
  if (made) return opcodes;
  Py_XDECREF(opcodes);
  return nullptr;
}

/// Name -> (place, size) in a dictionary, in units of so many bytes.
bool put_field(PyObject* fields, const Field& field, size_t unit) {
  PyObject* const where = Py_BuildValue("(nn)", static_cast<Py_ssize_t>(field.at / unit),
                                        static_cast<Py_ssize_t>(field.bytes / unit));
  const bool put = where != nullptr && PyDict_SetItemString(fields, field.name, where) == 0;
  Py_XDECREF(where);
  return put;
}

template <size_t N>
PyObject* fields_of(const Field (&named)[N], size_t unit) {
  PyObject* const fields = PyDict_New();
  bool made = fields != nullptr;
  for (const Field& field : named) made = made && put_field(fields, field, unit);
  if (made) return fields;
  Py_XDECREF(fields);
  return nullptr;
}

/// layout(): place and size of each number of the header, in 64-bit numbers; the number of each region; and place and
/// size of each field of a row, in words, where a digest has four.
PyObject* core_layout(PyObject*, PyObject*) {
  constexpr size_t kWord = sizeof(int32_t);
  PyObject* const regions = PyDict_New();
  if (regions == nullptr) return nullptr;
  for (const NamedRegion& region : kNamedRegions) {
    PyObject* const number = PyLong_FromLong(region.number);
    const bool put = number != nullptr && PyDict_SetItemString(regions, region.name, number) == 0;
    Py_XDECREF(number);
    if (put) continue;
    Py_DECREF(regions);
    return nullptr;
  }
  return Py_BuildValue("(NN{sNsNsNsNsNsNsNsNsNsN})", fields_of(kHeaderFields, sizeof(int64_t)), regions,
                       "groups", fields_of(kGroupFields, kWord), "blocks", fields_of(kBlockFields, kWord),
                       "entries", fields_of(kEntryFields, kWord), "readers", fields_of(kReaderFields, kWord),
                       "holders", fields_of(kHolderFields, kWord), "pendings", fields_of(kPendingFields, kWord),
                       "dependencies", fields_of(kDependencyFields, kWord),
                       "attachments", fields_of(kAttachmentFields, kWord),
                       "admissions", fields_of(kAdmissionFields, kWord), "copies", fields_of(kCopyFields, kWord));
}

PyMethodDef kFunctions[] = {
    {"plan", core_plan, METH_VARARGS,
     KV_DOC("plan", "$module, settings, num_groups, rows, /", "How many words an arena needs.")},
    {"word", core_word, METH_VARARGS,
     KV_DOC("word", "$module, wrong_type, out_of_range, refusal, concurrent, /",
            "Set the functions that word the errors.")},
    {"digest", core_digest, METH_VARARGS, KV_DOC("digest", "$module, words, data, /", "A digest of some bytes.")},
    {"opcodes", core_opcodes, METH_NOARGS,
     KV_DOC("opcodes", "$module, /", "The number of each operation of a program.")},
    {"layout", core_layout, METH_NOARGS, KV_DOC("layout", "$module, /", "Where everything is.")},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef kModule = {PyModuleDef_HEAD_INIT, "_core", "The native core of a block pool.", -1, kFunctions,
                       nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace kvproof

PyMODINIT_FUNC PyInit__core() {
  using namespace kvproof;
  PyObject* const module = PyModule_Create(&kModule);
  if (module == nullptr) return nullptr;
  text_type() = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&kTextSpec));
  request_type() = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&kRequestSpec));
  use_type() = PyStructSequence_NewType(&kUse);
  hand_type() = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&kHandSpec));
  PyObject* const pool_type = PyType_FromSpec(&kPoolSpec);
  const bool made = text_type() != nullptr && request_type() != nullptr && use_type() != nullptr &&
                    hand_type() != nullptr && pool_type != nullptr &&
                    PyModule_AddObjectRef(module, "Text", reinterpret_cast<PyObject*>(text_type())) == 0 &&
                    PyModule_AddObjectRef(module, "BlockUse", reinterpret_cast<PyObject*>(use_type())) == 0 &&
                    PyModule_AddObjectRef(module, "RequestBase", reinterpret_cast<PyObject*>(request_type())) == 0 &&
                    PyModule_AddObjectRef(module, "Hand", reinterpret_cast<PyObject*>(hand_type())) == 0 &&
                    PyModule_AddObjectRef(module, "PoolBase", pool_type) == 0;
  Py_XDECREF(pool_type);
  if (made) return module;
  Py_DECREF(module);
  return nullptr;
}
