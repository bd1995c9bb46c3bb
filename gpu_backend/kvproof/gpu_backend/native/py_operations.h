// The operations of a pool as methods of Python: each turns its arguments into a program of one operation.
#pragma once

#include "py_pool.h"

namespace kvproof {

#define KV_SIGNATURE PyObject *self, PyObject *const *args, Py_ssize_t given, PyObject *keywords
#define KV_ENTER(operation, least, ...)                                                                           \
  static const char* const kNames[] = {__VA_ARGS__};                                                              \
  constexpr int kMost = sizeof(kNames) / sizeof(*kNames);                                                         \
  PyObject* arg[kMost] = {};                                                                                           \
  if (!take_arguments(operation, kNames, *kNames[0] ? kMost : 0, least, args, given, keywords, arg))             \
    return nullptr;                                                                                               \
  const Entered entered(self, operation);                                                                         \
  if (!entered) return nullptr;                                                                                   \
  [[maybe_unused]] PoolObject& pool = pool_of(self);                                                              \
  [[maybe_unused]] const Call call = {operation, arg, kMost}

/// Write an operation's words one after the other; the buffer has room.
class Words {
 public:
  explicit Words(PoolObject& pool) : start_(pool.program.data), at_(start_) {}
  Words& put(int32_t word) {
    *at_++ = word;
    return *this;
  }
  int32_t* skip(int64_t words) {
    int32_t* const here = at_;
    at_ += words;
    return here;
  }
  int64_t count() const { return at_ - start_; }

 private:
  int32_t *start_, *at_;
};

inline bool put_blocks(PyObject** items, Py_ssize_t n, Words& words) {
  for (Py_ssize_t i = 0; i < n; i++)
    if (!as_word("a block id", items[i], words.skip(1))) return false;
  return true;
}

inline bool put_keys(const PoolObject& pool, PyObject** items, Py_ssize_t n, Words& words) {
  for (Py_ssize_t i = 0; i < n; i++)
    if (!as_key(items[i], pool.digest_words, words.skip(pool.digest_words + 1))) return false;
  return true;
}

/// Room for a program with a list of n items of so many words each, and for the answers.
inline bool reserve_words(PoolObject& pool, int64_t n, int64_t words_each, int64_t answers) {
  return pool.program.reserve(16 + n * words_each) && pool.out.reserve(answers);
}

inline PyObject* done(bool succeeded) { return succeeded ? Py_NewRef(Py_None) : nullptr; }

/// Whether the pool takes this as a request (STEP-NAME-1).
inline bool check_request(const PoolObject& pool, PyObject* request) {
  if (!PyObject_TypeCheck(request, request_type())) return wrong_type("request", request, "a Request");
  const Text& text = text_of(request);
  const Header& h = header_of(pool);
  if (text.hash_block_size != h.hash_block_size || text.digest_words != pool.digest_words ||
      memcmp(text.seed_digest, pool.seed_digest, 4 * static_cast<size_t>(pool.digest_words)) != 0)
    return wrong_type("request", request, "one that is hashed by the pool's contract, size and seed");
  PyObject* const name = reinterpret_cast<Request*>(request)->name;
  return !h.has_steps || !begins_with(name, kCopyPrefix) ||
         wrong_type("request", name, "another name: that of a copy is never rolled back");
}

// --- references -----------------------------------------------------------------------------------------------------

inline PyObject* pool_allocate(KV_SIGNATURE) {
  KV_ENTER("allocate", 1, "n", "holder");
  int32_t n, holder;
  if (!as_word("n", arg[0], &n) || !as_holder(self, arg[1], &holder) || !reserve_words(pool, 0, 0, 0)) return nullptr;
  Words words(pool);
  words.put(kOpAllocate).put(holder).put(n);
  if (!run_program(self, words.count(), n, call)) return nullptr;
  return list_of_blocks(pool.out.data, n);
}

inline PyObject* pool_touch(KV_SIGNATURE) {
  KV_ENTER("touch", 2, "block_id", "key", "holder");
  int32_t holder;
  if (!reserve_words(pool, 1, 1 + 9, 0)) return nullptr;
  Words words(pool);
  if (!as_holder(self, arg[2], &holder)) return nullptr;
  words.put(kOpTouch).put(holder).put(1);
  if (!put_blocks(&arg[0], 1, words) || !put_keys(pool, &arg[1], 1, words)) return nullptr;
  return done(run_program(self, words.count(), 0, call));
}

inline PyObject* pool_touch_all(KV_SIGNATURE) {
  KV_ENTER("touch_all", 2, "block_ids", "keys", "holder");
  PyObject **ids, **keys;
  Py_ssize_t n, num_keys;
  if (!as_items("block_ids", arg[0], &ids, &n) || !as_items("keys", arg[1], &keys, &num_keys)) return nullptr;
  if (n != num_keys) {
    out_of_range("keys", arg[1], "one key for each block");
    return nullptr;
  }
  if (!reserve_words(pool, n, 2 + pool.digest_words, 0)) return nullptr;
  Words words(pool);
  int32_t* const holder = words.put(kOpTouch).skip(1);
  words.put(static_cast<int32_t>(n));
  for (Py_ssize_t i = 0; i < n; i++)
    if (!put_blocks(ids + i, 1, words) || !put_keys(pool, keys + i, 1, words)) return nullptr;
  if (!as_holder(self, arg[2], holder)) return nullptr;  // last: it may run Python code
  return done(run_program(self, words.count(), words.count(), call));
}

inline PyObject* pool_free(KV_SIGNATURE) {
  KV_ENTER("free", 1, "block_ids", "holder");
  int32_t holder;
  PyObject** ids;
  Py_ssize_t n;
  if (!as_known_holder(pool, arg[1], &holder) || !as_items("block_ids", arg[0], &ids, &n) ||
      !reserve_words(pool, n, 1, 0))
    return nullptr;
  Words words(pool);
  words.put(kOpFree).put(holder).put(static_cast<int32_t>(n));
  if (!put_blocks(ids, n, words)) return nullptr;
  return done(run_program(self, words.count(), words.count(), call));
}

// --- questions ------------------------------------------------------------------------------------------------------

inline PyObject* ask_for_keys(PyObject* self, Opcode opcode, int answers_each, PyObject* list, const Call& call) {
  PoolObject& pool = pool_of(self);
  PyObject** keys;
  Py_ssize_t n;
  if (!as_items("keys", list, &keys, &n) || !reserve_words(pool, n, 1 + pool.digest_words, 1 + answers_each * n))
    return nullptr;
  Words words(pool);
  words.put(opcode).put(static_cast<int32_t>(n));
  if (!put_keys(pool, keys, n, words) || !run_program(self, words.count(), words.count(), call)) return nullptr;
  return opcode == kOpLookupLongest ? list_of_blocks(pool.out.data + 1, pool.out.data[0])
                                    : list_of_blocks(pool.out.data, answers_each * n);
}

inline PyObject* pool_lookup(KV_SIGNATURE) {
  KV_ENTER("lookup", 1, "keys");
  return ask_for_keys(self, kOpLookup, 1, arg[0], call);
}

inline PyObject* pool_lookup_longest(KV_SIGNATURE) {
  KV_ENTER("lookup_longest", 1, "keys");
  return ask_for_keys(self, kOpLookupLongest, 1, arg[0], call);
}

/// For each key (block, reserved, writer, pending).
inline PyObject* pool_find(KV_SIGNATURE) {
  KV_ENTER("find", 1, "keys");
  PyObject* const flat = ask_for_keys(self, kOpFind, 4, arg[0], call);
  if (flat == nullptr) return nullptr;
  const Py_ssize_t n = PyList_GET_SIZE(flat) / 4;
  PyObject* const hits = PyList_New(n);
  for (Py_ssize_t i = 0; hits != nullptr && i < n; i++) {
    const auto item = [&](int at) { return PyList_GET_ITEM(flat, 4 * i + at); };
    PyObject* const writer = name_of(pool, pool.out.data[4 * i + 2]);
    PyList_SET_ITEM(hits, i, Py_BuildValue("(OONO)", item(0), item(1), writer, item(3)));
  }
  Py_DECREF(flat);
  return filled(hits);
}

/// Three tables of words, as bytes: for each group, for each hash of the request, who serves it, has it reserved, and
/// would serve it. A request asks once, so there is no object for each key.
inline PyObject* pool_find_matrix(KV_SIGNATURE) {
  KV_ENTER("find_matrix", 1, "request");
  if (!check_request(pool, arg[0])) return nullptr;
  pool.chains.data[0] = &text_of(arg[0]).chain;
  const int64_t words = 3 * header_of(pool).num_groups * text_of(arg[0]).chain.count;
  if (!reserve_words(pool, 0, 0, words)) return nullptr;
  Words program(pool);
  program.put(kOpFindMatrix).put(0);
  const bool answered = run_program(self, program.count(), 0, call);
  pool.chains.data[0] = nullptr;  // the request may go before the pool does
  if (!answered) return nullptr;
  return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(pool.out.data), static_cast<Py_ssize_t>(4 * words));
}

/// What `uses` answers of a block; the class is made with the module.
inline PyTypeObject*& use_type() {
  static PyTypeObject* type = nullptr;
  return type;
}

inline PyStructSequence_Field kUseFields[] = {
    {"references", "how often the block is held"},
    {"is_held", "whether the holder holds it; with anonymous references, whether anybody does"},
    {"is_writer", "whether the holder writes it"},
    {"named_to", "how many tokens its keys name, committed or not"},
    {"read_to", "how many tokens of it other holders were served"},
    {nullptr, nullptr}};
inline PyStructSequence_Desc kUse = {"kvproof.gpu_backend._core.BlockUse",
                                     "How a block is used, as a holder sees it; positions in tokens.", kUseFields, kWordsOfUse};

inline PyObject* block_use(const int32_t* words) {
  PyObject* const use = PyStructSequence_New(use_type());
  if (use == nullptr) return nullptr;
  for (int field = 0; field < kWordsOfUse; field++) {
    const bool is_truth = field == 1 || field == 2;
    PyStructSequence_SetItem(use, field, is_truth ? PyBool_FromLong(words[field]) : PyLong_FromLong(words[field]));
  }
  return filled(use);
}

/// For each block a `BlockUse`.
inline PyObject* pool_uses(KV_SIGNATURE) {
  KV_ENTER("uses", 2, "block_ids", "holder");
  int32_t holder;
  PyObject** ids;
  Py_ssize_t n;
  if (!as_known_holder(pool, arg[1], &holder) || !as_items("block_ids", arg[0], &ids, &n) ||
      !reserve_words(pool, n, 1, kWordsOfUse * n))
    return nullptr;
  Words words(pool);
  words.put(kOpUses).put(holder).put(static_cast<int32_t>(n));
  if (!put_blocks(ids, n, words) || !run_program(self, words.count(), words.count(), call)) return nullptr;
  PyObject* const all = PyList_New(n);
  for (Py_ssize_t i = 0; all != nullptr && i < n; i++) PyList_SET_ITEM(all, i, block_use(pool.out.data + kWordsOfUse * i));
  return filled(all);
}

/// How many blocks the holder holds; with anonymous references, how many are held.
inline PyObject* pool_num_held(KV_SIGNATURE) {
  KV_ENTER("num_held", 0, "holder");
  int32_t holder;
  if (!as_known_holder(pool, arg[0], &holder)) return nullptr;
  const Header& h = header_of(pool);
  if (!h.is_named) return PyLong_FromLongLong(h.num_blocks - 1 - h.num_free);
  return PyLong_FromLong(holder == kStranger ? 0 : rows_of<HolderRow>(h, kHolders)[row_of_holder(holder)].references);
}

inline PyObject* pool_contains(KV_SIGNATURE) {
  KV_ENTER("contains", 2, "key", "block_id");
  if (!reserve_words(pool, 1, 10, 1)) return nullptr;
  Words words(pool);
  words.put(kOpContains);
  if (!put_blocks(&arg[1], 1, words) || !put_keys(pool, &arg[0], 1, words) ||
      !run_program(self, words.count(), 0, call))
    return nullptr;
  return PyBool_FromLong(pool.out.data[0]);
}

inline PyObject* pool_full_key(KV_SIGNATURE) {
  KV_ENTER("full_key", 1, "block_id");
  if (!reserve_words(pool, 1, 1, 10)) return nullptr;
  Words words(pool);
  words.put(kOpFullKey);
  if (!put_blocks(&arg[0], 1, words) || !run_program(self, words.count(), 0, call)) return nullptr;
  if (pool.out.data[0] == 0) Py_RETURN_NONE;
  return key_of(pool.out.data[1], reinterpret_cast<uint32_t*>(pool.out.data + 2), pool.digest_words);
}

// --- registration and content ---------------------------------------------------------------------------------------

/// The words that say who names a block, by which text, in which group.
inline bool put_naming(PyObject* self, Opcode opcode, PyObject* request, PyObject* group, bool replace, Words& words) {
  PoolObject& pool = pool_of(self);
  if (!check_request(pool, request)) return false;
  int32_t owner = kStranger, number, index;
  if (header_of(pool).is_named && !known_holder(pool, reinterpret_cast<Request*>(request)->name, &owner)) return false;
  if (!as_word("group", group, &index) || !number_text(pool, text_of(request), &number)) return false;
  words.put(opcode).put(owner).put(number).put(index).put(replace);
  return true;
}

inline PyObject* pool_cache_full_blocks(KV_SIGNATURE) {
  KV_ENTER("cache_full_blocks", 5, "request", "block_ids", "first", "last", "group", "mask", "replace");
  PyObject **ids, **mask = nullptr;
  Py_ssize_t n, num_mask = 0;
  int32_t first, last;
  bool replace = false;
  if (!as_items("block_ids", arg[1], &ids, &n) || !as_word("first", arg[2], &first) ||
      !as_word("last", arg[3], &last) || (arg[6] != nullptr && !as_bool("replace", arg[6], &replace)) ||
      !reserve_words(pool, n, 1, 0))
    return nullptr;
  Words words(pool);
  if (!put_naming(self, kOpCacheFull, arg[0], arg[4], replace, words)) return nullptr;
  for (Py_ssize_t i = 0; i < n; i++) {  // blocks outside the range are not registered, but they have to exist
    int32_t id;
    if (!as_word("a block id", ids[i], &id)) return nullptr;
    if (id < 0 || id >= header_of(pool).num_blocks) {
      raise_refusal(self, {kInvalidBlock, static_cast<int32_t>(i), 0}, call);
      return nullptr;
    }
  }
  if (first < 0 || first > last || last > n) {  // REG-FULL-4
    raise_refusal(self, {kOutOfRange, 0, 0}, call);
    return nullptr;
  }
  if (arg[5] != nullptr && arg[5] != Py_None) {
    if (!as_items("mask", arg[5], &mask, &num_mask)) return nullptr;
    for (Py_ssize_t i = 0; i < num_mask; i++) {
      bool entry;
      if (!as_bool("a mask entry", mask[i], &entry)) return nullptr;
    }
    if (num_mask != last - first) {
      out_of_range("mask", arg[5], "one entry for each slot");
      return nullptr;
    }
  }
  words.put(first).put(last - first);
  for (int32_t i = first; i < last; i++) {
    const bool is_left_out = mask != nullptr && mask[i - first] == Py_False;
    words.put(is_left_out ? kNullBlock : static_cast<int32_t>(PyLong_AsLong(ids[i])));
  }
  return done(run_program(self, words.count(), 0, call));
}

/// A part of a table, whose blocks are those of the slots from `first` on: what it costs does not depend on the rest.
inline PyObject* pool_cache_slots(KV_SIGNATURE) {
  KV_ENTER("cache_slots", 4, "request", "block_ids", "first", "group", "replace");
  PyObject** ids;
  Py_ssize_t n;
  int32_t first;
  bool replace = false;
  if (!as_items("block_ids", arg[1], &ids, &n) || !as_word("first", arg[2], &first) ||
      (arg[4] != nullptr && !as_bool("replace", arg[4], &replace)) || !reserve_words(pool, n, 1, 0))
    return nullptr;
  Words words(pool);
  if (!put_naming(self, kOpCacheFull, arg[0], arg[3], replace, words)) return nullptr;
  words.put(first).put(static_cast<int32_t>(n));
  if (!put_blocks(ids, n, words)) return nullptr;
  return done(run_program(self, words.count(), 0, call));
}

inline PyObject* pool_cache_partial_block(KV_SIGNATURE) {
  KV_ENTER("cache_partial_block", 4, "request", "block_id", "position", "group", "replace");
  int32_t id, position;
  bool replace = false;
  if (!as_word("a block id", arg[1], &id) || !as_word("position", arg[2], &position) ||
      (arg[4] != nullptr && !as_bool("replace", arg[4], &replace)) || !reserve_words(pool, 0, 0, 0))
    return nullptr;
  Words words(pool);
  if (!put_naming(self, kOpCachePartial, arg[0], arg[3], replace, words)) return nullptr;
  words.put(id).put(position);
  return done(run_program(self, words.count(), 0, call));
}

inline PyObject* pool_write(KV_SIGNATURE) {
  KV_ENTER("write", 4, "request", "block_id", "position", "group");
  int32_t id, position;
  if (!as_word("a block id", arg[1], &id) || !as_word("position", arg[2], &position) || !reserve_words(pool, 0, 0, 0))
    return nullptr;
  Words words(pool);
  if (!put_naming(self, kOpWrite, arg[0], arg[3], false, words)) return nullptr;
  if (position < 1 || position > text_of(arg[0]).num_tokens) {  // CONTENT-WRITE-3
    out_of_range("position", arg[2], "1 to the number of the request's tokens");
    return nullptr;
  }
  words.put(id).put(position);
  return done(run_program(self, words.count(), 0, call));
}

inline PyObject* pool_copy(KV_SIGNATURE) {
  KV_ENTER("copy", 2, "src_id", "dst_id", "holder");
  int32_t holder, keeper = kNobody, source, target;
  if (!as_word("a block id", arg[0], &source) || !as_word("a block id", arg[1], &target) ||
      !as_known_holder(pool, arg[2], &holder) || !reserve_words(pool, 0, 0, 0))
    return nullptr;
  if (header_of(pool).has_steps) {
    PyObject* const name = PyUnicode_FromFormat("%s%d:%d", kPoolCopyPrefix, source, target);
    const bool numbered = name != nullptr && make_rows(self, 1) && number_name(pool, name, &keeper);
    Py_XDECREF(name);
    if (!numbered || !as_known_holder(pool, arg[2], &holder)) return nullptr;
  }
  Words words(pool);
  words.put(kOpCopy).put(holder).put(keeper).put(source).put(target);
  return done(run_program(self, words.count(), 0, call));
}

/// Checks that the holder may read; what the block holds is not the core's.
inline PyObject* pool_read(KV_SIGNATURE) {
  KV_ENTER("read", 1, "block_id", "holder");
  int32_t holder, id;
  if (!as_word("a block id", arg[0], &id) || !as_known_holder(pool, arg[1], &holder) || !reserve_words(pool, 0, 0, 0))
    return nullptr;
  Words words(pool);
  words.put(kOpRead).put(holder).put(id);
  return done(run_program(self, words.count(), 0, call));
}

// --- removal --------------------------------------------------------------------------------------------------------

inline PyObject* pool_evict(KV_SIGNATURE) {
  KV_ENTER("evict", 1, "block_ids");
  PyObject** ids;
  Py_ssize_t n;
  if (!as_items("block_ids", arg[0], &ids, &n) || !reserve_words(pool, n, 1, 0)) return nullptr;
  Words words(pool);
  words.put(kOpEvict).put(static_cast<int32_t>(n));
  if (!put_blocks(ids, n, words)) return nullptr;
  return done(run_program(self, words.count(), words.count(), call));
}

inline PyObject* pool_move(KV_SIGNATURE) {
  KV_ENTER("move", 2, "src_id", "dst_id");
  if (!reserve_words(pool, 0, 0, 0)) return nullptr;
  Words words(pool);
  words.put(kOpMove);
  if (!put_blocks(arg, 2, words)) return nullptr;
  return done(run_program(self, words.count(), 0, call));
}

inline PyObject* pool_reset(KV_SIGNATURE) {
  KV_ENTER("reset", 0, "");
  if (!reserve_words(pool, 0, 0, 0)) return nullptr;
  Words words(pool);
  words.put(kOpReset);
  return done(run_program(self, words.count(), header_of(pool).num_blocks, call));
}

// --- steps ----------------------------------------------------------------------------------------------------------

inline PyObject* pool_begin_step(KV_SIGNATURE) {
  KV_ENTER("begin_step", 0, "");
  if (!reserve_words(pool, 0, 0, 1)) return nullptr;
  Words words(pool);
  words.put(kOpBeginStep);
  return run_program(self, words.count(), 0, call) ? PyLong_FromLong(pool.out.data[0]) : nullptr;
}

inline PyObject* pool_commit(KV_SIGNATURE) {
  KV_ENTER("commit", 1, "step");
  int32_t step;
  if (!as_word("step", arg[0], &step) || !reserve_words(pool, 0, 0, 0)) return nullptr;
  Words words(pool);
  words.put(kOpCommit).put(step);
  return done(run_program(self, words.count(), 0, call));
}

inline PyObject* pool_attach(KV_SIGNATURE) {
  KV_ENTER("attach", 3, "block_id", "key", "holder");
  int32_t holder = kNobody;
  if (!check_name("holder", arg[2]) || !reserve_words(pool, 1, 10, 0)) return nullptr;
  if (header_of(pool).is_named && !(make_rows(self, 1) && number_name(pool, arg[2], &holder))) return nullptr;
  Words words(pool);
  words.put(kOpAttach).put(holder);
  if (!put_blocks(&arg[0], 1, words) || !put_keys(pool, &arg[1], 1, words)) return nullptr;
  return done(run_program(self, words.count(), 0, call));
}

/// The names of requests as numbers; a copy is none (STEP-NAME-1).
inline bool put_requests(PyObject* self, PyObject** names, Py_ssize_t n, Words& words) {
  for (Py_ssize_t i = 0; i < n; i++) {
    if (!check_name("a request", names[i])) return false;
    if (begins_with(names[i], kCopyPrefix)) return wrong_type("a request", names[i], "a request, not a copy");
  }
  if (!make_rows(self, n)) return false;
  for (Py_ssize_t i = 0; i < n; i++)
    if (!number_name(pool_of(self), names[i], words.skip(1))) return false;
  return true;
}

inline PyObject* list_of_requests(const PoolObject& pool, const int32_t* holders, int32_t n) {
  PyObject* const list = PyList_New(n);
  for (int32_t i = 0; list != nullptr && i < n; i++) PyList_SET_ITEM(list, i, name_of(pool, holders[i]));
  return list;
}

inline PyObject* pool_rollback(KV_SIGNATURE) {
  KV_ENTER("rollback", 1, "requests");
  const KeptItems names("requests", arg[0]);
  if (!names || !reserve_words(pool, names.n, 1, 0)) return nullptr;
  const Py_ssize_t n = header_of(pool).has_steps ? names.n : 0;  // without steps it is refused, whoever is named
  Words words(pool);
  words.put(kOpRollback).put(static_cast<int32_t>(n));
  if (!put_requests(self, names.items, n, words) || !run_program(self, words.count(), header_of(pool).num_pendings, call))
    return nullptr;
  return list_of_requests(pool, pool.out.data + 1, pool.out.data[0]);
}

inline PyObject* pool_finish(KV_SIGNATURE) {
  KV_ENTER("finish", 2, "request_id", "block_ids");
  const KeptItems ids("block_ids", arg[1]);
  if (!ids || !check_holder(pool, arg[0]) || !reserve_words(pool, ids.n, 1, 0)) return nullptr;
  if (!header_of(pool).is_named) {
    wrong_type("request_id", arg[0], "left out: the pool's references are anonymous, and it cannot finish a request");
    return nullptr;
  }
  Words words(pool);
  words.put(kOpFinish);
  if (!put_requests(self, &arg[0], 1, words)) return nullptr;
  words.put(static_cast<int32_t>(ids.n));
  if (!put_blocks(ids.items, ids.n, words) || !run_program(self, words.count(), words.count(), call)) return nullptr;
  return list_of_requests(pool, pool.out.data + 1, pool.out.data[0]);
}

#undef KV_ENTER
#undef KV_SIGNATURE

}  // namespace kvproof
