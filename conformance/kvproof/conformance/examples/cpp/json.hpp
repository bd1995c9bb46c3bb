// As much of JSON as the protocol needs: values that are read, and text that is written.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using std::string;
using std::vector;

using Number = int64_t;
constexpr Number MAX = INT64_MAX;

struct Json {
    enum Kind { MISSING, NOTHING, BOOL, INTEGER, REAL, TEXT, LIST, OBJECT } kind = MISSING;
    bool truth = false;
    Number number = 0;  // a larger integer is cut to the largest, which is out of range everywhere
    string text;
    vector<Json> items;
    vector<std::pair<string, Json>> fields;

    const Json& operator[](const char* name) const {
        static const Json missing;
        for (const auto& field : fields)
            if (field.first == name) return field.second;
        return missing;
    }
};

class Reader {
public:
    explicit Reader(const string& line) : at_(line.c_str()) {}

    Json value() {
        Json found;
        switch (skip_spaces()) {
            case '{':
                found.kind = Json::OBJECT;
                for (char next = after('{', '}'); next != '}'; next = separator('}')) {
                    skip_spaces();
                    string name = text();
                    skip_spaces();
                    expect(":");
                    found.fields.emplace_back(std::move(name), value());
                }
                break;
            case '[':
                found.kind = Json::LIST;
                for (char next = after('[', ']'); next != ']'; next = separator(']')) found.items.push_back(value());
                break;
            case '"': found.kind = Json::TEXT; found.text = text(); break;
            case 't': expect("true"); found.kind = Json::BOOL; found.truth = true; break;
            case 'f': expect("false"); found.kind = Json::BOOL; break;
            case 'n': expect("null"); found.kind = Json::NOTHING; break;
            default: number(found);
        }
        return found;
    }

private:
    const char* at_;

    char skip_spaces() {
        while (*at_ == ' ' || *at_ == '\t' || *at_ == '\r') ++at_;
        return *at_;
    }
    void expect(const char* word) {
        for (; *word; ++word)
            if (*at_++ != *word) throw std::runtime_error("a line that is no JSON");
    }
    char after(char open, char close) {  // the first separator: the end, if there is nothing inside
        expect(string(1, open).c_str());
        return skip_spaces() == close ? *at_++ : open;
    }
    char separator(char close) {
        if (skip_spaces() != close) expect(",");
        else ++at_;
        return at_[-1];
    }
    void number(Json& found) {
        char* end;
        found.number = std::strtoll(at_, &end, 10);
        found.kind = Json::INTEGER;
        if (end == at_) throw std::runtime_error("a line that is no JSON");
        if (*end == '.' || *end == 'e' || *end == 'E') {
            std::strtod(at_, &end);
            found.kind = Json::REAL;
        }
        at_ = end;
    }
    string text() {
        string found;
        expect("\"");
        while (*at_ && *at_ != '"') {
            if (*at_ != '\\') {
                found += *at_++;
                continue;
            }
            static const string escapes = "bfnrt", meant = "\b\f\n\r\t";
            const char letter = at_[1];
            at_ += 2;
            const size_t place = escapes.find(letter);
            if (letter == 'u') utf8(found, code_point());
            else found += place == string::npos ? letter : meant[place];
        }
        expect("\"");
        return found;
    }
    uint32_t code_point() {
        const uint32_t first = unit();
        if (first < 0xD800 || first > 0xDBFF) return first;
        expect("\\u");
        return 0x10000 + ((first - 0xD800) << 10) + (unit() - 0xDC00);
    }
    uint32_t unit() {
        const string digits(at_, strnlen(at_, 4));
        at_ += digits.size();
        return static_cast<uint32_t>(std::stoul(digits, nullptr, 16));
    }
    static size_t strnlen(const char* from, size_t most) { return std::find(from, from + most, '\0') - from; }
    static void utf8(string& to, uint32_t code) {
        if (code < 0x80) { to += char(code); return; }
        const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
        to += char((0xFF00 >> (more + 1) & 0xFF) | code >> (6 * more));
        for (int i = more - 1; i >= 0; --i) to += char(0x80 | (code >> (6 * i) & 0x3F));
    }
};

string quoted(const string& text) {
    string written = "\"";
    for (const unsigned char c : text) {
        char escape[8];
        if (c < 0x20) { std::snprintf(escape, sizeof escape, "\\u%04x", c); written += escape; }
        else { if (c == '"' || c == '\\') written += '\\'; written += char(c); }
    }
    return written + '"';
}

template <class Items, class Write>
string list(const Items& items, Write write) {
    string written = "[";
    for (const auto& item : items) (written.size() > 1 ? written += "," : written) += write(item);
    return written + "]";
}

const auto plain = [](auto number) { return std::to_string(number); };
