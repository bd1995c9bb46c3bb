// A small block pool: it caches whole blocks, publishes keys at once, and knows its holders by name.
//
// What is illegal is refused before anything changes, free blocks are taken in exact LRU order, and events tell every
// net change of what is cached. To certify a pool of your own, put it in the place of this file.

#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "json.hpp"

// A violated precondition: the specification's name of the error, and a text for people.
struct Refused {
    string error, message;
};

void require(bool holds, const char* error, const char* message) {
    if (!holds) throw Refused{error, message};
}

using Prefix = uint64_t;

struct Extra {
    size_t source;
    string value;
    Number start, end;  // end is MAX for an extra key without one
};

bool operator==(const Extra& a, const Extra& b) {
    return std::tie(a.source, a.value, a.start, a.end) == std::tie(b.source, b.value, b.start, b.end);
}

const vector<string> SOURCES = {"adapter", "salt", "media", "embedding"};

struct Request {
    vector<uint32_t> tokens;
    vector<Extra> extras;
    vector<Prefix> hashes;  // of h, 2h, ... tokens
};

class Prefixes {
public:
    explicit Prefixes(size_t h) : h_(h) {}

    void follow(Request& request) {  // the hashes are those of the tokens, always
        request.hashes.resize(std::min(request.hashes.size(), request.tokens.size() / h_));
        while ((request.hashes.size() + 1) * h_ <= request.tokens.size()) {
            const string span = described(request, request.hashes.size() * h_);
            request.hashes.push_back(numbers_.emplace(span, numbers_.size() + 1).first->second);
        }
    }

private:
    size_t h_;
    std::unordered_map<string, Prefix> numbers_;  // what comes before, tokens and extra keys -> the prefix's number

    string described(const Request& request, size_t start) const {
        const auto end = Number(start + h_);
        vector<string> parts;
        for (const Extra& extra : request.extras) {
            const Number first = std::max(extra.start, Number(start)), last = std::min(extra.end, end);
            if (first < last)
                parts.push_back(bytes(extra.source) + bytes(first) + bytes(last) + bytes(first - extra.start) +
                                bytes(extra.value.size()) + extra.value);
        }
        std::sort(parts.begin(), parts.end());  // their order means nothing
        string written = bytes(request.hashes.empty() ? Prefix(0) : request.hashes.back());
        for (size_t i = start; i < start + h_; ++i) written += bytes(request.tokens[i]);
        for (const string& part : parts) written += part;
        return written;
    }
    template <class T>
    static string bytes(T value) { return string(reinterpret_cast<const char*>(&value), sizeof value); }
};

struct Key {
    Number group;
    Prefix prefix;
    bool operator==(const Key& other) const { return group == other.group && prefix == other.prefix; }
};
struct HashOfKey {
    size_t operator()(const Key& key) const { return key.prefix * 0x9E3779B97F4A7C15u + size_t(key.group); }
};

struct Block {
    std::set<string> holders;
    string writer;                 // empty: nobody
    Number group = -1, slot = -1;  // -1: not registered since it was allocated
    bool cached = false;
    Key key{};
    uint64_t rank = 0;  // who registered first
    size_t before = 0, after = 0;  // in the queue of free blocks, where block 0 is both ends
};

struct Registration {
    size_t block;
    Key key;
    Number position;
};

class Pool {
public:
    vector<Block> blocks;
    size_t num_free = 0;
    std::unordered_map<Key, std::map<uint64_t, size_t>, HashOfKey> index;  // key -> rank -> block

    Pool(size_t num_blocks, Number h, vector<Number> sizes) : blocks(num_blocks), h_(h), sizes_(std::move(sizes)) {
        for (size_t block = 1; block < num_blocks; ++block) queue(block, 0);
    }

    vector<size_t> allocate(const string& holder, Number n) {
        require(n <= Number(num_free), "OutOfBlocks", "fewer blocks are free");
        vector<size_t> taken;
        for (; n > 0; --n) {
            taken.push_back(blocks[0].after);
            Block& block = blocks[taken.back()];
            unqueue(block);
#ifndef BROKEN_EVICTION_KEEPS_KEYS  // for the test that the suite finds this out
            drop(taken.back());
#endif
            block.group = block.slot = -1;
            block.writer = holder;
            block.holders.insert(holder);
        }
        return taken;
    }
    void touch(size_t id, const Key& key, const string& holder) {
        Block& block = blocks[id];
        if (id == 0) return;
        require(block.cached && block.key == key, "NotCached", "the block does not have the key");
        require(!block.holders.count(holder), "AlreadyHeld", "a holder holds a block once");
        if (block.holders.empty()) unqueue(block);
        block.holders.insert(holder);
    }
    void free(const vector<size_t>& ids, const string& holder) {
        std::set<size_t> seen;
        for (const size_t id : ids)
            require(id == 0 || (blocks[id].holders.count(holder) && seen.insert(id).second), "NotReferenced",
                    "the holder does not hold the block, or not so often");
        size_t front = blocks[0].after;  // blocks without a key go before what is the front now, in the order given
        for (const size_t id : ids) {
            Block& block = blocks[id];
            block.holders.erase(holder);
            if (block.writer == holder) block.writer.clear();
            if (id == 0 || !block.holders.empty()) continue;
            if (block.cached && front == 0) front = id;
            queue(id, block.cached ? 0 : front);
        }
    }
    void cache(const Request& request, const string& author, const vector<Registration>& wanted, bool replace) {
        vector<Registration> coming;
        for (const Registration& each : wanted) {
            const Block& block = blocks[each.block];
            const Number slot = each.position / sizes_[each.key.group] - 1;
            if (!replace && block.cached && block.key == each.key) continue;
            require(!block.holders.empty(), "NotReferenced", "the block is free");
            require(block.writer == author, "NotOwner", "another holder writes the block");
            require(block.slot < 0 || (block.group == each.key.group && block.slot == slot), "OutOfRange",
                    "the block is another slot until it is reallocated");
            require(replace || !block.cached, "ContentConflict", "the block has another key");
            coming.push_back(each);
        }
        for (const Registration& each : coming) drop(each.block);
        for (const Registration& each : coming) add(each);
        tell_stored(request);
    }
    void evict(const vector<size_t>& ids) {
        for (const size_t id : ids) require(id != 0, "InvalidBlock", "the null block has no keys");
        for (const size_t id : ids) drop(id);
    }
    void reset() {
        require(num_free + 1 == blocks.size(), "StillReferenced", "blocks are referenced");
        for (Block& block : blocks) block.cached = false;
        index.clear();
        events_.push_back(R"({"event":"cleared"})");
    }
    void end_operation() {  // removals come first; a key that left and came back is no news
        vector<string> removed;
        for (size_t turn = 0; turn < dropped_.size(); ++turn) {
            const Key& key = dropped_[turn];
            if (last_drop_[key] == turn && !index.count(key)) removed.push_back(removed_event(key));
        }
        events_.insert(events_.end(), removed.begin(), removed.end());
        events_.insert(events_.end(), stored_.begin(), stored_.end());
        dropped_.clear();
        last_drop_.clear();
        stored_.clear();
        news_.clear();
    }
    vector<string> take_events() { return std::exchange(events_, {}); }

    static string prefix_name(Prefix prefix) { return quoted("p" + plain(prefix)); }

private:
    Number h_;
    vector<Number> sizes_;
    uint64_t next_rank_ = 0;
    vector<string> events_, stored_;
    vector<Key> dropped_;  // by the operation that runs, in order
    std::unordered_map<Key, size_t, HashOfKey> last_drop_;  // key -> its last place there
    vector<Registration> news_;

    void queue(size_t id, size_t before) {  // before 0: last
        Block &block = blocks[id], &next = blocks[before];
        block.before = next.before, block.after = before;
        blocks[next.before].after = id, next.before = id;
        ++num_free;
    }
    void unqueue(const Block& block) {
        blocks[block.before].after = block.after, blocks[block.after].before = block.before;
        --num_free;
    }
    void drop(size_t id) {
        Block& block = blocks[id];
        if (!block.cached) return;
        const auto row = index.find(block.key);
        row->second.erase(block.rank);
        if (row->second.empty()) index.erase(row);
        block.cached = false;
        last_drop_[block.key] = dropped_.size();
        dropped_.push_back(block.key);
    }
    void add(const Registration& each) {
        Block& block = blocks[each.block];
        if (!index.count(each.key) && !last_drop_.count(each.key)) news_.push_back(each);
        block.cached = true, block.key = each.key, block.rank = next_rank_++;
        block.group = each.key.group, block.slot = each.position / sizes_[each.key.group] - 1;
        index[each.key][block.rank] = each.block;
    }
    static string removed_event(const Key& key) {
        return "{\"event\":\"removed\",\"group\":" + plain(key.group) + ",\"hash\":" + prefix_name(key.prefix) + "}";
    }
    static string hash_at(const Registration& each) { return hash_at(each.key.prefix, each.position); }
    static string hash_at(Prefix prefix, Number position) {
        return "{\"hash\":" + prefix_name(prefix) + ",\"position\":" + plain(position) + "}";
    }
    void tell_stored(const Request& request) {  // one event for each run of slots that follow one another
        for (size_t first = 0, next; first < news_.size(); first = next) {
            const Number size = sizes_[news_[first].key.group];
            for (next = first + 1; next < news_.size() && news_[next].position == news_[next - 1].position + size;) ++next;
            stored_.push_back(stored_event(request, {news_.begin() + long(first), news_.begin() + long(next)}));
        }
    }
    string stored_event(const Request& request, const vector<Registration>& run) const {
        Number start = run.front().position - h_;  // the parent is the longest shorter prefix that is resident
        while (start > 0 && !is_resident(request.hashes[size_t(start / h_ - 1)])) start -= h_;
        const Number end = run.back().position;
        vector<Extra> covering;
        for (const Extra& extra : request.extras)
            if (std::max(extra.start, start) < std::min(extra.end, end)) covering.push_back(extra);
        return "{\"event\":\"stored\",\"group\":" + plain(run.front().key.group) +
               ",\"hashes\":" + list(run, [](const Registration& each) { return hash_at(each); }) +
               ",\"parent\":" + (start > 0 ? hash_at(request.hashes[size_t(start / h_ - 1)], start) : "null") +
               ",\"tokens\":" + list(vector(request.tokens.begin() + start, request.tokens.begin() + end), plain) +
               ",\"extra_keys\":" + list(covering, written) + "}";
    }
    bool is_resident(Prefix prefix) const {
        for (size_t group = 0; group < sizes_.size(); ++group)
            if (index.count({Number(group), prefix})) return true;
        return false;
    }
    static string written(const Extra& extra) {
        return "{\"source\":" + quoted(SOURCES[extra.source]) + ",\"value\":" + quoted(extra.value) +
               ",\"start\":" + plain(extra.start) + ",\"end\":" + (extra.end == MAX ? "null" : plain(extra.end)) + "}";
    }
};
