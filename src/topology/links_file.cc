// Reads links files: links between GPUs, rails, and the nodes of a job.
#include <algorithm>
#include <array>
#include <set>

#include "base/parse.h"
#include "base/xml.h"
#include "rondo/error.h"
#include "topology/hwloc_file.h"

namespace rondo::topology {
namespace {

using base::complain;

constexpr std::string_view kFirstLine = "rondo-links 1";
constexpr int kMostLinks = 1024; ///< of a GPU; a larger number is taken for a typing error
constexpr std::array<std::string_view, 4> kKeys{"nodes", "nvlink", "nvswitch", "rail"};

using Words = std::vector<std::string>;

class LinksReader {
 public:
  LinksReader(Machine& machine, const std::string& file) : machine_(machine), file_(file) {}

  void read(std::string_view text) {
    bool first = true;
    while (!text.empty()) {
      ++line_;
      const auto end = text.find('\n');
      const std::string_view written = text.substr(0, end);
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
      const std::string_view line = base::trim(written.substr(0, written.find('#')));
      if (line.empty()) continue;
      if (!first) {
        entry(wordsOf(line));
      } else if (line != kFirstLine) {
        refuse("the first line is " + base::quoted(line) + "; valid: " + base::quoted(kFirstLine));
      }
      first = false;
    }
    if (first) refuse("the file is empty; its first line should be " + base::quoted(kFirstLine));
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    complain(file_, std::max(line_, 1), why);
  }

  static Words wordsOf(std::string_view line) {
    Words words;
    while (!line.empty()) {
      const auto end = line.find_first_of(" \t");
      words.emplace_back(line.substr(0, end));
      line = base::trim(end == std::string_view::npos ? std::string_view() : line.substr(end));
    }
    return words;
  }

  void entry(const Words& words) {
    const std::string& key = words.front();
    const auto shape = [&](bool good, const char* valid) {
      if (!good) refuse("'" + key + "' is incomplete or too long; valid: " + valid);
    };
    if (key == "nodes") {
      shape(words.size() > 1, "nodes NAME...");
      nodes(words);
    } else if (key == "nvlink") {
      shape(words.size() == 4, "nvlink GPU GPU COUNT");
      join(gpu(words[1]), gpu(words[2]), countOf(words[3]), false);
    } else if (key == "nvswitch") {
      shape(words.size() > 3, "nvswitch COUNT GPU GPU...");
      for (std::size_t i = 2; i < words.size(); ++i)
        for (std::size_t j = i + 1; j < words.size(); ++j)
          join(gpu(words[i]), gpu(words[j]), countOf(words[1]), true);
    } else if (key == "rail") {
      shape(words.size() == 3, "rail NAME CARD");
      rail(words[1], words[2]);
    } else {
      const std::string_view near = base::nearest(key, kKeys);
      refuse("unknown key " + base::quoted(key) + "; valid: " + base::join(kKeys, ", ") +
             (near.empty() ? "" : "; did you mean " + std::string(near) + "?"));
    }
  }

  void nodes(const Words& words) {
    if (!machine_.nodes.empty()) refuse("the nodes are named twice");
    machine_.nodes.assign(words.begin() + 1, words.end());
    const std::set<std::string> different(machine_.nodes.begin(), machine_.nodes.end());
    if (different.size() < machine_.nodes.size()) refuse("two nodes have the same name");
  }

  int countOf(const std::string& word) const {
    try {
      return static_cast<int>(base::parseInteger(word, "the number of links", 1, kMostLinks));
    } catch (const Error& error) {
      refuse(error.what());
    }
  }

  std::string namesOf(Kind kind) const {
    Words names;
    for (const int i : machine_.all(kind)) names.push_back(machine_.at(i).name);
    return names.empty() ? "none" : base::join(names, ", ");
  }

  int gpu(const std::string& word) const {
    const int found = machine_.device(Kind::gpu, word);
    if (found < 0)
      refuse("there is no GPU " + base::quoted(word) + "; there are " + namesOf(Kind::gpu));
    return machine_.at(found).number;
  }

  void join(int a, int b, int links, bool switched) {
    if (a == b) refuse("a GPU is linked to itself");
    const NvLink made{std::min(a, b), std::max(a, b), links, switched};
    for (const NvLink& other : machine_.nvlinks)
      if (other.a == made.a && other.b == made.b)
        refuse("gpu" + std::to_string(made.a) + " and gpu" + std::to_string(made.b) +
               " are linked twice");
    machine_.nvlinks.push_back(made);
  }

  void rail(const std::string& name, const std::string& word) {
    const int card = machine_.device(Kind::card, word);
    if (card < 0)
      refuse("rail " + base::quoted(name) + ": there is no network card " + base::quoted(word) +
             "; there are " + namesOf(Kind::card));
    for (const Rail& other : machine_.rails) {
      if (other.name == name) refuse("rail " + base::quoted(name) + " is defined twice");
      if (other.card == machine_.at(card).name)
        refuse("card " + other.card + " is in rail " + base::quoted(other.name) + " already");
    }
    machine_.rails.push_back({name, machine_.at(card).name});
  }

  Machine& machine_;
  const std::string& file_;
  int line_ = 0;
};

} // namespace

void addLinks(Machine& machine, std::string_view text, const std::string& file) {
  LinksReader(machine, file).read(text);
}

} // namespace rondo::topology
