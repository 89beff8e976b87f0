#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tinker::wire {

/// Where in a document a codec is: "prompt.chunks[0].tokens", or "$" at the top.
class Path {
 public:
  /// Enters a member or an element for the life of this object.
  class Step {
   public:
    Step(Path& path, std::string_view member) : path_(path) { path_.steps_.emplace_back(member); }
    Step(Path& path, std::size_t index) : path_(path) { path_.steps_.emplace_back(index); }
    ~Step() { path_.steps_.pop_back(); }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    Path& path_;
  };

  [[nodiscard]] std::string to_string() const;

 private:
  // Names are views of schema names and of the document, which outlive the step.
  std::vector<std::variant<std::string_view, std::size_t>> steps_;
};

}  // namespace tinker::wire
