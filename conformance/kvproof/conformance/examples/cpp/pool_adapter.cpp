// The adapter of a block pool for the kvproof conformance suite.
//
//     g++ -std=c++17 -O2 -o pool_adapter pool_adapter.cpp
//     kvproof certify exec:./pool_adapter
//
// `main` speaks the protocol, `Adapter` turns operations into calls of the pool, and the checks above it see to it that
// the pool gets no junk. The protocol is described in docs/protocol.md.

#include <fstream>
#include <iostream>
#include <memory>

#include "pool.hpp"

Number integer(const Json& value, Number low, Number high, const char* outside = "OutOfRange") {
    if (value.kind != Json::INTEGER) throw Refused{"InvalidArgument", "not an integer"};
    if (value.number < low || value.number > high)
        throw Refused{outside, "allowed is " + plain(low) + " to " + plain(high)};
    return value.number;
}
const vector<Json>& items(const Json& value) {
    if (value.kind != Json::LIST) throw Refused{"InvalidArgument", "not a list"};
    return value.items;
}
const string& name(const Json& value) {
    if (value.kind != Json::TEXT || value.text.empty()) throw Refused{"InvalidArgument", "not a name"};
    return value.text;
}
class Adapter {
public:
    explicit Adapter(const Json& config)
        : h_(config["hash_block_size"].number),
          sizes_(sizes(config)),
          prefixes_(size_t(h_)),
          pool_(size_t(config["num_blocks"].number), h_, sizes_) {}

    string step(const Json& operation, bool observe) {
        string done;
        try {
            done = "{\"result\":" + apply(operation) + "}";
        } catch (const Refused& why) {
            done = "{\"error\":" + quoted(why.error) + ",\"message\":" + quoted(why.message) + "}";
        }
        pool_.end_operation();
        if (!observe) return "{\"answer\":" + done + "}";
        return "{\"answer\":" + done + ",\"seen\":" + observation() +
               ",\"events\":" + list(pool_.take_events(), [](const string& event) { return event; }) + "}";
    }

private:
    Number h_;
    vector<Number> sizes_;
    Prefixes prefixes_;
    Pool pool_;
    std::unordered_map<string, Request> requests_;

    static vector<Number> sizes(const Json& config) {
        for (const auto& [mode, known] : {std::pair("commit", "immediate"), {"residency", "logical"}, {"holders", "named"}})
            if (config[mode].text != known) throw std::runtime_error(string(mode) + " can only be " + known);
        vector<Number> found;
        for (const Json& group : config["groups"].items) found.push_back(group["block_size"].number);
        return found;
    }

    string apply(const Json& operation) {
        const string& op = operation["op"].text;
        if (op == "allocate") {
            const string& holder = name(operation["holder"]);
            return list(pool_.allocate(holder, integer(operation["n"], 0, MAX)), plain);
        }
        if (op == "touch") {
            const size_t id = block(operation["block"]);
            pool_.touch(id, key(operation["key"]), name(operation["holder"]));
        } else if (op == "free") {
            pool_.free(block_list(operation["blocks"]), name(operation["holder"]));
        } else if (op == "cache_full_blocks") {
            cache_full_blocks(operation);
        } else if (op == "evict") {
            pool_.evict(block_list(operation["blocks"]));
        } else if (op == "reset") {
            pool_.reset();
        } else if (op == "add_request" || op == "append" || op == "truncate") {
            change_request(op, operation);
        } else {
            return question(op, operation);
        }
        return "null";
    }

    string question(const string& op, const Json& operation) {
        if (op == "lookup") {
            vector<Key> keys;
            for (const Json& ref : items(operation["keys"])) keys.push_back(key(ref));
            return list(keys, [&](const Key& each) {
                const auto row = pool_.index.find(each);
                return row == pool_.index.end() ? "null" : plain(row->second.begin()->second);
            });
        }
        if (op == "contains") {
            const Key wanted = key(operation["key"]);
            const Block& asked = pool_.blocks[block(operation["block"])];
            return asked.cached && asked.key == wanted ? "true" : "false";
        }
        if (op == "full_key") {
            const Block& asked = pool_.blocks[block(operation["block"])];
            if (!asked.cached) return "null";
            return "[" + plain(asked.key.group) + "," + Pool::prefix_name(asked.key.prefix) + "]";
        }
        if (op == "hashes") return list(request(operation["request"]).hashes, Pool::prefix_name);
        if (op == "take_events") return list(pool_.take_events(), [](const string& event) { return event; });
        throw std::runtime_error("there is no operation " + op + " here");
    }

    void change_request(const string& op, const Json& operation) {
        const string& who = name(operation["request"]);
        if (op == "truncate") {
            Request& changed = request(operation["request"]);
            changed.tokens.resize(size_t(integer(operation["num_tokens"], 0, Number(changed.tokens.size()))));
            return prefixes_.follow(changed);
        }
        vector<uint32_t> tokens;
        for (const Json& token : items(operation["tokens"])) tokens.push_back(uint32_t(integer(token, 0, UINT32_MAX)));
        if (op == "add_request") {
            require(!requests_.count(who), "InvalidArgument", "there is a request of this name");
            vector<Extra> extras = extra_keys(operation["extra_keys"]);
            requests_[who].extras = std::move(extras);
        }
        Request& changed = request(operation["request"]);
        changed.tokens.insert(changed.tokens.end(), tokens.begin(), tokens.end());
        prefixes_.follow(changed);
    }

    void cache_full_blocks(const Json& operation) {
        const Request& author = request(operation["request"]);
        const vector<size_t> table = block_list(operation["blocks"]);
        const Number group = group_of(operation["group"]), size = sizes_[size_t(group)];
        const Number first = integer(operation["first"], 0, MAX), most = Number(author.hashes.size()) * h_ / size;
        const Number last = integer(operation["last"], first, std::min(Number(table.size()), most));
        const Json& mask = operation["mask"];
        if (mask.kind != Json::MISSING && mask.kind != Json::NOTHING) {
            for (const Json& chosen : items(mask)) require(chosen.kind == Json::BOOL, "InvalidArgument", "not a bool");
            require(Number(mask.items.size()) == last - first, "OutOfRange", "the mask has one entry for each slot");
        }
        const Json& replace = operation["replace"];
        require(replace.kind == Json::BOOL || replace.kind == Json::MISSING, "InvalidArgument", "not a bool");
        vector<Registration> wanted;
        std::set<size_t> seen;
        for (Number slot = first; slot < last; ++slot) {
            const size_t id = table[size_t(slot)];
            if (id == 0 || (mask.kind == Json::LIST && !mask.items[size_t(slot - first)].truth)) continue;
            require(seen.insert(id).second, "InvalidBlock", "a block stands in two slots");
            const Number end = (slot + 1) * size;
            wanted.push_back({id, {group, author.hashes[size_t(end / h_ - 1)]}, end});
        }
        pool_.cache(author, operation["request"].text, wanted, replace.truth);
    }

    size_t block(const Json& value) const {
        return size_t(integer(value, 0, Number(pool_.blocks.size()) - 1, "InvalidBlock"));
    }
    vector<size_t> block_list(const Json& value) const {
        vector<size_t> found;
        for (const Json& id : items(value)) found.push_back(block(id));
        return found;
    }
    Number group_of(const Json& value) const { return integer(value, 0, Number(sizes_.size()) - 1, "InvalidGroup"); }
    Request& request(const Json& value) {
        const auto found = requests_.find(name(value));
        require(found != requests_.end(), "InvalidArgument", "there is no such request");
        return found->second;
    }
    Key key(const Json& ref) {
        require(ref.kind == Json::OBJECT, "InvalidArgument", "not a key");
        const Request& whose = request(ref["request"]);
        const Number group = group_of(ref["group"]);
        const Number position = integer(ref["position"], 1, Number(whose.hashes.size()) * h_);
        require(position % h_ == 0, "NotAligned", "not a multiple of the hash block size");
        return {group, whose.hashes[size_t(position / h_ - 1)]};
    }
    static vector<Extra> extra_keys(const Json& value) {
        vector<Extra> found;
        if (value.kind == Json::MISSING) return found;
        for (const Json& each : items(value)) {
            const auto source = std::find(SOURCES.begin(), SOURCES.end(), each["source"].text);
            require(each.kind == Json::OBJECT && source != SOURCES.end() && each["value"].kind == Json::TEXT,
                    "InvalidArgument", "not an extra key");
            const Json &from = each["start"], &to = each["end"];
            const Number start = from.kind == Json::MISSING ? 0 : integer(from, 0, MAX);
            const bool is_open = to.kind == Json::MISSING || to.kind == Json::NOTHING;
            const Number end = is_open ? MAX : integer(to, start + 1, MAX);
            found.push_back({size_t(source - SOURCES.begin()), each["value"].text, start, end});
            require(std::count(found.begin(), found.end(), found.back()) == 1, "InvalidArgument", "given twice");
        }
        return found;
    }

    template <class Write>
    string of_blocks(Write write) const { return list(pool_.blocks, write); }

    string observation() const {
        vector<size_t> queue;
        for (size_t id = pool_.blocks[0].after; id != 0; id = pool_.blocks[id].after) queue.push_back(id);
        return "{\"num_free\":" + plain(pool_.num_free) + ",\"free_queue\":" + list(queue, plain) +
               ",\"ref_cnt\":" + of_blocks([](const Block& b) { return plain(b.holders.size()); }) +
               ",\"holders\":" + of_blocks([](const Block& b) { return list(b.holders, quoted); }) +
               ",\"writers\":" + of_blocks([](const Block& b) { return b.writer.empty() ? "null" : quoted(b.writer); }) +
               ",\"slots\":" + of_blocks([](const Block& b) {
                   return b.slot < 0 ? "null" : "[" + plain(b.group) + "," + plain(b.slot) + "]";
               }) +
               ",\"keys\":" + of_blocks([this](const Block& b) { return b.cached ? "[" + entry(b) + "]" : "[]"; }) +
               ",\"index\":" + list(pool_.index, [](const auto& row) {
                   return "{" + group_and_hash(row.first) + ",\"blocks\":" +
                          list(row.second, [](const auto& each) { return plain(each.second); }) + "}";
               }) + "}";
    }
    string entry(const Block& b) const {
        return "{" + group_and_hash(b.key) + ",\"position\":" + plain((b.slot + 1) * sizes_[size_t(b.group)]) + "}";
    }
    static string group_and_hash(const Key& key) {
        return "\"group\":" + plain(key.group) + ",\"hash\":" + Pool::prefix_name(key.prefix);
    }
};

// The files whose digests go into the certificate: the program, and its sources if they lie beside it.
string driven_files(const string& program) {
    const string folder = program.substr(0, program.rfind('/') + 1);
    vector<string> found;
    for (const string& file : {program, folder + "pool_adapter.cpp", folder + "pool.hpp", folder + "json.hpp"})
        if (std::ifstream(file)) found.push_back(file);
    return list(found, quoted);
}

string introduction(const string& program) {
    return R"({"message":"introduction","protocol":1,)"
    R"("identity":{"name":"example-pool","version":"1","language":"C++","files":)" + driven_files(program) + R"(},)"
    R"("capabilities":{"levels":["P","E","O","R"],)"
    R"("operations":["append","truncate","contains","full_key","hashes","evict","take_events"],)"
    R"("observes":["num_free","free_queue","ref_cnt","holders","writers","slots","keys","index"],)"
    R"("group_kinds":["full_attention","sliding_window","recurrent"],"hashes":["own"],"most_groups":8}})";
}

int main(int, char** arguments) {
    std::ios::sync_with_stdio(false);
    std::unique_ptr<Adapter> adapter;
    for (string line; std::getline(std::cin, line);) {
        string reply;
        try {
            const Json request = Reader(line).value();
            const string& message = request["message"].text;
            if (message == "stop") return 0;
            if (message == "hello" && request["protocol"].number == 1) {
                reply = introduction(arguments[0]);
            } else if (message == "start") {
                adapter = std::make_unique<Adapter>(request["config"]);
                reply = R"({"message":"started"})";
            } else if (message == "run" && adapter) {
                const bool observe = request["observe"].truth;
                const auto run = [&](const Json& operation) { return adapter->step(operation, observe); };
                reply = R"({"message":"steps","steps":)" + list(request["operations"].items, run) + "}";
            } else {
                throw std::runtime_error("a message that is not expected here: " + message);
            }
        } catch (const std::exception& error) {
            reply = R"({"message":"failed","reason":)" + quoted(error.what()) + "}";
        }
        std::cout << reply << '\n' << std::flush;
    }
}
