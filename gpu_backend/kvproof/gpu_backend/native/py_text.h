// Texts and requests as Python objects: tokens, and the chain of their prefix hashes (HASH-*, REQ-*).
//
// A text only ever grows; a request that is truncated while somebody else names its text goes on with a copy. So
// whoever keeps a text, as the events of a pool do, keeps what it was.
#pragma once

#include "py_values.h"
#include "sha256.h"
#include "xxh3.h"

namespace kvproof {

/// An extra key: it covers the tokens start .. end-1 (HASH-EXTRA-2).
struct Extra {
  int64_t start, end;
  PyObject* value;  ///< bytes
  uint8_t source;
};

struct Text {
  PyObject_HEAD
  Chain chain;  ///< what the core reads
  Buffer<uint32_t> tokens, digests;
  int64_t num_tokens;
  int64_t hash_block_size;
  int digest_words;
  uint32_t seed_digest[8];  ///< H(0)
  PyObject* extra_keys;     ///< a tuple, for events
  Buffer<Extra> extras;     ///< owns a reference to each value
  int64_t num_extras;
  int64_t most_extra_bytes; ///< that the encoding of one span may have
  const void* pool;         ///< where the text has a number, so that it need not be searched for
  int32_t number;
};

struct Request {
  PyObject_HEAD
  PyObject* name;
  Text* text;
};

inline PyTypeObject*& text_type() {
  static PyTypeObject* type = nullptr;
  return type;
}

inline PyTypeObject*& request_type() {
  static PyTypeObject* type = nullptr;
  return type;
}

constexpr int64_t kRecordBytes = 21;  ///< tag, first token, number of tokens, offset, length of the value

inline uint8_t* put_number(uint8_t* at, uint64_t number, int bytes) {
  for (int i = 0; i < bytes; i++) *at++ = static_cast<uint8_t>(number >> 8 * i);
  return at;
}

/// Encode what the extra keys mean for the tokens start .. end-1 (HASH-EXTRA-2); returns the end. `scratch` has as much
/// room as `at`.
inline uint8_t* encode_extras(const Text& text, int64_t start, int64_t end, uint8_t* at, uint8_t* scratch) {
  uint8_t* const count_at = at;
  at += 4;
  int64_t count = 0;
  for (int64_t i = 0; i < text.num_extras; i++) {
    const Extra& extra = text.extras.data[i];
    const int64_t first = extra.start > start ? extra.start : start, last = extra.end < end ? extra.end : end;
    if (first >= last) continue;
    const uint64_t length = static_cast<uint64_t>(PyBytes_GET_SIZE(extra.value));
    uint8_t* record = put_number(scratch, extra.source, 1);
    record = put_number(record, static_cast<uint64_t>(first - start), 4);
    record = put_number(record, static_cast<uint64_t>(last - first), 4);
    record = put_number(record, static_cast<uint64_t>(first - extra.start), 8);
    record = put_number(record, length, 4);
    memcpy(record, PyBytes_AS_STRING(extra.value), length);
    const size_t size = kRecordBytes + length;
    // Records are sorted as bytes; no two are equal, and none is the beginning of another, as each says its length.
    uint8_t* place = count_at + 4;
    while (place < at) {
      uint32_t other;
      memcpy(&other, place + kRecordBytes - 4, 4);
      const size_t other_size = kRecordBytes + other;
      if (memcmp(scratch, place, size < other_size ? size : other_size) < 0) break;
      place += other_size;
    }
    memmove(place + size, place, static_cast<size_t>(at - place));
    memcpy(place, scratch, size);
    at += size;
    count++;
  }
  put_number(count_at, static_cast<uint64_t>(count), 4);
  return at;
}

/// Hash the spans of h tokens that have no hash yet (HASH-CHAIN-1, REQ-APPEND-1). False without memory.
inline bool extend_hashes(Text& text) {
  const int64_t h = text.hash_block_size, links = text.num_tokens / h;
  if (links == text.chain.count) return true;
  if (!text.digests.reserve(links * text.digest_words)) return false;
  text.chain.digests = text.digests.data;
  const int64_t digest_bytes = 4 * text.digest_words, most = digest_bytes + 4 * h + text.most_extra_bytes;
  Buffer<uint8_t> buffer;
  if (!buffer.reserve(most + text.most_extra_bytes)) return false;
  for (; text.chain.count < links; text.chain.count++) {
    const int64_t start = text.chain.count * h;
    uint32_t* const digest = text.digests.data + text.chain.count * text.digest_words;
    memcpy(buffer.data, start == 0 ? text.seed_digest : digest - text.digest_words, static_cast<size_t>(digest_bytes));
    // Tokens are hashed with the least significant byte first (HASH-TOKEN-1), which is how they lie in memory.
    memcpy(buffer.data + digest_bytes, text.tokens.data + start, static_cast<size_t>(4 * h));
    const uint8_t* const end =
        encode_extras(text, start, start + h, buffer.data + digest_bytes + 4 * h, buffer.data + most);
    const uint64_t size = static_cast<uint64_t>(end - buffer.data);
    uint8_t* const out = reinterpret_cast<uint8_t*>(digest);
    text.digest_words == 4 ? xxh3_128(buffer.data, size, out) : sha_256(buffer.data, size, out);
  }
  buffer.release();
  return true;
}

/// Append tokens, all or none (HASH-TOKEN-1).
inline bool append_tokens(Text& text, PyObject* tokens) {
  PyObject** items;
  Py_ssize_t n;
  if (!as_items("tokens", tokens, &items, &n)) return false;
  if (!is_countable("the number of a request's tokens", text.num_tokens + n)) return false;
  if (!text.tokens.reserve(text.num_tokens + n)) return false;
  for (Py_ssize_t i = 0; i < n; i++) {
    if (!PyLong_CheckExact(items[i])) return wrong_type("a token", items[i], "an integer");
    const long long token = PyLong_AsLongLong(items[i]);
    if (token < 0 || token > UINT32_MAX) {
      PyErr_Clear();
      return out_of_range("a token", items[i], "0 to 2**32 - 1");
    }
    text.tokens.data[text.num_tokens + i] = static_cast<uint32_t>(token);
  }
  text.num_tokens += n;
  if (extend_hashes(text)) return true;
  text.num_tokens -= n;
  return false;
}

inline Text* new_text() {
  Text* const text = PyObject_New(Text, text_type());
  if (text == nullptr) return nullptr;
  memset(reinterpret_cast<char*>(text) + offsetof(Text, chain), 0, sizeof(Text) - offsetof(Text, chain));
  return text;
}

inline bool copy_extras(Text& text, const Extra* extras, int64_t n) {
  if (!text.extras.reserve(n)) return false;
  text.num_extras = n;
  text.most_extra_bytes = 4;
  for (int64_t i = 0; i < n; i++) {
    text.extras.data[i] = extras[i];
    Py_INCREF(extras[i].value);
    text.most_extra_bytes += kRecordBytes + PyBytes_GET_SIZE(extras[i].value);
  }
  return true;
}

/// The first `num_tokens` tokens of a text, as a text of their own.
inline Text* beginning_of(const Text& whole, int64_t num_tokens) {
  Text* const text = new_text();
  if (text == nullptr) return nullptr;
  text->hash_block_size = whole.hash_block_size;
  text->digest_words = whole.digest_words;
  memcpy(text->seed_digest, whole.seed_digest, sizeof text->seed_digest);
  text->extra_keys = Py_NewRef(whole.extra_keys);
  const int64_t links = num_tokens / whole.hash_block_size, words = links * whole.digest_words;
  if (!text->tokens.reserve(num_tokens) || !text->digests.reserve(words) ||
      !copy_extras(*text, whole.extras.data, whole.num_extras)) {
    Py_DECREF(text);
    return nullptr;
  }
  if (num_tokens > 0) memcpy(text->tokens.data, whole.tokens.data, static_cast<size_t>(num_tokens) * 4);
  if (words > 0) memcpy(text->digests.data, whole.digests.data, static_cast<size_t>(words) * 4);
  text->num_tokens = num_tokens;
  text->chain = {text->digests.data, links};
  return text;
}

// --- Text as a type of Python ---------------------------------------------------------------------------------------

inline void free_text(PyObject* self) {
  Text& text = *reinterpret_cast<Text*>(self);
  text.tokens.release();
  text.digests.release();
  for (int64_t i = 0; i < text.num_extras; i++) Py_DECREF(text.extras.data[i].value);
  text.extras.release();
  Py_XDECREF(text.extra_keys);
  PyTypeObject* const type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

inline PyObject* tokens_between(const Text& text, int64_t start, int64_t end) {
  PyObject* const found = PyTuple_New(static_cast<Py_ssize_t>(end - start));
  for (int64_t i = start; found != nullptr && i < end; i++)
    PyTuple_SET_ITEM(found, static_cast<Py_ssize_t>(i - start), PyLong_FromUnsignedLong(text.tokens.data[i]));
  return filled(found);
}

inline PyObject* digest_bytes(const Text& text, int64_t link) {
  const char* const at = reinterpret_cast<const char*>(text.digests.data + link * text.digest_words);
  return PyBytes_FromStringAndSize(at, 4 * text.digest_words);
}

/// text.tokens(start, end): a tuple of the tokens between two positions of the text.
inline PyObject* text_tokens(PyObject* self, PyObject* args) {
  long long start, end;
  if (!PyArg_ParseTuple(args, "LL", &start, &end)) return nullptr;
  const Text& text = *reinterpret_cast<Text*>(self);
  if (start < 0 || start > end || end > text.num_tokens) {
    PyErr_SetString(PyExc_IndexError, "no such tokens");
    return nullptr;
  }
  return tokens_between(text, start, end);
}

/// text.digest(i): H((i+1) * h) as bytes.
inline PyObject* text_digest(PyObject* self, PyObject* arg) {
  const long long link = PyLong_AsLongLong(arg);
  if (link == -1 && PyErr_Occurred()) return nullptr;
  const Text& text = *reinterpret_cast<Text*>(self);
  if (link < 0 || link >= text.chain.count) {
    PyErr_SetString(PyExc_IndexError, "no such hash");
    return nullptr;
  }
  return digest_bytes(text, link);
}

inline PyObject* text_extra_keys(PyObject* self, void*) {
  return Py_NewRef(reinterpret_cast<Text*>(self)->extra_keys);
}

inline PyObject* text_num_tokens(PyObject* self, void*) {
  return PyLong_FromLongLong(reinterpret_cast<Text*>(self)->num_tokens);
}

// --- Request as a type of Python ------------------------------------------------------------------------------------

/// RequestBase(name, tokens, digest_words, h, seed_digest, extra_keys, extras): `extras` are (source, value, start,
/// end) with end -1 for none; everything but the tokens was checked by the caller.
inline PyObject* make_request(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *name, *tokens, *extra_keys, *extras;
  const char* seed;
  Py_ssize_t seed_bytes;
  int digest_words;
  long long h;
  if (!PyArg_ParseTuple(args, "OOiLy#O!O!", &name, &tokens, &digest_words, &h, &seed, &seed_bytes, &PyTuple_Type,
                        &extra_keys, &PyTuple_Type, &extras))
    return nullptr;
  if (!check_name("request_id", name)) return nullptr;
  if (seed_bytes != 4 * digest_words || (digest_words != 4 && digest_words != 8) || h < 1) {
    PyErr_SetString(PyExc_ValueError, "no such hash contract");
    return nullptr;
  }
  Text* const text = new_text();
  if (text == nullptr) return nullptr;
  text->hash_block_size = h;
  text->digest_words = digest_words;
  memcpy(text->seed_digest, seed, static_cast<size_t>(seed_bytes));
  text->extra_keys = Py_NewRef(extra_keys);
  Buffer<Extra> found;
  const Py_ssize_t n = PyTuple_GET_SIZE(extras);
  bool made = found.reserve(n);
  for (Py_ssize_t i = 0; made && i < n; i++) {
    int source;
    long long start, end;
    PyObject* value;
    made = PyArg_ParseTuple(PyTuple_GET_ITEM(extras, i), "iO!LL", &source, &PyBytes_Type, &value, &start, &end);
    if (made) found.data[i] = {start, end < 0 ? INT64_MAX : end, value, static_cast<uint8_t>(source)};
  }
  made = made && copy_extras(*text, found.data, n) && append_tokens(*text, tokens);
  found.release();
  PyObject* const self = made ? type->tp_alloc(type, 0) : nullptr;
  if (self == nullptr) {
    Py_DECREF(text);
    return nullptr;
  }
  reinterpret_cast<Request*>(self)->name = Py_NewRef(name);
  reinterpret_cast<Request*>(self)->text = text;
  return self;
}

inline void free_request(PyObject* self) {
  Request& request = *reinterpret_cast<Request*>(self);
  Py_XDECREF(request.name);
  Py_XDECREF(request.text);
  PyTypeObject* const type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

inline Text& text_of(PyObject* request) { return *reinterpret_cast<Request*>(request)->text; }

inline PyObject* request_name(PyObject* self, void*) { return Py_NewRef(reinterpret_cast<Request*>(self)->name); }

inline PyObject* request_text(PyObject* self, void*) {
  return Py_NewRef(reinterpret_cast<PyObject*>(reinterpret_cast<Request*>(self)->text));
}

inline PyObject* request_num_tokens(PyObject* self, void*) { return PyLong_FromLongLong(text_of(self).num_tokens); }

inline PyObject* request_num_hashes(PyObject* self, void*) { return PyLong_FromLongLong(text_of(self).chain.count); }

inline PyObject* request_tokens(PyObject* self, void*) {
  PyObject* const found = tokens_between(text_of(self), 0, text_of(self).num_tokens);
  if (found == nullptr) return nullptr;
  PyObject* const list = PySequence_List(found);
  Py_DECREF(found);
  return list;
}

inline PyObject* request_hashes(PyObject* self, void*) {
  const Text& text = text_of(self);
  PyObject* const list = PyList_New(static_cast<Py_ssize_t>(text.chain.count));
  for (int64_t i = 0; list != nullptr && i < text.chain.count; i++) {
    PyObject* const digest = digest_bytes(text, i);
    if (digest == nullptr) {
      Py_DECREF(list);
      return nullptr;
    }
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), digest);
  }
  return list;
}

/// request.append(tokens)
inline PyObject* request_append(PyObject* self, PyObject* tokens) {
  if (!append_tokens(text_of(self), tokens)) return nullptr;
  Py_RETURN_NONE;
}

/// request._truncate(n): n was checked by the caller (REQ-TRUNCATE-1).
inline PyObject* request_truncate(PyObject* self, PyObject* arg) {
  const long long n = PyLong_AsLongLong(arg);
  if (n == -1 && PyErr_Occurred()) return nullptr;
  Request& request = *reinterpret_cast<Request*>(self);
  Text& text = *request.text;
  if (n < 0 || n > text.num_tokens) {
    PyErr_SetString(PyExc_IndexError, "no such length");
    return nullptr;
  }
  if (n == text.num_tokens) Py_RETURN_NONE;
  if (Py_REFCNT(&text) > 1) {
    Text* const shorter = beginning_of(text, n);
    if (shorter == nullptr) return nullptr;
    request.text = shorter;
    Py_DECREF(&text);
  } else {
    text.num_tokens = n;
    text.chain.count = n / text.hash_block_size;
  }
  Py_RETURN_NONE;
}

inline PyMethodDef kTextMethods[] = {
    {"tokens", text_tokens, METH_VARARGS,
     KV_DOC("tokens", "$self, start, end, /", "The tokens between two positions.")},
    {"digest", text_digest, METH_O, KV_DOC("digest", "$self, link, /", "H((link + 1) * h).")},
    {nullptr, nullptr, 0, nullptr}};

inline PyGetSetDef kTextProperties[] = {
    {"extra_keys", text_extra_keys, nullptr, "The extra keys.", nullptr},
    {"num_tokens", text_num_tokens, nullptr, "How many tokens there are.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

inline PyMethodDef kRequestMethods[] = {
    {"append", request_append, METH_O,
     KV_DOC("append", "$self, tokens, /", "Append tokens; the hashes follow at once (REQ-APPEND-1).")},
    {"_truncate", request_truncate, METH_O,
     KV_DOC("_truncate", "$self, num_tokens, /", "Keep the first tokens (REQ-TRUNCATE-1).")},
    {nullptr, nullptr, 0, nullptr}};

inline PyGetSetDef kRequestProperties[] = {
    {"request_id", request_name, nullptr, "The request's name.", nullptr},
    {"text", request_text, nullptr, "Tokens and hashes as they are now, or become by appending.", nullptr},
    {"num_tokens", request_num_tokens, nullptr, "How many tokens the request has now.", nullptr},
    {"num_hashes", request_num_hashes, nullptr, "How many hashes the request has now.", nullptr},
    {"tokens", request_tokens, nullptr, "The tokens as a new list.", nullptr},
    {"hashes", request_hashes, nullptr, "H(h), H(2h), ... as a new list.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

inline PyType_Slot kTextSlots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(free_text)},
                                   {Py_tp_methods, kTextMethods},
                                   {Py_tp_getset, kTextProperties},
                                   {0, nullptr}};
inline PyType_Spec kTextSpec = {"kvproof.gpu_backend._core.Text", sizeof(Text), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, kTextSlots};

inline PyType_Slot kRequestSlots[] = {{Py_tp_new, reinterpret_cast<void*>(make_request)},
                                      {Py_tp_dealloc, reinterpret_cast<void*>(free_request)},
                                      {Py_tp_methods, kRequestMethods},
                                      {Py_tp_getset, kRequestProperties},
                                      {0, nullptr}};
inline PyType_Spec kRequestSpec = {"kvproof.gpu_backend._core.RequestBase", sizeof(Request), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, kRequestSlots};

}  // namespace kvproof
